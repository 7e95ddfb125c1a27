use crate::exact::{format, Format, Mode, MODES};
use crate::harness::{bits, check, check_by, mask, value, word};

const TYPES: [&str; 6] = ["u16", "u32", "u64", "s16", "s32", "s64"];

#[test]
pub fn sums() {
    for ty in TYPES {
        check(&format!("add.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, value(ty, v[0]) + value(ty, v[1]))
        });
        check(&format!("sub.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, value(ty, v[0]) - value(ty, v[1]))
        });
    }
    let clamp = |value: i128| word("s32", value.clamp(i32::MIN.into(), i32::MAX.into()));
    check("add.sat.s32 %d, %a, %b;", &["s32", "s32"], "s32", |v| {
        clamp(value("s32", v[0]) + value("s32", v[1]))
    });
    check("sub.sat.s32 %d, %a, %b;", &["s32", "s32"], "s32", |v| {
        clamp(value("s32", v[0]) - value("s32", v[1]))
    });
    for ty in ["f32", "f64"] {
        let f = format(ty);
        for (name, mode) in MODES {
            let judge = |found: u64, expected: u64| {
                f.same(found, expected)
                    .then_some(())
                    .ok_or(format!("{expected:#x}"))
            };
            check_by(
                &format!("add.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| judge(found, f.add(v[0], v[1], mode)),
            );
            check_by(
                &format!("sub.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| {
                    // A NaN stays one, whatever its sign.
                    judge(found, f.add(v[0], v[1] ^ f.sign(), mode))
                },
            );
        }
    }
}

#[test]
pub fn float_sums_without_a_mode_flushed_and_saturated() {
    let f = format("f32");
    let clamp = |word: u64| match word {
        word if f.is_nan(word) || word & f.sign() != 0 => 0,
        word => word.min(f.one()),
    };
    for (name, combine) in [("add", 0), ("sub", 1), ("mul", 2)] {
        let exact = move |a: u64, b: u64| match combine {
            0 => f.add(a, b, Mode::Nearest),
            1 => f.add(a, b ^ f.sign(), Mode::Nearest),
            _ => f.mul(a, b, Mode::Nearest),
        };
        let judge = |found: u64, expected: u64| {
            f.same(found, expected)
                .then_some(())
                .ok_or(format!("{expected:#x}"))
        };
        check_by(
            &format!("{name}.f32 %d, %a, %b;"),
            &["f32"; 2],
            "f32",
            |v, found| judge(found, exact(v[0], v[1])),
        );
        check_by(
            &format!("{name}.ftz.f32 %d, %a, %b;"),
            &["f32"; 2],
            "f32",
            |v, found| {
                judge(
                    found,
                    f.flush(exact(f.flush(v[0], true), f.flush(v[1], true)), true),
                )
            },
        );
        check(
            &format!("{name}.sat.f32 %d, %a, %b;"),
            &["f32"; 2],
            "f32",
            |v| clamp(exact(v[0], v[1])),
        );
        check(
            &format!("{name}.rz.ftz.sat.f32 %d, 0f3F800000, 0f3E800000;"),
            &["f32"],
            "f32",
            |_| match combine {
                0 => f.one(),
                1 => u64::from(0.75f32.to_bits()),
                _ => u64::from(0.25f32.to_bits()),
            },
        );
    }
}

#[test]
pub fn products() {
    for ty in TYPES {
        let width = bits(ty);
        let product = |v: &[u64]| value(ty, v[0]).wrapping_mul(value(ty, v[1]));
        check(&format!("mul.lo.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, product(v))
        });
        check(&format!("mad.lo.{ty} %d, %a, %b, %c;"), &[ty; 3], ty, |v| {
            word(ty, product(v).wrapping_add(value(ty, v[2])))
        });
        let high = |v: &[u64]| {
            if ty == "u64" {
                ((u128::from(v[0]) * u128::from(v[1])) >> 64) as i128
            } else {
                product(v) >> width
            }
        };
        check(&format!("mul.hi.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, high(v))
        });
        check(&format!("mad.hi.{ty} %d, %a, %b, %c;"), &[ty; 3], ty, |v| {
            word(ty, high(v) + value(ty, v[2]))
        });
        let Some(wide) = [
            ("u16", "u32"),
            ("s16", "s32"),
            ("u32", "u64"),
            ("s32", "s64"),
        ]
        .iter()
        .find(|pair| pair.0 == ty) else {
            continue;
        };
        let wide = wide.1;
        check(
            &format!("mul.wide.{ty} %d, %a, %b;"),
            &[ty, ty],
            wide,
            |v| word(wide, product(v)),
        );
        check(
            &format!("mad.wide.{ty} %d, %a, %b, %c;"),
            &[ty, ty, wide],
            wide,
            |v| word(wide, product(v) + value(wide, v[2])),
        );
    }
    check("mad.hi.sat.s32 %d, %a, %b, %c;", &["s32"; 3], "s32", |v| {
        let high = (value("s32", v[0]) * value("s32", v[1])) >> 32;
        word(
            "s32",
            (high + value("s32", v[2])).clamp(i32::MIN.into(), i32::MAX.into()),
        )
    });
    for ty in ["f32", "f64"] {
        let f = format(ty);
        for (name, mode) in MODES {
            check_by(
                &format!("mul.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| {
                    let expected = f.mul(v[0], v[1], mode);
                    f.same(found, expected)
                        .then_some(())
                        .ok_or(format!("{expected:#x}"))
                },
            );
        }
    }
}

#[test]
pub fn products_of_24_bits() {
    for ty in ["u32", "s32"] {
        let low = |word: u64| {
            let low = i128::from(word & 0xff_ffff);
            if ty == "s32" && low >> 23 == 1 {
                low - (1 << 24)
            } else {
                low
            }
        };
        for (part, shift) in [("lo", 0), ("hi", 16)] {
            let product = |v: &[u64]| (low(v[0]) * low(v[1])) >> shift;
            check(
                &format!("mul24.{part}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v| word(ty, product(v)),
            );
            check(
                &format!("mad24.{part}.{ty} %d, %a, %b, %c;"),
                &[ty; 3],
                ty,
                |v| word(ty, product(v) + value(ty, v[2])),
            );
        }
    }
    check(
        "mad24.hi.sat.s32 %d, %a, %b, %c;",
        &["s32"; 3],
        "s32",
        |v| {
            let low = |word: u64| i128::from((word as i32) << 8 >> 8);
            word(
                "s32",
                (((low(v[0]) * low(v[1])) >> 16) + value("s32", v[2]))
                    .clamp(i32::MIN.into(), i32::MAX.into()),
            )
        },
    );
}

#[test]
pub fn carries() {
    for (ty, width) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let limit = mask(width);
        let unsigned = |word: u64| u128::from(word);
        // The carry out of the first instruction comes back as the sum of two zeros with it.
        check(
            &format!("add.cc.{ty} %d, %a, %b; addc.{ty} %d, 0, 0;"),
            &[ty, ty],
            ty,
            |v| u64::from(unsigned(v[0]) + unsigned(v[1]) > unsigned(limit)),
        );
        check(
            &format!("add.cc.{ty} %d, %a, %b; addc.cc.{ty} %d, %c, %a; addc.{ty} %d, 0, 0;"),
            &[ty; 3],
            ty,
            |v| {
                let first = u128::from(unsigned(v[0]) + unsigned(v[1]) > unsigned(limit));
                u64::from(unsigned(v[2]) + unsigned(v[0]) + first > unsigned(limit))
            },
        );
        // A later instruction without `.cc` leaves the flag alone.
        check(
            &format!("add.cc.{ty} %d, %a, %b; add.{ty} %d, %a, %a; addc.{ty} %d, %a, %b;"),
            &[ty, ty],
            ty,
            |v| {
                let sum = unsigned(v[0]) + unsigned(v[1]);
                word(ty, (sum + u128::from(sum > unsigned(limit))) as i128)
            },
        );
        check(
            &format!("sub.cc.{ty} %d, %a, %b; subc.{ty} %d, %c, %b;"),
            &[ty; 3],
            ty,
            |v| {
                word(
                    ty,
                    i128::from(v[2]) - i128::from(v[1]) - i128::from(v[0] < v[1]),
                )
            },
        );
        check(
            &format!("sub.cc.{ty} %d, %a, %b; subc.cc.{ty} %d, %b, %c; subc.{ty} %d, 0, 0;"),
            &[ty; 3],
            ty,
            |v| {
                let borrow = i128::from(v[0] < v[1]);
                word(
                    ty,
                    -i128::from(i128::from(v[1]) < i128::from(v[2]) + borrow),
                )
            },
        );
        let signed = ty.starts_with('s');
        let product = |v: &[u64], high: bool| {
            let bits = if signed {
                value(ty, v[0]).wrapping_mul(value(ty, v[1])) as u128
            } else {
                unsigned(v[0]) * unsigned(v[1])
            };
            u128::from((bits >> if high { width } else { 0 }) as u64 & limit)
        };
        for (part, high) in [("lo", false), ("hi", true)] {
            check(
                &format!("mad.{part}.cc.{ty} %d, %a, %b, %c; addc.{ty} %d, 0, 0;"),
                &[ty; 3],
                ty,
                |v| u64::from(product(v, high) + unsigned(v[2]) > unsigned(limit)),
            );
            let text = format!("add.cc.{ty} %d, %a, %b; madc.{part}.{ty} %d, %a, %b, %c;");
            let carry = |v: &[u64]| u128::from(unsigned(v[0]) + unsigned(v[1]) > unsigned(limit));
            check(&text, &[ty; 3], ty, |v| {
                word(ty, (product(v, high) + unsigned(v[2]) + carry(v)) as i128)
            });
            let text = format!(
                "add.cc.{ty} %d, %a, %b; madc.{part}.cc.{ty} %d, %a, %b, %c; addc.{ty} %d, 0, 0;"
            );
            check(&text, &[ty; 3], ty, |v| {
                u64::from(product(v, high) + unsigned(v[2]) + carry(v) > unsigned(limit))
            });
        }
    }
}

#[test]
pub fn quotients() {
    for ty in TYPES {
        check(
            &format!("div.{ty} %d, %a, %b;"),
            &[ty, ty],
            ty,
            |v| match value(ty, v[1]) {
                // Not defined by the ISA: what the documentation of this crate says.
                0 => mask(bits(ty)),
                divisor => word(ty, value(ty, v[0]) / divisor),
            },
        );
        check(
            &format!("rem.{ty} %d, %a, %b;"),
            &[ty, ty],
            ty,
            |v| match value(ty, v[1]) {
                0 => v[0],
                divisor => word(ty, value(ty, v[0]) % divisor),
            },
        );
    }
    for ty in ["f32", "f64"] {
        let f = format(ty);
        for (name, mode) in MODES {
            check_by(
                &format!("div.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| {
                    let expected = f.div(v[0], v[1], mode);
                    f.same(found, expected)
                        .then_some(())
                        .ok_or(format!("{expected:#x}"))
                },
            );
        }
    }
    // `.full` within 2 units, here rounded; `.approx` the same but for large divisors.
    let f = format("f32");
    check_by(
        "div.full.f32 %d, %a, %b;",
        &["f32"; 2],
        "f32",
        |v, found| {
            let expected = f.div(v[0], v[1], Mode::Nearest);
            f.same(found, expected)
                .then_some(())
                .ok_or(format!("{expected:#x}"))
        },
    );
    check_by(
        "div.approx.f32 %d, %a, %b;",
        &["f32"; 2],
        "f32",
        |v, found| {
            let large = f.is_finite(v[1]) && f32::from_bits(v[1] as u32).abs() > 2f32.powi(126);
            let expected = match (large, f.is_finite(v[0])) {
                (true, true) => (v[0] ^ v[1]) & f.sign(),
                (true, false) => 0x7fff_ffff,
                _ => f.div(v[0], v[1], Mode::Nearest),
            };
            f.same(found, expected)
                .then_some(())
                .ok_or(format!("{expected:#x}"))
        },
    );
}

#[test]
pub fn differences() {
    for ty in TYPES {
        check(&format!("sad.{ty} %d, %a, %b, %c;"), &[ty; 3], ty, |v| {
            word(
                ty,
                value(ty, v[2]) + (value(ty, v[0]) - value(ty, v[1])).abs(),
            )
        });
    }
}

#[test]
pub fn signs() {
    for ty in ["s16", "s32", "s64"] {
        check(&format!("abs.{ty} %d, %a;"), &[ty], ty, |v| {
            word(ty, value(ty, v[0]).abs())
        });
        check(&format!("neg.{ty} %d, %a;"), &[ty], ty, |v| {
            word(ty, -value(ty, v[0]))
        });
    }
    for (ty, sign) in [
        ("f32", 1 << 31),
        ("f64", 1 << 63),
        ("f16", 1 << 15),
        ("bf16", 1 << 15),
        ("f16x2", 0x8000_8000),
        ("bf16x2", 0x8000_8000),
    ] {
        check(&format!("abs.{ty} %d, %a;"), &[ty], ty, |v| v[0] & !sign);
        check(&format!("neg.{ty} %d, %a;"), &[ty], ty, |v| v[0] ^ sign);
    }
    let f = format("f32");
    check("abs.ftz.f32 %d, %a;", &["f32"], "f32", |v| {
        f.flush(v[0], true) & !f.sign()
    });
    check("neg.ftz.f32 %d, %a;", &["f32"], "f32", |v| {
        f.flush(v[0], true) ^ f.sign()
    });
}

#[test]
pub fn extremes() {
    for ty in TYPES {
        check(&format!("min.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, value(ty, v[0]).min(value(ty, v[1])))
        });
        check(&format!("max.{ty} %d, %a, %b;"), &[ty, ty], ty, |v| {
            word(ty, value(ty, v[0]).max(value(ty, v[1])))
        });
    }
    for ty in ["f32", "f64", "f16", "bf16"] {
        let f = format(ty);
        for (name, largest) in [("min", false), ("max", true)] {
            let judge = |found: u64, expected: u64| {
                f.same(found, expected)
                    .then_some(())
                    .ok_or(format!("{expected:#x}"))
            };
            check_by(
                &format!("{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                ty,
                |v, found| judge(found, extreme(f, v[0], v[1], largest, false)),
            );
            if ty != "f64" {
                check_by(
                    &format!("{name}.NaN.{ty} %d, %a, %b;"),
                    &[ty, ty],
                    ty,
                    |v, found| judge(found, extreme(f, v[0], v[1], largest, true)),
                );
            }
        }
    }
    for ty in ["f16x2", "bf16x2"] {
        let f = format(ty);
        check_by(
            &format!("max.{ty} %d, %a, %b;"),
            &[ty, ty],
            ty,
            |v, found| {
                let halves = [0, 16].map(|shift| {
                    extreme(
                        f,
                        v[0] >> shift & 0xffff,
                        v[1] >> shift & 0xffff,
                        true,
                        false,
                    )
                });
                let same = f.same(found & 0xffff, halves[0]) && f.same(found >> 16, halves[1]);
                same.then_some(()).ok_or(format!("{halves:x?}"))
            },
        );
    }
}

/// The smaller or the larger of two floats, one NaN giving way unless `nan`.
fn extreme(f: Format, a: u64, b: u64, largest: bool, nan: bool) -> u64 {
    // Without NaN, floats are ordered as their bits are: sign and magnitude.
    let key = |word: u64| {
        if word & f.sign() != 0 {
            -((word & !f.sign()) as i64) - 1
        } else {
            word as i64
        }
    };
    match (f.is_nan(a), f.is_nan(b)) {
        (true, true) => f.infinity() | 1,
        (true, false) | (false, true) if nan => f.infinity() | 1,
        (true, false) => b,
        (false, true) => a,
        _ if (key(a) < key(b)) != largest => a,
        _ => b,
    }
}
