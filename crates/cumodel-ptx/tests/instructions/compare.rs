use crate::harness::{check, value};
use std::cmp::Ordering;

type Holds = fn(Option<Ordering>) -> bool;

const ORDERED: [(&str, Holds); 6] = [
    ("eq", |o| o == Some(Ordering::Equal)),
    ("ne", |o| o.is_some_and(|o| o != Ordering::Equal)),
    ("lt", |o| o == Some(Ordering::Less)),
    ("le", |o| o.is_some_and(|o| o != Ordering::Greater)),
    ("gt", |o| o == Some(Ordering::Greater)),
    ("ge", |o| o.is_some_and(|o| o != Ordering::Less)),
];
const UNSIGNED: [(&str, Holds); 4] = [
    ("lo", |o| o == Some(Ordering::Less)),
    ("ls", |o| o != Some(Ordering::Greater)),
    ("hi", |o| o == Some(Ordering::Greater)),
    ("hs", |o| o != Some(Ordering::Less)),
];
const UNORDERED: [(&str, Holds); 8] = [
    ("equ", |o| o.is_none_or(|o| o == Ordering::Equal)),
    ("neu", |o| o != Some(Ordering::Equal)),
    ("ltu", |o| o.is_none_or(|o| o == Ordering::Less)),
    ("leu", |o| o != Some(Ordering::Greater)),
    ("gtu", |o| o.is_none_or(|o| o == Ordering::Greater)),
    ("geu", |o| o != Some(Ordering::Less)),
    ("num", |o| o.is_some()),
    ("nan", |o| o.is_none()),
];

fn float(ty: &str, word: u64) -> f64 {
    match ty {
        "f32" => f32::from_bits(word as u32).into(),
        _ => f64::from_bits(word),
    }
}

#[test]
pub fn integers() {
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64",
    ] {
        let ordered = |v: &[u64]| Some(value(ty, v[0]).cmp(&value(ty, v[1])));
        let relations = if ty.starts_with('b') {
            &ORDERED[..2]
        } else {
            &ORDERED[..]
        };
        let more = if ty.starts_with('u') {
            &UNSIGNED[..]
        } else {
            &[]
        };
        for (name, holds) in relations.iter().chain(more) {
            check(
                &format!("setp.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                "pred",
                |v| u64::from(holds(ordered(v))),
            );
        }
    }
}

#[test]
fn floats() {
    for ty in ["f32", "f64"] {
        for (name, holds) in ORDERED.iter().chain(&UNORDERED) {
            check(
                &format!("setp.{name}.{ty} %d, %a, %b;"),
                &[ty, ty],
                "pred",
                |v| u64::from(holds(float(ty, v[0]).partial_cmp(&float(ty, v[1])))),
            );
        }
    }
    check(
        "setp.eq.ftz.f32 %d, %a, 0f00000001;",
        &["f32"],
        "pred",
        |v| {
            let a = f32::from_bits(v[0] as u32);
            u64::from(a == 0.0 || a.is_subnormal())
        },
    );
}

#[test]
fn joined_and_complemented() {
    for (join, f) in [
        ("and", (|a, b| a & b) as fn(bool, bool) -> bool),
        ("or", |a, b| a | b),
        ("xor", |a, b| a ^ b),
    ] {
        for (sign, negated) in [("", false), ("!", true)] {
            let setup = format!("setp.gt.s32 %q, %c, 4; setp.lt.{join}.s32 ");
            let truths = |v: &[u64]| {
                (
                    value("s32", v[0]) < value("s32", v[1]),
                    (value("s32", v[2]) > 4) != negated,
                )
            };
            check(
                &format!("{setup} %d, %a, %b, {sign}%q;"),
                &["s32"; 3],
                "pred",
                |v| u64::from(f(truths(v).0, truths(v).1)),
            );
            check(
                &format!("{setup} %p|%d, %a, %b, {sign}%q;"),
                &["s32"; 3],
                "pred",
                |v| u64::from(f(!truths(v).0, truths(v).1)),
            );
            check(
                &format!("{setup} _|%d, %a, %b, {sign}%q;"),
                &["s32"; 3],
                "pred",
                |v| u64::from(f(!truths(v).0, truths(v).1)),
            );
        }
    }
}

#[test]
pub fn sets() {
    for (ty, yes) in [
        ("u32", 0xffff_ffff),
        ("s32", 0xffff_ffff),
        ("f32", u64::from(1f32.to_bits())),
        ("f16", 0x3c00),
    ] {
        check(
            &format!("set.lt.{ty}.s64 %d, %a, %b;"),
            &["s64"; 2],
            ty,
            |v| if (v[0] as i64) < v[1] as i64 { yes } else { 0 },
        );
        check(
            &format!("set.neu.{ty}.f64 %d, %a, %b;"),
            &["f64"; 2],
            ty,
            |v| {
                if f64::from_bits(v[0]) == f64::from_bits(v[1]) {
                    0
                } else {
                    yes
                }
            },
        );
        check(
            &format!("setp.gt.u32 %p, %a, 7; set.eq.or.{ty}.u32 %d, %a, %b, %p;"),
            &["u32"; 2],
            ty,
            |v| {
                if v[0] > 7 || v[0] == v[1] {
                    yes
                } else {
                    0
                }
            },
        );
    }
}

#[test]
pub fn selections() {
    for ty in ["b16", "b32", "b64", "f32", "f64"] {
        check(
            &format!("setp.lt.s32 %p, %c, 3; selp.{ty} %d, %a, %b, %p;"),
            &[ty, ty, "s32"],
            ty,
            |v| {
                if value("s32", v[2]) < 3 {
                    v[0]
                } else {
                    v[1]
                }
            },
        );
        check(
            &format!("slct.{ty}.s32 %d, %a, %b, %c;"),
            &[ty, ty, "s32"],
            ty,
            |v| if value("s32", v[2]) >= 0 { v[0] } else { v[1] },
        );
        for (ftz, flush) in [("", false), (".ftz", true)] {
            check(
                &format!("slct{ftz}.{ty}.f32 %d, %a, %b, %c;"),
                &[ty, ty, "f32"],
                ty,
                |v| {
                    let c = f32::from_bits(v[2] as u32);
                    if c >= 0.0 || (flush && c.is_subnormal()) {
                        v[0]
                    } else {
                        v[1]
                    }
                },
            );
        }
    }
    check(
        "setp.lt.s32 %p, %a, 3; selp.b32 %d, %a, %b, !%p;",
        &["s32"; 2],
        "s32",
        |v| if value("s32", v[0]) < 3 { v[1] } else { v[0] },
    );
}
