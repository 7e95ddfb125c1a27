//! Comparisons and what is chosen by them.
use super::bits::destination;
use super::float::with_real;
use super::form::{with_integer, Form, Problem};
use super::function::Builder;
use super::half::Format;
use super::rounding::Real;
use crate::code::{Op, Pred};
use crate::exec::lanes::{compare, set as set_lanes, set_pred, three, whole, Compare, Frame};
use crate::syntax::ast::Operand;
use crate::types::Type;

const TYPES: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
    Type::F16,
    Type::Bf16,
];
const SELECTED: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
];

/// What holds if the operands are ordered, and what if one of them is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relation {
    less: bool,
    equal: bool,
    greater: bool,
    unordered: bool,
}

const fn relation(less: bool, equal: bool, greater: bool, unordered: bool) -> Relation {
    Relation {
        less,
        equal,
        greater,
        unordered,
    }
}

const RELATIONS: &[(&str, Relation)] = &[
    ("eq", relation(false, true, false, false)),
    ("ne", relation(true, false, true, false)),
    ("lt", relation(true, false, false, false)),
    ("le", relation(true, true, false, false)),
    ("gt", relation(false, false, true, false)),
    ("ge", relation(false, true, true, false)),
];
/// Of unsigned integers.
const UNSIGNED: &[(&str, Relation)] = &[
    ("lo", relation(true, false, false, false)),
    ("ls", relation(true, true, false, false)),
    ("hi", relation(false, false, true, false)),
    ("hs", relation(false, true, true, false)),
];
/// Of floats: the forms that hold for NaN.
const UNORDERED: &[(&str, Relation)] = &[
    ("equ", relation(false, true, false, true)),
    ("neu", relation(true, false, true, true)),
    ("ltu", relation(true, false, false, true)),
    ("leu", relation(true, true, false, true)),
    ("gtu", relation(false, false, true, true)),
    ("geu", relation(false, true, true, true)),
    ("num", relation(true, true, true, false)),
    ("nan", relation(false, false, false, true)),
];

/// How a comparison and another predicate are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    And,
    Or,
    Xor,
}

/// A comparison with everything that its modifiers say.
struct Comparison {
    compare: Compare,
    join: Option<(Join, Pred, bool)>,
}

impl Comparison {
    /// The result and the one computed from the complement.
    fn run(&self, frame: &Frame<'_>, mask: u32) -> (u32, u32) {
        let truth = (self.compare)(frame, mask);
        let Some((join, pred, negated)) = self.join else {
            return (truth, !truth);
        };
        let other = frame.preds[pred as usize];
        let other = if negated { !other } else { other };
        match join {
            Join::And => (truth & other, !truth & other),
            Join::Or => (truth | other, !truth | other),
            Join::Xor => (truth ^ other, !truth ^ other),
        }
    }
}

/// The comparison of a `set` or `setp`, whose destination types were taken already.
fn comparison<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<(Comparison, Operand<'a>), Problem> {
    let ty = form.ty(TYPES)?;
    let mut relations = RELATIONS.to_vec();
    if ty.is_float() {
        relations.extend(UNORDERED);
    } else if ty.is_untyped() {
        // Bits without a meaning are equal or not, and nothing else.
        relations.truncate(2);
    } else if !ty.is_signed() {
        relations.extend(UNSIGNED);
    }
    let relation = form.require(&relations)?;
    let flush = matches!(ty, Type::F32 | Type::F16) && form.take("ftz");
    let join = form.choose(&[("and", Join::And), ("or", Join::Or), ("xor", Join::Xor)]);
    form.no_more_modifiers()?;
    let (d, a, b, join) = match (&form.inst.operands[..], join) {
        ([d, a, b], None) => (d, a, b, None),
        ([d, a, b, c], Some(join)) => {
            let (pred, negated) = builder.scope.truth(c)?;
            (d, a, b, Some((join, pred, negated)))
        }
        (operands, _) => return Err(format!("{} operands do not fit this form", operands.len())),
    };
    let sources = builder.scope.sources([a, b], ty)?;
    let Relation {
        less,
        equal,
        greater,
        unordered,
    } = relation;
    let compare: Compare = match ty {
        Type::F32 | Type::F64 => with_real!(ty, T => compare(sources, move |a: T, b: T| {
            let (a, b) = (a.flushed(flush), b.flushed(flush));
            (less && a < b) || (equal && a == b) || (greater && a > b) || (unordered && (a.is_nan() || b.is_nan()))
        })),
        Type::F16 | Type::Bf16 => {
            let (format, _) = Format::of(ty);
            compare(sources, move |a: u16, b: u16| {
                let (a, b) = (format.to_double(a), format.to_double(b));
                (less && a < b)
                    || (equal && a == b)
                    || (greater && a > b)
                    || (unordered && (a.is_nan() || b.is_nan()))
            })
        }
        _ => with_integer!(ty, T => match (less, equal, greater) {
            (false, true, false) => compare(sources, |a: T, b: T| a == b),
            (true, false, true) => compare(sources, |a: T, b: T| a != b),
            (true, false, false) => compare(sources, |a: T, b: T| a < b),
            (true, true, false) => compare(sources, |a: T, b: T| a <= b),
            (false, false, true) => compare(sources, |a: T, b: T| a > b),
            _ => compare(sources, |a: T, b: T| a >= b),
        }),
    };
    Ok((Comparison { compare, join }, d.clone()))
}

/// A predicate that is written, or `_`.
fn optional<'a>(builder: &mut Builder<'_, 'a>, name: &'a str) -> Result<Option<Pred>, Problem> {
    if name == "_" {
        return Ok(None);
    }
    builder.scope.predicate(name).map(Some)
}

pub(super) fn setp<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let (comparison, d) = comparison(form, builder)?;
    let (p, q) = match d {
        Operand::Name(p, 0) => (optional(builder, p)?, None),
        Operand::Pair(p, q) => (optional(builder, p)?, optional(builder, q)?),
        _ => return Err("the destination must be a predicate".to_owned()),
    };
    Ok(whole(move |frame, mask| {
        let (truth, complement) = comparison.run(frame, mask);
        set_pred(frame, p, truth, mask);
        set_pred(frame, q, complement, mask);
    }))
}

pub(super) fn set<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::U32, Type::S32, Type::F32, Type::F16])?;
    let (comparison, d) = comparison(form, builder)?;
    let d = builder.scope.destination(&d, ty.bits())?;
    let yes = match ty {
        Type::F32 => u64::from(1f32.to_bits()),
        // One, in half precision.
        Type::F16 => 0x3c00,
        _ => u64::from(u32::MAX),
    };
    Ok(whole(move |frame, mask| {
        let (truth, _) = comparison.run(frame, mask);
        set_lanes(&mut frame.regs[d as usize], mask, |lane| {
            if truth >> lane & 1 == 1 {
                yes
            } else {
                0
            }
        });
    }))
}

/// Chooses by a predicate.
pub(super) fn selp<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("pred") {
        let [d, a, b, p] = form.finish()?;
        let d = destination(builder, d)?;
        let [a, b, p] = [
            builder.scope.truth(a)?,
            builder.scope.truth(b)?,
            builder.scope.truth(p)?,
        ];
        return Ok(whole(move |frame, mask| {
            let [a, b, p] = [a, b, p].map(|(pred, negated)| {
                let bits = frame.preds[pred as usize];
                if negated {
                    !bits
                } else {
                    bits
                }
            });
            set_pred(frame, Some(d), (a & p) | (b & !p), mask);
        }));
    }
    let ty = form.ty(SELECTED)?;
    let [d, a, b, p] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let [a, b] = builder.scope.sources([a, b], ty)?;
    let (p, negated) = builder.scope.truth(p)?;
    Ok(whole(move |frame, mask| {
        let truth = frame.preds[p as usize] ^ if negated { u32::MAX } else { 0 };
        let (a, b) = (frame.regs[a as usize], frame.regs[b as usize]);
        set_lanes(&mut frame.regs[d as usize], mask, |lane| {
            if truth >> lane & 1 == 1 {
                a[lane]
            } else {
                b[lane]
            }
        });
    }))
}

/// Chooses by a sign.
pub(super) fn slct<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let flush = form.take("ftz");
    let ty = form.ty(SELECTED)?;
    let by = form.ty(&[Type::S32, Type::F32])?;
    if flush && by != Type::F32 {
        return Err("modifier `.ftz` is not supported here".to_owned());
    }
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let [a, b] = builder.scope.sources([a, b], ty)?;
    let sources = [a, b, builder.scope.source(c, by)?];
    Ok(match by {
        Type::S32 => three(
            d,
            sources,
            |a: u64, b: u64, c: i32| if c >= 0 { a } else { b },
        ),
        // NaN is not above zero; -0 is.
        _ => three(
            d,
            sources,
            move |a: u64, b: u64, c: f32| if c.flushed(flush) >= 0.0 { a } else { b },
        ),
    })
}
