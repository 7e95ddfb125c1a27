//! Logic, counts and shifts.
use super::form::{with_integer, Form, Problem};
use super::function::Builder;
use crate::code::{Op, Reg};
use crate::exec::lanes::{blend, one, three, two, whole};
use crate::types::{truncate, Type};

const BITS: &[Type] = &[Type::B16, Type::B32, Type::B64];
pub(super) const WORDS: &[Type] = &[Type::B32, Type::B64];
pub(super) const FIELDS: &[Type] = &[Type::U32, Type::S32, Type::U64, Type::S64];

/// `d = f(a, b)` on registers or on predicates.
fn logic<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    f: impl Fn(u64, u64) -> u64 + Copy + Send + Sync + 'static,
) -> Result<Op, Problem> {
    if form.take("pred") {
        let [d, a, b] = form.finish()?;
        let (d, (a, not_a), (b, not_b)) = (
            destination(builder, d)?,
            builder.scope.truth(a)?,
            builder.scope.truth(b)?,
        );
        return Ok(whole(move |frame, mask| {
            let value = |pred: u32, negated| {
                let bits = frame.preds[pred as usize];
                u64::from(if negated { !bits } else { bits })
            };
            let result = f(value(a, not_a), value(b, not_b)) as u32;
            frame.preds[d as usize] = blend(frame.preds[d as usize], result, mask);
        }));
    }
    let ty = form.ty(BITS)?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    Ok(two(d, sources, f))
}

/// A predicate that is written.
pub(super) fn destination<'a>(
    builder: &mut Builder<'_, 'a>,
    operand: &crate::syntax::ast::Operand<'a>,
) -> Result<u32, Problem> {
    match builder.scope.truth(operand)? {
        (pred, false) => Ok(pred),
        _ => Err("a destination cannot be negated".to_owned()),
    }
}

pub(super) fn and<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    logic(form, builder, |a, b| a & b)
}

pub(super) fn or<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    logic(form, builder, |a, b| a | b)
}

pub(super) fn xor<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    logic(form, builder, |a, b| a ^ b)
}

pub(super) fn not<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("pred") {
        let [d, a] = form.finish()?;
        let (d, (a, negated)) = (destination(builder, d)?, builder.scope.truth(a)?);
        return Ok(whole(move |frame, mask| {
            let bits = frame.preds[a as usize];
            frame.preds[d as usize] = blend(
                frame.preds[d as usize],
                if negated { bits } else { !bits },
                mask,
            );
        }));
    }
    unary(form, builder, BITS, |a, bits| truncate(!a, bits))
}

/// 1 for zero, else 0.
pub(super) fn cnot<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    unary(form, builder, BITS, |a, _| u64::from(a == 0))
}

pub(super) fn brev<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    unary(form, builder, WORDS, |a, bits| {
        a.reverse_bits() >> (64 - bits)
    })
}

/// `d = f(a, bits)` with a destination of the same type.
fn unary<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    types: &[Type],
    f: fn(u64, u32) -> u64,
) -> Result<Op, Problem> {
    let ty = form.ty(types)?;
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let a = builder.scope.source(a, ty)?;
    let bits = ty.bits();
    Ok(one(d, a, move |a: u64| f(a, bits)))
}

/// `d = f(a, bits)` with a destination of 32 bits.
fn counted<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    types: &[Type],
    f: fn(u64, Type) -> u32,
) -> Result<Op, Problem> {
    let ty = form.ty(types)?;
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let a = builder.scope.source(a, ty)?;
    Ok(one(d, a, move |a: u64| f(a, ty)))
}

pub(super) fn popc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    counted(form, builder, WORDS, |a, _| a.count_ones())
}

pub(super) fn clz<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    counted(form, builder, WORDS, |a, ty| {
        a.leading_zeros() - (64 - ty.bits())
    })
}

/// The highest bit that differs from the sign; all ones if there is none.
fn highest(a: u64, ty: Type) -> u32 {
    let bits = ty.bits();
    let a = if ty.is_signed() && a >> (bits - 1) & 1 == 1 {
        truncate(!a, bits)
    } else {
        a
    };
    a.checked_ilog2().unwrap_or(u32::MAX)
}

pub(super) fn bfind<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("shiftamt") {
        return counted(form, builder, FIELDS, |a, ty| match highest(a, ty) {
            u32::MAX => u32::MAX,
            bit => ty.bits() - 1 - bit,
        });
    }
    counted(form, builder, FIELDS, highest)
}

/// Sources of a shift: a value, and an amount of 32 bits.
fn shifted<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
) -> Result<(Reg, [Reg; 2]), Problem> {
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    Ok((
        d,
        [
            builder.scope.source(a, ty)?,
            builder.scope.source(b, Type::U32)?,
        ],
    ))
}

/// Amounts beyond the width shift everything out.
pub(super) fn shl<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(BITS)?;
    let (d, sources) = shifted(form, builder, ty)?;
    with_integer!(ty, T => Ok(two(d, sources, |a: T, n: u32| if n < T::BITS { a << n } else { 0 })))
}

/// Amounts beyond the width leave zeros, or signs.
pub(super) fn shr<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let types = [
        BITS,
        &[
            Type::U16,
            Type::U32,
            Type::U64,
            Type::S16,
            Type::S32,
            Type::S64,
        ],
    ]
    .concat();
    let ty = form.ty(&types)?;
    let (d, sources) = shifted(form, builder, ty)?;
    // Two shifts, because one by the whole width does not exist.
    with_integer!(ty, T => Ok(two(d, sources, |a: T, n: u32| if n < T::BITS { a >> n } else { (a >> (T::BITS - 1)) >> 1 })))
}

/// A shift through two words.
pub(super) fn shf<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let left = form.require(&[("l", true), ("r", false)])?;
    let clamps = form.require(&[("clamp", true), ("wrap", false)])?;
    let ty = form.ty(&[Type::B32])?;
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    Ok(three(
        d,
        sources,
        move |low: u32, high: u32, amount: u32| {
            let amount = if clamps { amount.min(32) } else { amount & 31 };
            let both = u64::from(high) << 32 | u64::from(low);
            if left {
                ((both << amount) >> 32) as u32
            } else {
                (both >> amount) as u32
            }
        },
    ))
}
