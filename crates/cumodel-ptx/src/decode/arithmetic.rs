//! Arithmetic whose form depends on the type: integers here, floats in `float` and `half`.
use super::form::{with_integer, Form, Problem, INTEGERS};
use super::function::Builder;
use super::{carry, float, half};
use crate::code::Op;
use crate::exec::lanes::{one, three, two};
use crate::types::{truncate, Lane, Type};

/// What the arithmetic of integers has in common.
pub(super) trait Integer: Lane + Ord {
    /// The value itself; 64-bit values and products fit easily.
    fn wide(self) -> i128;
    /// The low bits of a value.
    fn narrow(value: i128) -> Self;
    const MIN: i128;
    const MAX: i128;
}

macro_rules! integer {
    ($($ty:ident),*) => {$(
        impl Integer for $ty {
            #[inline(always)]
            fn wide(self) -> i128 {
                i128::from(self)
            }
            #[inline(always)]
            fn narrow(value: i128) -> Self {
                value as $ty
            }
            const MIN: i128 = $ty::MIN as i128;
            const MAX: i128 = $ty::MAX as i128;
        }
    )*};
}
integer!(u8, i8, u16, i16, u32, i32, u64, i64);

const SIGNED: &[Type] = &[Type::S16, Type::S32, Type::S64];
const WITH_FLOATS: &[Type] = &[
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::F16x2,
    Type::Bf16,
    Type::Bf16x2,
    Type::F32,
    Type::F64,
];

fn saturated(value: i128) -> i32 {
    value.clamp(<i32 as Integer>::MIN, <i32 as Integer>::MAX) as i32
}

pub(super) fn add<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("cc") {
        return carry::add_cc(form, builder);
    }
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::binary(form, builder, ty, float::Binary::Add);
    }
    let saturates = ty == Type::S32 && form.take("sat");
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    if saturates {
        return Ok(two(d, sources, |a: i32, b: i32| a.saturating_add(b)));
    }
    with_integer!(ty, T => Ok(two(d, sources, |a: T, b: T| a.wrapping_add(b))))
}

pub(super) fn sub<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("cc") {
        return carry::sub_cc(form, builder);
    }
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::binary(form, builder, ty, float::Binary::Sub);
    }
    let saturates = ty == Type::S32 && form.take("sat");
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    if saturates {
        return Ok(two(d, sources, |a: i32, b: i32| a.saturating_sub(b)));
    }
    with_integer!(ty, T => Ok(two(d, sources, |a: T, b: T| a.wrapping_sub(b))))
}

/// Which part of a product is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Lo,
    Hi,
    Wide,
}

pub(super) const PARTS: &[(&str, Part)] =
    &[("lo", Part::Lo), ("hi", Part::Hi), ("wide", Part::Wide)];

/// The type of a wide product.
fn doubled(ty: Type) -> Result<Type, Problem> {
    Ok(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return Err("`.wide` has no 128-bit form".to_owned()),
    })
}

pub(super) fn mul<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::binary(form, builder, ty, float::Binary::Mul);
    }
    let part = form.require(PARTS)?;
    let [d, a, b] = form.finish()?;
    let result = if part == Part::Wide { doubled(ty)? } else { ty };
    let d = builder.scope.destination(d, result.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    let bits = ty.bits();
    with_integer!(ty, T => match part {
        Part::Lo => Ok(two(d, sources, |a: T, b: T| a.wrapping_mul(b))),
        Part::Hi => Ok(two(d, sources, move |a: T, b: T| T::narrow((a.wide() * b.wide()) >> bits))),
        // At most 32 bits by 32, so nothing is lost.
        Part::Wide => {
            let width = result.bits();
            Ok(two(d, sources, move |a: T, b: T| truncate((a.wide() * b.wide()) as u64, width)))
        }
    })
}

pub(super) fn mad<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("cc") {
        return carry::mad_cc(form, builder);
    }
    if form
        .inst
        .modifiers
        .iter()
        .any(|modifier| matches!(*modifier, "f32" | "f64"))
    {
        return float::fma(form, builder);
    }
    let ty = form.ty(INTEGERS)?;
    let part = form.require(PARTS)?;
    let saturates = part == Part::Hi && ty == Type::S32 && form.take("sat");
    let [d, a, b, c] = form.finish()?;
    let result = if part == Part::Wide { doubled(ty)? } else { ty };
    let d = builder.scope.destination(d, result.bits())?;
    let [a, b] = builder.scope.sources([a, b], ty)?;
    let sources = [a, b, builder.scope.source(c, result)?];
    if saturates {
        return Ok(three(d, sources, |a: i32, b: i32, c: i32| {
            saturated(((a.wide() * b.wide()) >> 32) + c.wide())
        }));
    }
    let bits = ty.bits();
    with_integer!(ty, T => match part {
        Part::Lo => Ok(three(d, sources, |a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c))),
        Part::Hi => Ok(three(d, sources, move |a: T, b: T, c: T| T::narrow(((a.wide() * b.wide()) >> bits) + c.wide()))),
        Part::Wide => {
            let width = result.bits();
            Ok(three(d, sources, move |a: T, b: T, c: u64| {
                truncate((a.wide() * b.wide() + i128::from(c)) as u64, width)
            }))
        }
    })
}

/// The low 24 bits, as the type reads them.
fn low_24(value: u32, signed: bool) -> i64 {
    if signed {
        i64::from((value << 8) as i32 >> 8)
    } else {
        i64::from(value & 0xff_ffff)
    }
}

pub(super) fn mul24<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::U32, Type::S32])?;
    let high = form.require(&[("lo", false), ("hi", true)])?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let signed = ty.is_signed();
    let shift = if high { 16 } else { 0 };
    let sources = builder.scope.sources([a, b], ty)?;
    Ok(two(d, sources, move |a: u32, b: u32| {
        ((low_24(a, signed) * low_24(b, signed)) >> shift) as u32
    }))
}

pub(super) fn mad24<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::U32, Type::S32])?;
    let high = form.require(&[("lo", false), ("hi", true)])?;
    let signed = ty.is_signed();
    let saturates = high && signed && form.take("sat");
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let shift = if high { 16 } else { 0 };
    let sources = builder.scope.sources([a, b, c], ty)?;
    Ok(three(d, sources, move |a: u32, b: u32, c: u32| {
        let product = (low_24(a, signed) * low_24(b, signed)) >> shift;
        if saturates {
            return saturated(i128::from(product as i32) + (c as i32).wide()) as u32;
        }
        (product as u32).wrapping_add(c)
    }))
}

/// `|a - b| + c`
pub(super) fn sad<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(INTEGERS)?;
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    with_integer!(ty, T => Ok(three(d, sources, |a: T, b: T, c: T| T::narrow(c.wide() + (a.wide() - b.wide()).abs()))))
}

pub(super) fn div<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::div(form, builder, ty);
    }
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    // The ISA leaves division by zero to the machine; the devices give all ones.
    with_integer!(ty, T => Ok(two(d, sources, |a: T, b: T| if b == 0 { !0 } else { a.wrapping_div(b) })))
}

pub(super) fn rem<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(INTEGERS)?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    // Left to the machine, too: here the dividend.
    with_integer!(ty, T => Ok(two(d, sources, |a: T, b: T| if b == 0 { a } else { a.wrapping_rem(b) })))
}

pub(super) fn abs<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::sign(form, builder, ty, float::Sign::Clear);
    }
    integer_sign(form, builder, ty, |value| value.abs())
}

pub(super) fn neg<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(WITH_FLOATS)?;
    if ty.is_float() {
        return float::sign(form, builder, ty, float::Sign::Flip);
    }
    integer_sign(form, builder, ty, |value| -value)
}

fn integer_sign<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    f: fn(i128) -> i128,
) -> Result<Op, Problem> {
    if !SIGNED.contains(&ty) {
        return Err("only signed types are supported here".to_owned());
    }
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let a = builder.scope.source(a, ty)?;
    with_integer!(ty, T => Ok(one(d, a, move |a: T| T::narrow(f(a.wide())))))
}

pub(super) fn min<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    extreme(form, builder, false)
}

pub(super) fn max<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    extreme(form, builder, true)
}

fn extreme<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    largest: bool,
) -> Result<Op, Problem> {
    let ty = form.ty(WITH_FLOATS)?;
    match ty {
        Type::F32 | Type::F64 => return float::extreme(form, builder, ty, largest),
        ty if ty.is_float() => return half::extreme(form, builder, ty, largest),
        _ => {}
    }
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    with_integer!(ty, T => Ok(if largest {
        two(d, sources, |a: T, b: T| a.max(b))
    } else {
        two(d, sources, |a: T, b: T| a.min(b))
    }))
}
