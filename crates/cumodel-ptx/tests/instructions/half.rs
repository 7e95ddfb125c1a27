use crate::exact::{format, Format, Mode, BRAIN, HALF};
use crate::harness::check_by;

/// Compares both halves of a pair, or the one float.
fn judge(f: Format, pair: bool, found: u64, expected: [u64; 2]) -> Result<(), String> {
    let low = f.same(found & 0xffff, expected[0]);
    let high = if pair {
        f.same(found >> 16, expected[1])
    } else {
        found >> 16 == 0
    };
    (low && high).then_some(()).ok_or(format!("{expected:x?}"))
}

fn halves(word: u64) -> [u64; 2] {
    [word & 0xffff, word >> 16]
}

#[test]
fn sums_and_products() {
    type Exact = fn(u64, u64) -> u64;
    let operations: [(&str, Exact); 3] = [
        ("add", |a, b| HALF.add(a, b, Mode::Nearest)),
        ("sub", |a, b| HALF.add(a, b ^ HALF.sign(), Mode::Nearest)),
        ("mul", |a, b| HALF.mul(a, b, Mode::Nearest)),
    ];
    for (name, f) in operations {
        for ty in ["f16", "f16x2"] {
            check_by(
                &format!("{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| {
                    let (a, b) = (halves(v[0]), halves(v[1]));
                    judge(HALF, ty == "f16x2", found, [0, 1].map(|at| f(a[at], b[at])))
                },
            );
            check_by(
                &format!("{name}.rn.ftz.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| {
                    let (a, b) = (halves(v[0]), halves(v[1]));
                    let flush = |word| HALF.flush(word, true);
                    judge(
                        HALF,
                        ty == "f16x2",
                        found,
                        [0, 1].map(|at| flush(f(flush(a[at]), flush(b[at])))),
                    )
                },
            );
        }
    }
}

#[test]
fn fused() {
    for ty in ["f16", "f16x2", "bf16", "bf16x2"] {
        let f = format(ty);
        let pair = ty.ends_with("x2");
        let fma = |v: &[u64]| {
            let [a, b, c] = [v[0], v[1], v[2]].map(halves);
            [0, 1].map(|at| f.fma(a[at], b[at], c[at], Mode::Nearest))
        };
        check_by(
            &format!("fma.rn.{ty} %d, %a, %b, %c;"),
            &[ty; 3],
            ty,
            |v, found| judge(f, pair, found, fma(v)),
        );
        check_by(
            &format!("fma.rn.relu.{ty} %d, %a, %b, %c;"),
            &[ty; 3],
            ty,
            |v, found| {
                let relu = |word: u64| {
                    if !f.is_nan(word) && word & f.sign() != 0 {
                        0
                    } else {
                        word
                    }
                };
                judge(f, pair, found, fma(v).map(relu))
            },
        );
    }
    check_by(
        "fma.rn.sat.f16 %d, %a, %b, %c;",
        &["f16"; 3],
        "f16",
        |v, found| {
            let result = HALF.fma(v[0], v[1], v[2], Mode::Nearest);
            let clamped = if HALF.is_nan(result) || result & HALF.sign() != 0 {
                0
            } else {
                result.min(HALF.one())
            };
            judge(HALF, false, found, [clamped, 0])
        },
    );
}

#[test]
fn comparisons_and_conversions_of_brain_floats() {
    check_by(
        "setp.lt.bf16 %d, %a, %b;",
        &["bf16"; 2],
        "pred",
        |v, found| {
            let less = !BRAIN.is_nan(v[0])
                && !BRAIN.is_nan(v[1])
                && f32::from_bits((v[0] as u32) << 16) < f32::from_bits((v[1] as u32) << 16);
            (found == u64::from(less))
                .then_some(())
                .ok_or(less.to_string())
        },
    );
}
