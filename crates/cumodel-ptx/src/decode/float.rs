//! Single and double precision.
use super::form::{Form, Problem};
use super::function::Builder;
use super::half;
use super::rounding::{Mode, Real, ROUNDS};
use crate::code::Op;
use crate::exec::lanes::{one, set_pred, three, two, where_true, whole};
use crate::types::{Lane, Type};
use rustc_apfloat::Round;

/// Runs `$body` with `$name` standing for `f32` or `f64`.
macro_rules! with_real {
    ($ty:expr, $name:ident => $body:expr) => {
        if $ty == Type::F32 {
            type $name = f32;
            $body
        } else {
            type $name = f64;
            $body
        }
    };
}
pub(super) use with_real;

const REALS: &[Type] = &[Type::F32, Type::F64];

/// Rounding, flushing and saturation, where the type has them.
fn mode(form: &mut Form<'_, '_>, ty: Type) -> Mode {
    let round = form.choose(ROUNDS).unwrap_or(Round::NearestTiesToEven);
    let single = ty == Type::F32;
    Mode {
        round,
        flush: single && form.take("ftz"),
        saturate: single && form.take("sat"),
    }
}

/// Operations of two operands that are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
}

pub(super) fn binary<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    op: Binary,
) -> Result<Op, Problem> {
    if !REALS.contains(&ty) {
        return half::binary(form, builder, ty, op);
    }
    let mode = mode(form, ty);
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    with_real!(ty, T => Ok(match op {
        Binary::Add if mode == Mode::PLAIN => two(d, sources, |a: T, b: T| (a + b).canonical()),
        Binary::Sub if mode == Mode::PLAIN => two(d, sources, |a: T, b: T| (a - b).canonical()),
        Binary::Mul if mode == Mode::PLAIN => two(d, sources, |a: T, b: T| (a * b).canonical()),
        _ => two(d, sources, move |a: T, b: T| {
            let (a, b) = (a.flushed(mode.flush), b.flushed(mode.flush));
            match op {
                Binary::Add => Real::add(a, b, mode.round),
                // The difference is the sum with the negative, in every rounding mode.
                Binary::Sub => Real::add(a, -b, mode.round),
                Binary::Mul => Real::mul(a, b, mode.round),
            }
            .finished(mode)
        }),
    }))
}

pub(super) fn fma<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[
        Type::F32,
        Type::F64,
        Type::F16,
        Type::F16x2,
        Type::Bf16,
        Type::Bf16x2,
    ])?;
    if !REALS.contains(&ty) {
        return half::fma(form, builder, ty);
    }
    let mode = mode(form, ty);
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    with_real!(ty, T => Ok(if mode == Mode::PLAIN {
        three(d, sources, |a: T, b: T, c: T| a.mul_add(b, c).canonical())
    } else {
        three(d, sources, move |a: T, b: T, c: T| {
            Real::fma(a.flushed(mode.flush), b.flushed(mode.flush), c.flushed(mode.flush), mode.round).finished(mode)
        })
    }))
}

/// How a division or a function may differ from the exact result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accuracy {
    Rounded,
    Approx,
    Full,
}

fn accuracy(form: &mut Form<'_, '_>) -> Accuracy {
    form.choose(&[("approx", Accuracy::Approx), ("full", Accuracy::Full)])
        .unwrap_or(Accuracy::Rounded)
}

pub(super) fn div<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
) -> Result<Op, Problem> {
    if !REALS.contains(&ty) {
        return Err("division of 16-bit floats does not exist".to_owned());
    }
    let accuracy = accuracy(form);
    let mode = mode(form, ty);
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    if accuracy == Accuracy::Approx && ty == Type::F32 {
        return Ok(two(d, sources, move |a: f32, b: f32| {
            let (a, b) = (a.flushed(mode.flush), b.flushed(mode.flush));
            // Documented: the reciprocal of such a divisor underflows.
            let quotient = if b.is_finite() && b.abs() > 2f32.powi(126) {
                a * 0.0 * b.signum()
            } else {
                a / b
            };
            quotient.finished(mode)
        }));
    }
    with_real!(ty, T => Ok(two(d, sources, move |a: T, b: T| {
        Real::div(a.flushed(mode.flush), b.flushed(mode.flush), mode.round).finished(mode)
    })))
}

/// What happens to a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Clear,
    Flip,
}

impl Sign {
    pub(super) fn apply(self, negative: bool) -> bool {
        self == Sign::Flip && !negative
    }
}

pub(super) fn sign<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    sign: Sign,
) -> Result<Op, Problem> {
    if !REALS.contains(&ty) {
        return half::sign(form, builder, ty, sign);
    }
    let flush = ty == Type::F32 && form.take("ftz");
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let a = builder.scope.source(a, ty)?;
    with_real!(ty, T => Ok(one(d, a, move |a: T| {
        let a = a.flushed(flush);
        a.with_sign(sign.apply(a.has_sign()))
    })))
}

/// The smaller or the larger, with -0 below +0. One NaN gives way to a number unless `nan` asks for it.
pub(super) fn extreme_of<T: Real>(a: T, b: T, largest: bool, nan: bool) -> T {
    if a.is_nan() || b.is_nan() {
        return match (nan, a.is_nan(), b.is_nan()) {
            (true, ..) | (_, true, true) => T::NAN,
            (_, true, _) => b,
            _ => a,
        };
    }
    let a_is_less = a < b || (a == b && a.has_sign());
    if a_is_less != largest {
        a
    } else {
        b
    }
}

pub(super) fn extreme<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    largest: bool,
) -> Result<Op, Problem> {
    let flush = ty == Type::F32 && form.take("ftz");
    let nan = ty == Type::F32 && form.take("NaN");
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    with_real!(ty, T => Ok(two(d, sources, move |a: T, b: T| extreme_of(a.flushed(flush), b.flushed(flush), largest, nan))))
}

pub(super) fn copysign<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(REALS)?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    with_real!(ty, T => Ok(two(d, sources, |a: T, b: T| b.with_sign(a.has_sign()))))
}

/// A property of a number.
#[derive(Debug, Clone, Copy)]
enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

pub(super) fn testp<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let property = form.require(&[
        ("finite", Property::Finite),
        ("infinite", Property::Infinite),
        ("number", Property::Number),
        ("notanumber", Property::NotANumber),
        ("normal", Property::Normal),
        ("subnormal", Property::Subnormal),
    ])?;
    let ty = form.ty(REALS)?;
    let [p, a] = form.finish()?;
    let (p, negated) = builder.scope.truth(p)?;
    if negated {
        return Err("a destination cannot be negated".to_owned());
    }
    let a = builder.scope.source(a, ty)?;
    with_real!(ty, T => Ok(whole(move |frame, mask| {
        let value = where_true(mask, |lane| {
            let a = T::from_lane(frame.regs[a as usize][lane]);
            match property {
                Property::Finite => a.is_finite(),
                Property::Infinite => a.is_infinite(),
                Property::Number => !a.is_nan(),
                Property::NotANumber => a.is_nan(),
                // Zeros count as normal, says the ISA.
                Property::Normal => a.is_normal() || a == 0.0,
                Property::Subnormal => a.is_subnormal(),
            }
        });
        set_pred(frame, Some(p), value, mask);
    })))
}

/// A function that the devices approximate: computed in double precision and rounded once, which is within the documented
/// error of each.
fn approximated<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    f: fn(f64) -> f64,
) -> Result<Op, Problem> {
    if !form.take("approx") {
        return Err("`.approx` is missing".to_owned());
    }
    let ty = form.ty(&[Type::F32])?;
    let mode = Mode {
        flush: form.take("ftz"),
        ..Mode::PLAIN
    };
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let a = builder.scope.source(a, ty)?;
    Ok(one(d, a, move |a: f32| {
        (f(f64::from(a.flushed(mode.flush))) as f32).finished(mode)
    }))
}

pub(super) fn ex2<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    approximated(form, builder, f64::exp2)
}

pub(super) fn lg2<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    approximated(form, builder, f64::log2)
}

pub(super) fn sin<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    approximated(form, builder, f64::sin)
}

pub(super) fn cos<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    approximated(form, builder, f64::cos)
}

pub(super) fn tanh<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    approximated(form, builder, f64::tanh)
}

pub(super) fn rcp<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    root_or_reciprocal(
        form,
        builder,
        |a| 1.0 / a,
        |a, round| Real::div(1.0, a, round),
        |a, round| Real::div(1.0, a, round),
    )
}

pub(super) fn sqrt<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    root_or_reciprocal(form, builder, f64::sqrt, Real::sqrt, Real::sqrt)
}

/// `1 / sqrt(a)`, which exists as an approximation only.
pub(super) fn rsqrt<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if !form.inst.modifiers.contains(&"approx") {
        return Err("`.approx` is missing".to_owned());
    }
    let f = |a: f64| 1.0 / a.sqrt();
    root_or_reciprocal(form, builder, f, |_, _| f32::NAN, |_, _| f64::NAN)
}

fn root_or_reciprocal<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    approx: fn(f64) -> f64,
    single: fn(f32, Round) -> f32,
    double: fn(f64, Round) -> f64,
) -> Result<Op, Problem> {
    let accuracy = accuracy(form);
    let ty = form.ty(REALS)?;
    if accuracy == Accuracy::Approx && ty == Type::F64 {
        // The upper half of a double, computed from the upper half of a double.
        let flush = form.take("ftz");
        let [d, a] = form.finish()?;
        let d = builder.scope.destination(d, 64)?;
        let a = builder.scope.source(a, ty)?;
        return Ok(one(d, a, move |a: f64| {
            let a = a.flushed(flush);
            let result = approx(a).flushed(flush).canonical();
            f64::from_bits(result.to_bits() & !0xffff_ffff)
        }));
    }
    let mode = mode(form, ty);
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let a = builder.scope.source(a, ty)?;
    Ok(match (accuracy, ty) {
        (Accuracy::Full, _) => return Err("`.full` does not exist here".to_owned()),
        (Accuracy::Approx, _) => one(d, a, move |a: f32| {
            (approx(f64::from(a.flushed(mode.flush))) as f32).finished(mode)
        }),
        (_, Type::F32) => one(d, a, move |a: f32| {
            single(a.flushed(mode.flush), mode.round).finished(mode)
        }),
        _ => one(d, a, move |a: f64| double(a, mode.round).finished(mode)),
    })
}
