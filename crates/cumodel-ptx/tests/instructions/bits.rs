use crate::harness::{bits, check, mask, value, word};

#[test]
pub fn logic() {
    for ty in ["b16", "b32", "b64"] {
        check(&format!("and.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            v[0] & v[1]
        });
        check(&format!("or.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            v[0] | v[1]
        });
        check(&format!("xor.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            v[0] ^ v[1]
        });
        check(&format!("not.{ty} %d, %a;"), &[ty], ty, |v| {
            mask(bits(ty)) - v[0]
        });
        check(&format!("cnot.{ty} %d, %a;"), &[ty], ty, |v| {
            u64::from(v[0] == 0)
        });
    }
    let setup = "setp.ne.u32 %p, %a, 0; setp.gt.s32 %q, %b, 1;";
    let truths = |v: &[u64]| (v[0] != 0, value("s32", v[1]) > 1);
    for (name, f) in [
        ("and", (|p, q| p & q) as fn(bool, bool) -> bool),
        ("or", |p, q| p | q),
        ("xor", |p, q| p ^ q),
    ] {
        check(
            &format!("{setup} {name}.pred %d, %p, %q;"),
            &["u32", "s32"],
            "pred",
            |v| u64::from(f(truths(v).0, truths(v).1)),
        );
        check(
            &format!("{setup} {name}.pred %d, !%p, %q;"),
            &["u32", "s32"],
            "pred",
            |v| u64::from(f(!truths(v).0, truths(v).1)),
        );
    }
    check(
        &format!("{setup} not.pred %d, %p;"),
        &["u32", "s32"],
        "pred",
        |v| u64::from(v[0] == 0),
    );
}

#[test]
pub fn shifts() {
    for ty in ["b16", "b32", "b64"] {
        let width = u64::from(bits(ty));
        check(&format!("shl.{ty} %d, %a, %b;"), &[ty, "u32"], ty, |v| {
            if v[1] < width {
                v[0] << v[1] & mask(bits(ty))
            } else {
                0
            }
        });
    }
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64",
    ] {
        // Beyond the width nothing but the sign is left, and 127 places are beyond every width.
        check(&format!("shr.{ty} %d, %a, %b;"), &[ty, "u32"], ty, |v| {
            word(ty, value(ty, v[0]) >> v[1].min(127))
        });
    }
}

#[test]
pub fn funnels() {
    for (mode, clamps) in [("clamp", true), ("wrap", false)] {
        let amount = |v: &[u64]| if clamps { v[2].min(32) } else { v[2] % 32 };
        let both = |v: &[u64]| u128::from(v[1] << 32 | v[0]);
        check(
            &format!("shf.l.{mode}.b32 %d, %a, %b, %c;"),
            &["b32"; 3],
            "b32",
            |v| (both(v) << amount(v) >> 32) as u64 & mask(32),
        );
        check(
            &format!("shf.r.{mode}.b32 %d, %a, %b, %c;"),
            &["b32"; 3],
            "b32",
            |v| (both(v) >> amount(v)) as u64 & mask(32),
        );
    }
}

#[test]
pub fn counts_and_reversals() {
    for ty in ["b32", "b64"] {
        let width = bits(ty);
        let digits = |v: &[u64]| (0..width).map(|bit| v[0] >> bit & 1).collect::<Vec<_>>();
        check(&format!("popc.{ty} %d, %a;"), &[ty], "u32", |v| {
            digits(v).iter().sum()
        });
        check(&format!("clz.{ty} %d, %a;"), &[ty], "u32", |v| {
            digits(v).iter().rev().take_while(|&&bit| bit == 0).count() as u64
        });
        check(&format!("brev.{ty} %d, %a;"), &[ty], ty, |v| {
            digits(v).iter().fold(0, |all, bit| all << 1 | bit)
        });
    }
}

#[test]
pub fn highest_bits() {
    for ty in ["u32", "s32", "u64", "s64"] {
        let width = bits(ty);
        let highest = |v: &[u64]| {
            let magnitude = if value(ty, v[0]) < 0 {
                !value(ty, v[0])
            } else {
                value(ty, v[0])
            };
            (0..width).rev().find(|bit| magnitude >> bit & 1 == 1)
        };
        check(&format!("bfind.{ty} %d, %a;"), &[ty], "u32", |v| {
            highest(v).map_or(mask(32), u64::from)
        });
        check(&format!("bfind.shiftamt.{ty} %d, %a;"), &[ty], "u32", |v| {
            highest(v).map_or(mask(32), |bit| u64::from(width - 1 - bit))
        });
    }
}

/// The pseudo code of the ISA, bit by bit.
#[test]
pub fn fields_are_read() {
    for ty in ["u32", "s32", "u64", "s64"] {
        let top = u64::from(bits(ty)) - 1;
        check(
            &format!("bfe.{ty} %d, %a, %b, %c;"),
            &[ty, "u32", "u32"],
            ty,
            |v| {
                let (position, length) = (v[1] & 0xff, v[2] & 0xff);
                let sign = if ty.starts_with('u') || length == 0 {
                    0
                } else {
                    v[0] >> (position + length - 1).min(top) & 1
                };
                (0..=top).fold(0, |d, i| {
                    d | (if i < length && position + i <= top {
                        v[0] >> (position + i) & 1
                    } else {
                        sign
                    }) << i
                })
            },
        );
    }
}

#[test]
pub fn fields_are_written() {
    for ty in ["b32", "b64"] {
        let top = u64::from(bits(ty)) - 1;
        check(
            &format!("bfi.{ty} %d, %a, %b, %c, %e;"),
            &[ty, ty, "u32", "u32"],
            ty,
            |v| {
                let (position, length) = (v[2] & 0xff, v[3] & 0xff);
                (0..length)
                    .take_while(|i| position + i <= top)
                    .fold(v[1], |d, i| {
                        d & !(1 << (position + i)) | (v[0] >> i & 1) << (position + i)
                    })
            },
        );
    }
}

#[test]
pub fn masks() {
    for (mode, clamps) in [("clamp", true), ("wrap", false)] {
        check(
            &format!("bmsk.{mode}.b32 %d, %a, %b;"),
            &["b32"; 2],
            "b32",
            |v| {
                let limit = |n: u64| if clamps { n.min(32) } else { n % 32 };
                (limit(v[0])..32)
                    .take(limit(v[1]) as usize)
                    .fold(0, |d, bit| d | 1 << bit)
            },
        );
    }
}

#[test]
pub fn extensions() {
    for ty in ["u32", "s32"] {
        for (mode, clamps) in [("clamp", true), ("wrap", false)] {
            check(
                &format!("szext.{mode}.{ty} %d, %a, %b;"),
                &[ty, "u32"],
                ty,
                |v| {
                    if clamps && v[1] >= 32 {
                        return v[0];
                    }
                    let width = v[1] % 32;
                    let low = (0..width).fold(0, |d, bit| d | (v[0] >> bit & 1) << bit);
                    let negative = ty == "s32" && width > 0 && v[0] >> (width - 1) & 1 == 1;
                    if negative {
                        low | (mask(32) << width & mask(32))
                    } else {
                        low
                    }
                },
            );
        }
    }
}

#[test]
pub fn tables_of_three() {
    for table in [0, 0x80, 0xe8, 0x96, 0xca, 0x1f, 255] {
        check(
            &format!("lop3.b32 %d, %a, %b, %c, {table};"),
            &["b32"; 3],
            "b32",
            |v| {
                (0..32).fold(0, |d, bit| {
                    let row = (v[0] >> bit & 1) << 2 | (v[1] >> bit & 1) << 1 | (v[2] >> bit & 1);
                    d | (table >> row & 1) << bit
                })
            },
        );
    }
}

#[test]
pub fn permutations() {
    let byte = |v: &[u64], index: u64| (v[1] << 32 | v[0]) >> (8 * index) & 0xff;
    check("prmt.b32 %d, %a, %b, %c;", &["b32"; 3], "b32", |v| {
        (0..4).fold(0, |d, place| {
            let selector = v[2] >> (4 * place) & 15;
            let chosen = byte(v, selector & 7);
            let chosen = if selector & 8 == 0 {
                chosen
            } else {
                0xff * (chosen >> 7)
            };
            d | chosen << (8 * place)
        })
    });
    // The tables of the ISA: for each control the source bytes from the highest place to the lowest.
    let tables = [
        (
            "f4e",
            [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]],
        ),
        (
            "b4e",
            [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]],
        ),
        (
            "rc8",
            [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
        ),
        (
            "ecl",
            [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]],
        ),
        (
            "ecr",
            [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]],
        ),
        (
            "rc16",
            [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]],
        ),
    ];
    for (mode, table) in tables {
        check(
            &format!("prmt.b32.{mode} %d, %a, %b, %c;"),
            &["b32"; 3],
            "b32",
            |v| {
                table[(v[2] & 3) as usize]
                    .iter()
                    .fold(0, |d, &index| d << 8 | byte(v, index))
            },
        );
    }
}

#[test]
pub fn nth_set() {
    check(
        "and.b32 %b, %b, 31; fns.b32 %d, %a, %b, %c;",
        &["b32", "b32", "s32"],
        "b32",
        |v| {
            let (base, offset) = ((v[1] & 31) as i64, value("s32", v[2]) as i64);
            let set = |bit: &i64| v[0] >> bit & 1 == 1;
            let found = match offset {
                0 => Some(base).filter(set),
                1.. => (base..32).filter(set).nth(offset as usize - 1),
                _ => (0..=base)
                    .rev()
                    .filter(set)
                    .nth(offset.unsigned_abs() as usize - 1),
            };
            found.map_or(mask(32), |bit| bit as u64)
        },
    );
}

#[test]
pub fn dot_products() {
    let part = |ty: &str, word: u64, width: u32, at: u32| {
        let part = i128::from(word >> (width * at) & mask(width));
        if ty == "s32" && part >> (width - 1) == 1 {
            part - (1 << width)
        } else {
            part
        }
    };
    for (a, b) in [
        ("u32", "u32"),
        ("s32", "s32"),
        ("u32", "s32"),
        ("s32", "u32"),
    ] {
        check(
            &format!("dp4a.{a}.{b} %d, %a, %b, %c;"),
            &["b32"; 3],
            "b32",
            |v| {
                let sum: i128 = (0..4)
                    .map(|at| part(a, v[0], 8, at) * part(b, v[1], 8, at))
                    .sum();
                word("u32", sum + i128::from(v[2]))
            },
        );
        for (half, skip) in [("lo", 0), ("hi", 2)] {
            check(
                &format!("dp2a.{half}.{a}.{b} %d, %a, %b, %c;"),
                &["b32"; 3],
                "b32",
                |v| {
                    let sum: i128 = (0..2)
                        .map(|at| part(a, v[0], 16, at) * part(b, v[1], 8, at + skip))
                        .sum();
                    word("u32", sum + i128::from(v[2]))
                },
            );
        }
    }
}
