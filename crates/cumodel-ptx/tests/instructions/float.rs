use crate::exact::{format, Mode, DOUBLE, MODES, SINGLE};
use crate::harness::{check, check_by};

#[test]
pub fn fused() {
    for ty in ["f32", "f64"] {
        let f = format(ty);
        for name in ["fma", "mad"] {
            for (round, mode) in MODES {
                check_by(
                    &format!("{name}.{round}.{ty} %d, %a, %b, %c;"),
                    &[ty; 3],
                    ty,
                    |v, found| {
                        let expected = f.fma(v[0], v[1], v[2], mode);
                        f.same(found, expected)
                            .then_some(())
                            .ok_or(format!("{expected:#x}"))
                    },
                );
            }
        }
    }
    let f = SINGLE;
    check_by(
        "fma.rn.ftz.f32 %d, %a, %b, %c;",
        &["f32"; 3],
        "f32",
        |v, found| {
            let [a, b, c] = [v[0], v[1], v[2]].map(|word| f.flush(word, true));
            let expected = f.flush(f.fma(a, b, c, Mode::Nearest), true);
            f.same(found, expected)
                .then_some(())
                .ok_or(format!("{expected:#x}"))
        },
    );
}

#[test]
pub fn reciprocals_and_roots() {
    for ty in ["f32", "f64"] {
        let f = format(ty);
        for (round, mode) in MODES {
            let judge = |found: u64, expected: u64| {
                f.same(found, expected)
                    .then_some(())
                    .ok_or(format!("{expected:#x}"))
            };
            check_by(
                &format!("rcp.{round}.{ty} %d, %a;"),
                &[ty],
                ty,
                |v, found| judge(found, f.div(f.one(), v[0], mode)),
            );
            check_by(
                &format!("sqrt.{round}.{ty} %d, %a;"),
                &[ty],
                ty,
                |v, found| {
                    let word = v[0];
                    if word & !f.sign() == 0 || word == f.infinity() {
                        return judge(found, word);
                    }
                    if f.is_nan(word) || word & f.sign() != 0 {
                        return judge(found, f.infinity() | 1);
                    }
                    // A root between two floats is found by squares.
                    let (exact, root) = (f.value(word), f.value(found));
                    let below = |word: u64| f.value(word - 1);
                    let half = num_rational::BigRational::new(1.into(), 2.into());
                    let right = match mode {
                        Mode::Nearest => {
                            let low = (&root + below(found)) * &half;
                            let high = (&root + f.value(found + 1)) * &half;
                            &low * &low <= exact && exact <= &high * &high
                        }
                        Mode::Up => &root * &root >= exact && below(found) * below(found) < exact,
                        Mode::Zero | Mode::Down => {
                            &root * &root <= exact
                                && f.value(found + 1) * f.value(found + 1) > exact
                        }
                    };
                    right.then_some(()).ok_or("the root".to_owned())
                },
            );
        }
    }
}

/// Each within the error that the ISA allows, with the special values of its tables.
#[test]
pub fn approximations() {
    let single = |word: u64| f64::from(f32::from_bits(word as u32));
    // Instruction, the function, and the error allowed: absolute, relative.
    type Row = (&'static str, fn(f64) -> f64, f64, f64);
    let ulp = 2f64.powi(-23);
    let rows: [Row; 8] = [
        ("ex2.approx.f32", |x| 2f64.powf(x), 0.0, 2.0 * ulp),
        ("ex2.approx.ftz.f32", |x| 2f64.powf(x), 0.0, 2.0 * ulp),
        (
            "lg2.approx.f32",
            |x| x.ln() / std::f64::consts::LN_2,
            2f64.powi(-22),
            ulp,
        ),
        ("rcp.approx.f32", |x| x.recip(), 0.0, ulp),
        ("sqrt.approx.f32", |x| x.powf(0.5), 0.0, 2f64.powi(-23)),
        ("rsqrt.approx.f32", |x| x.powf(-0.5), 0.0, 2f64.powf(-22.9)),
        (
            "tanh.approx.f32",
            |x| 1.0 - 2.0 / ((2.0 * x).exp() + 1.0),
            1e-7,
            2f64.powi(-11),
        ),
        ("rcp.approx.ftz.f32", |x| x.recip(), 0.0, ulp),
    ];
    for (name, f, absolute, relative) in rows {
        let flush = name.contains("ftz");
        check_by(&format!("{name} %d, %a;"), &["f32"], "f32", |v, found| {
            let x = single(SINGLE.flush(v[0], flush));
            // -0 has no logarithm but minus infinity, and the reciprocal of its root is minus infinity.
            let exact = match name {
                "sqrt.approx.f32" if x == 0.0 => x,
                "rsqrt.approx.f32" if x == 0.0 => x.recip(),
                "lg2.approx.f32" if x == 0.0 => f64::NEG_INFINITY,
                "sqrt.approx.f32" | "rsqrt.approx.f32" | "lg2.approx.f32" if x < 0.0 => f64::NAN,
                _ => f(x),
            };
            let rounded = SINGLE.flush(u64::from((exact as f32).to_bits()), flush);
            let error = (single(found) - exact).abs();
            let smallest = f64::from(f32::MIN_POSITIVE) * if flush { 1.0 } else { ulp };
            let right = SINGLE.same(found, if exact.is_nan() { 0x7fff_ffff } else { rounded })
                || error <= absolute + relative * exact.abs() + smallest;
            right.then_some(()).ok_or(format!("{exact}"))
        });
    }
    for (name, f) in [("sin", f64::sin as fn(f64) -> f64), ("cos", f64::cos)] {
        check_by(
            &format!("{name}.approx.f32 %d, %a;"),
            &["f32"],
            "f32",
            |v, found| {
                let x = single(v[0]);
                let right = if x.is_finite() {
                    (single(found) - f(x)).abs() <= 2f64.powf(-20.5)
                } else {
                    found == 0x7fff_ffff
                };
                right.then_some(()).ok_or(format!("{}", f(x)))
            },
        );
    }
    for (name, f) in [
        ("rcp", f64::recip as fn(f64) -> f64),
        ("rsqrt", |x| 1.0 / x.sqrt()),
    ] {
        check_by(
            &format!("{name}.approx.ftz.f64 %d, %a;"),
            &["f64"],
            "f64",
            |v, found| {
                let exact = f(f64::from_bits(DOUBLE.flush(v[0], true)));
                let found = f64::from_bits(found);
                let right = (exact.is_nan() && found.is_nan())
                    || found == exact
                    || (found.to_bits() & 0xffff_ffff == 0
                        && ((found - exact) / exact).abs() <= 2f64.powi(-20))
                    || (exact.abs() < f64::MIN_POSITIVE && found == 0.0);
                right.then_some(()).ok_or(format!("{exact}"))
            },
        );
    }
}

#[test]
pub fn signs_are_copied() {
    for ty in ["f32", "f64"] {
        let sign = format(ty).sign();
        check(&format!("copysign.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            v[0] & sign | v[1] & !sign
        });
    }
}

#[test]
pub fn properties() {
    for ty in ["f32", "f64"] {
        let f = format(ty);
        let infinite = |word: u64| word & !f.sign() == f.infinity();
        let rows: [(&str, &dyn Fn(u64) -> bool); 6] = [
            ("finite", &|word| f.is_finite(word)),
            ("infinite", &infinite),
            ("number", &|word| !f.is_nan(word)),
            ("notanumber", &|word| f.is_nan(word)),
            ("normal", &|word| f.is_finite(word) && !f.is_subnormal(word)),
            ("subnormal", &|word| f.is_subnormal(word)),
        ];
        for (name, holds) in rows {
            check(&format!("testp.{name}.{ty} %d, %a;"), &[ty], "pred", |v| {
                u64::from(holds(v[0]))
            });
        }
    }
}
