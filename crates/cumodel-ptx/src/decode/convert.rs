//! `cvt`: between all integer and float types.
use super::form::{Form, Problem};
use super::function::Builder;
use super::half::Format;
use super::rounding::{Real, ROUNDS};
use crate::code::Op;
use crate::exec::lanes::{one, two};
use crate::types::{sign_extend, truncate, Type};
use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round};

const TYPES: &[Type] = &[
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::Bf16,
    Type::F32,
    Type::F64,
    Type::F16x2,
    Type::Bf16x2,
];

/// Rounding to an integral value.
const INTEGRAL: &[(&str, Round)] = &[
    ("rni", Round::NearestTiesToEven),
    ("rzi", Round::TowardZero),
    ("rmi", Round::TowardNegative),
    ("rpi", Round::TowardPositive),
];

/// The modifiers of a conversion.
#[derive(Debug, Clone, Copy)]
struct Conversion {
    to: Type,
    from: Type,
    round: Round,
    integral: Option<Round>,
    flush: bool,
    saturate: bool,
    /// Bits of the register that is written.
    width: u32,
}

pub(super) fn cvt<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let integral = form.choose(INTEGRAL);
    let round = form.choose(ROUNDS);
    let (flush, saturate) = (form.take("ftz"), form.take("sat"));
    let to = form.ty(TYPES)?;
    let from = form.ty(TYPES)?;
    if matches!(to, Type::F16x2 | Type::Bf16x2) {
        return pair(form, builder, to, from, round);
    }
    if matches!(from, Type::F16x2 | Type::Bf16x2) {
        return Err("pairs of 16-bit floats can only be written".to_owned());
    }
    let must_round = match (to.is_float(), from.is_float()) {
        (true, true) => to.bits() < from.bits() || (to != from && to.bits() == from.bits()),
        (true, false) => true,
        _ => false,
    };
    if must_round && round.is_none() {
        return Err("a rounding mode is missing".to_owned());
    }
    if from.is_float() && !to.is_float() && integral.is_none() {
        return Err("an integer rounding mode is missing".to_owned());
    }
    let [d, a] = form.finish()?;
    let (d, width) = builder.scope.wide_destination(d)?;
    let (a, found) = builder.scope.wide_source(a, from)?;
    if found < from.bits() || width < to.bits() || (to.is_float() && width != to.bits()) {
        return Err("a register is too narrow for its type, or too wide for a float".to_owned());
    }
    let round = round.unwrap_or(Round::NearestTiesToEven);
    let conversion = Conversion {
        to,
        from,
        round,
        integral,
        flush,
        saturate,
        width,
    };
    let both_integers = !to.is_float() && !from.is_float();
    Ok(match (from, to) {
        // The forms that address arithmetic uses, without a detour.
        _ if both_integers && !saturate => {
            let (from_bits, to_bits, signed_from, signed_to) =
                (from.bits(), to.bits(), from.is_signed(), to.is_signed());
            one(d, a, move |a: u64| {
                let value = if signed_from {
                    sign_extend(a, from_bits)
                } else {
                    truncate(a, from_bits)
                };
                if signed_to {
                    truncate(sign_extend(value, to_bits), width)
                } else {
                    truncate(value, to_bits)
                }
            })
        }
        _ if both_integers => one(d, a, move |a: u64| conversion.saturated(a)),
        _ if !from.is_float() => one(d, a, move |a: u64| conversion.integer_to_float(a)),
        _ if !to.is_float() => one(d, a, move |a: u64| conversion.float_to_integer(a)),
        _ => one(d, a, move |a: u64| conversion.float_to_float(a)),
    })
}

/// `cvt.rn.f16x2.f32 d, a, b`: `a` becomes the high half.
fn pair<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    to: Type,
    from: Type,
    round: Option<Round>,
) -> Result<Op, Problem> {
    let round = round
        .filter(|round| matches!(round, Round::NearestTiesToEven | Round::TowardZero))
        .ok_or("`.rn` or `.rz` is missing")?;
    if from != Type::F32 {
        return Err("pairs are made from two .f32".to_owned());
    }
    let relu = form.take("relu");
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b], from)?;
    let (format, _) = Format::of(to);
    Ok(two(d, sources, move |a: f32, b: f32| {
        let [a, b] = [a, b].map(|value| {
            let value = if relu && value <= 0.0 { 0.0 } else { value };
            u32::from(format.rounded(f64::from(value), round))
        });
        a << 16 | b
    }))
}

impl Conversion {
    fn integer(self, bits: u64) -> i128 {
        if self.from.is_signed() {
            i128::from(sign_extend(bits, self.from.bits()) as i64)
        } else {
            i128::from(truncate(bits, self.from.bits()))
        }
    }

    /// The smallest and the largest value of the destination.
    fn range(self) -> (i128, i128) {
        let bits = self.to.bits();
        if self.to.is_signed() {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1 << bits) - 1)
        }
    }

    /// A value of the destination's type as the register holds it: signed types fill it with their sign.
    fn register(self, value: i128) -> u64 {
        truncate(value as u64, self.width)
    }

    fn saturated(self, bits: u64) -> u64 {
        let (least, most) = self.range();
        self.register(self.integer(bits).clamp(least, most))
    }

    fn integer_to_float(self, bits: u64) -> u64 {
        let value = self.integer(bits);
        let nearest = self.round == Round::NearestTiesToEven;
        match self.to {
            Type::F32 => {
                let result = if nearest {
                    value as f32
                } else {
                    f32::from_bits(Single::from_i128_r(value, self.round).value.to_bits() as u32)
                };
                u64::from(
                    if self.saturate {
                        result.clamp_01()
                    } else {
                        result
                    }
                    .to_bits(),
                )
            }
            Type::F64 if nearest => (value as f64).to_bits(),
            Type::F64 => Double::from_i128_r(value, self.round).value.to_bits() as u64,
            // 16 bits have fewer digits than the integer, so it must be rounded once: by way of a sticky bit.
            _ => u64::from(Format::of(self.to).0.rounded(sticky(value), self.round)),
        }
    }

    /// The operand as a double, which holds every float exactly.
    fn float(self, bits: u64) -> f64 {
        match self.from {
            Type::F32 => f64::from(f32::from_bits(bits as u32).flushed(self.flush)),
            Type::F64 => f64::from_bits(bits),
            _ => Format::of(self.from).0.to_double(bits as u16),
        }
    }

    fn float_to_integer(self, bits: u64) -> u64 {
        let value = self.float(bits);
        if value.is_nan() {
            // Documented: zero, unless 64 bits are involved on either side.
            let wide = self.from == Type::F64 || self.to.bits() == 64;
            return if wide {
                truncate(1 << (self.to.bits() - 1), self.to.bits())
            } else {
                0
            };
        }
        let (least, most) = self.range();
        // The conversion of Rust saturates at 128 bits, so that infinities are clamped, too.
        let integral = to_integral(value, self.integral.unwrap_or(Round::TowardZero)) as i128;
        self.register(integral.clamp(least, most))
    }

    fn float_to_float(self, bits: u64) -> u64 {
        let mut value = self.float(bits);
        if let Some(round) = self.integral {
            value = to_integral(value, round);
        }
        if self.saturate {
            value = value.clamp_01();
        }
        match self.to {
            Type::F32 => u64::from(
                <f32 as Real>::from_double(value, self.round)
                    .flushed(self.flush)
                    .canonical()
                    .to_bits(),
            ),
            Type::F64 => value.canonical().to_bits(),
            _ => u64::from(Format::of(self.to).0.rounded(value, self.round)),
        }
    }
}

/// Rounds to an integral value, which keeps the sign of a zero.
fn to_integral(value: f64, round: Round) -> f64 {
    match round {
        Round::TowardZero => value.trunc(),
        Round::TowardNegative => value.floor(),
        Round::TowardPositive => value.ceil(),
        _ => value.round_ties_even(),
    }
}

/// A double on the same side of every 16-bit float and of every midpoint between two as the integer.
fn sticky(value: i128) -> f64 {
    let double = value as f64;
    // Up to 2^53 the double is exact; beyond, cut to 32 digits and keep whether anything was cut.
    if value.unsigned_abs() < 1 << 53 {
        return double;
    }
    let magnitude = value.unsigned_abs();
    let shift = 128 - magnitude.leading_zeros() - 32;
    let cut = magnitude >> shift;
    let rest = u128::from(magnitude != cut << shift);
    let result = ((cut << 1 | rest) as f64) * 2f64.powi(shift as i32 - 1);
    if value < 0 {
        -result
    } else {
        result
    }
}
