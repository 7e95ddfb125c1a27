//! 16-bit floats, alone and in pairs, by soft floating point.
use super::float::{extreme_of, Binary, Sign};
use super::form::{Form, Problem};
use super::function::Builder;
use super::rounding::Real;
use crate::code::Op;
use crate::exec::lanes::{one, three, two};
use crate::types::Type;
use rustc_apfloat::ieee::{BFloat, Double, Half};
use rustc_apfloat::{Float, FloatConvert, Round};

const NEAREST: Round = Round::NearestTiesToEven;

/// One of the two formats of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Half,
    Brain,
}

impl Format {
    /// The format of a type, and whether there are two.
    pub(super) fn of(ty: Type) -> (Format, bool) {
        match ty {
            Type::F16 => (Format::Half, false),
            Type::F16x2 => (Format::Half, true),
            Type::Bf16 => (Format::Brain, false),
            _ => (Format::Brain, true),
        }
    }

    /// Exact.
    pub(super) fn to_double(self, bits: u16) -> f64 {
        match self {
            Format::Half => widened::<Half>(bits),
            Format::Brain => widened::<BFloat>(bits),
        }
    }

    /// Rounded once.
    pub(super) fn rounded(self, value: f64, round: Round) -> u16 {
        match self {
            Format::Half => narrowed::<Half>(value, round),
            Format::Brain => narrowed::<BFloat>(value, round),
        }
    }

    fn fma(self, a: u16, b: u16, c: u16) -> u16 {
        match self {
            Format::Half => soft_fma::<Half>(a, b, c),
            Format::Brain => soft_fma::<BFloat>(a, b, c),
        }
    }

    fn is_subnormal(self, bits: u16) -> bool {
        let fraction = if self == Format::Half { 10 } else { 7 };
        bits & 0x7fff != 0 && (bits & 0x7fff) >> fraction == 0
    }

    fn flushed(self, bits: u16, flush: bool) -> u16 {
        if flush && self.is_subnormal(bits) {
            bits & 0x8000
        } else {
            bits
        }
    }
}

/// The NaN of results, in both formats.
const NAN: u16 = 0x7fff;

fn widened<F: Float + FloatConvert<Double>>(bits: u16) -> f64 {
    let mut lossy = false;
    f64::from_bits(
        F::from_bits(u128::from(bits))
            .convert(&mut lossy)
            .value
            .to_bits() as u64,
    )
}

fn narrowed<F: Float>(value: f64, round: Round) -> u16
where
    Double: FloatConvert<F>,
{
    let mut lossy = false;
    let result: F = Double::from_bits(u128::from(value.to_bits()))
        .convert_r(round, &mut lossy)
        .value;
    if result.is_nan() {
        NAN
    } else {
        result.to_bits() as u16
    }
}

fn soft_fma<F: Float>(a: u16, b: u16, c: u16) -> u16 {
    let [a, b, c] = [a, b, c].map(|bits| F::from_bits(u128::from(bits)));
    let result = a.mul_add_r(b, c, NEAREST).value;
    if result.is_nan() {
        NAN
    } else {
        result.to_bits() as u16
    }
}

/// Applies a function to the low half, and to the high half of a pair.
fn halves(pair: bool, values: [u32; 3], f: impl Fn([u16; 3]) -> u16) -> u32 {
    let low = u32::from(f(values.map(|value| value as u16)));
    if !pair {
        return low;
    }
    low | u32::from(f(values.map(|value| (value >> 16) as u16))) << 16
}

/// The sum of two half-precision floats, or of two pairs.
pub(super) fn half_sum(a: u32, b: u32, ty: Type) -> u32 {
    let (format, pair) = Format::of(ty);
    halves(pair, [a, b, 0], |[a, b, _]| {
        format.rounded(format.to_double(a) + format.to_double(b), NEAREST)
    })
}

pub(super) fn binary<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    op: Binary,
) -> Result<Op, Problem> {
    let (format, pair) = Format::of(ty);
    if format == Format::Brain {
        return Err("this instruction on .bf16 needs sm_90".to_owned());
    }
    form.take("rn");
    let (flush, saturate) = (form.take("ftz"), form.take("sat"));
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    Ok(two(d, sources, move |a: u32, b: u32| {
        halves(pair, [a, b, 0], |[a, b, _]| {
            let (a, b) = (
                format.to_double(format.flushed(a, flush)),
                format.to_double(format.flushed(b, flush)),
            );
            // Sums and products of 11-bit numbers are exact in 53 bits.
            let exact = match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
            };
            let exact = if saturate { exact.clamp_01() } else { exact };
            format.flushed(format.rounded(exact, NEAREST), flush)
        })
    }))
}

pub(super) fn fma<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
) -> Result<Op, Problem> {
    let (format, pair) = Format::of(ty);
    form.require(&[("rn", ())])?;
    let flush = format == Format::Half && form.take("ftz");
    let saturate = format == Format::Half && form.take("sat");
    let relu = form.take("relu");
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    Ok(three(d, sources, move |a: u32, b: u32, c: u32| {
        halves(pair, [a, b, c], |values| {
            let [a, b, c] = values.map(|bits| format.flushed(bits, flush));
            let result = format.flushed(format.fma(a, b, c), flush);
            if saturate {
                return format.rounded(format.to_double(result).clamp_01(), NEAREST);
            }
            // NaN stays, everything below zero becomes zero.
            if relu && result & 0x8000 != 0 {
                return 0;
            }
            result
        })
    }))
}

pub(super) fn sign<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    sign: Sign,
) -> Result<Op, Problem> {
    let (format, pair) = Format::of(ty);
    let flush = format == Format::Half && form.take("ftz");
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let a = builder.scope.source(a, ty)?;
    Ok(one(d, a, move |a: u32| {
        halves(pair, [a, 0, 0], |[a, ..]| {
            let a = format.flushed(a, flush);
            (a & 0x7fff) | u16::from(sign.apply(a >> 15 == 1)) << 15
        })
    }))
}

pub(super) fn extreme<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    largest: bool,
) -> Result<Op, Problem> {
    let (format, pair) = Format::of(ty);
    let flush = format == Format::Half && form.take("ftz");
    let nan = form.take("NaN");
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b], ty)?;
    Ok(two(d, sources, move |a: u32, b: u32| {
        halves(pair, [a, b, 0], |[a, b, _]| {
            let (a, b) = (
                format.to_double(format.flushed(a, flush)),
                format.to_double(format.flushed(b, flush)),
            );
            format.rounded(extreme_of(a, b, largest, nan), NEAREST)
        })
    }))
}
