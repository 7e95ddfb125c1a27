//! Logic, shifts and bit fields.
use super::form::{with_integer, Form, Problem};
use super::function::Builder;
use crate::code::{Op, Reg};
use crate::exec::lanes::{blend, four, one, three, two, whole};
use crate::types::{sign_extend, truncate, Type};

const BITS: &[Type] = &[Type::B16, Type::B32, Type::B64];
const WORDS: &[Type] = &[Type::B32, Type::B64];
const FIELDS: &[Type] = &[Type::U32, Type::S32, Type::U64, Type::S64];

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

/// Reads a bit field.
pub(super) fn bfe<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(FIELDS)?;
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = [
        builder.scope.source(a, ty)?,
        builder.scope.source(b, Type::U32)?,
        builder.scope.source(c, Type::U32)?,
    ];
    let (bits, signed) = (ty.bits(), ty.is_signed());
    Ok(three(
        d,
        sources,
        move |a: u64, position: u32, length: u32| {
            let (position, length) = (position & 0xff, length & 0xff);
            if length == 0 {
                return 0u64;
            }
            let sign = if signed {
                a >> (position + length - 1).min(bits - 1) & 1
            } else {
                0
            };
            // Bits of the field that the operand has; the sign stands in for all others.
            let held = length.min(bits.saturating_sub(position));
            let field = if held == 0 {
                0
            } else {
                truncate(a >> position, held)
            };
            let above = if held == 64 { 0 } else { u64::MAX << held };
            truncate(if sign == 1 { field | above } else { field }, bits)
        },
    ))
}

/// Writes a bit field.
pub(super) fn bfi<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(WORDS)?;
    let [d, a, b, c, e] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let [a, b] = builder.scope.sources([a, b], ty)?;
    let [c, e] = builder.scope.sources([c, e], Type::U32)?;
    let bits = ty.bits();
    Ok(four(
        d,
        [a, b, c, e],
        move |a: u64, b: u64, position: u32, length: u32| {
            let position = position & 0xff;
            let held = (length & 0xff).min(bits.saturating_sub(position));
            if held == 0 {
                return b;
            }
            let field = truncate(u64::MAX, held) << position;
            (b & !field) | (a << position & field)
        },
    ))
}

/// A mask of `b` ones from bit `a` on.
pub(super) fn bmsk<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let clamps = form.require(&[("clamp", true), ("wrap", false)])?;
    let ty = form.ty(&[Type::B32])?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b], ty)?;
    Ok(two(d, sources, move |position: u32, width: u32| {
        let (from, count) = if clamps {
            (position.min(32), width.min(32))
        } else {
            (position & 31, width & 31)
        };
        // At most bit 64, where nothing is left.
        ((u64::MAX << from) & !u64::MAX.checked_shl(from + count).unwrap_or(0)) as u32
    }))
}

/// The low `b` bits of `a`, extended.
pub(super) fn szext<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let clamps = form.require(&[("clamp", true), ("wrap", false)])?;
    let ty = form.ty(&[Type::U32, Type::S32])?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b], ty)?;
    let signed = ty.is_signed();
    Ok(two(d, sources, move |a: u32, width: u32| match width {
        32.. if clamps => a,
        _ => match width & 31 {
            0 => 0,
            width if signed => sign_extend(u64::from(a), width) as u32,
            width => truncate(u64::from(a), width) as u32,
        },
    }))
}

/// Any function of three bits, as a table of eight.
pub(super) fn lop3<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::B32])?;
    let [d, a, b, c, table] = form.finish()?;
    let crate::syntax::ast::Operand::Integer(table @ 0..=255) = *table else {
        return Err("the table must be a number from 0 to 255".to_owned());
    };
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    Ok(three(d, sources, move |a: u32, b: u32, c: u32| {
        (0..8)
            .filter(|row| table >> row & 1 == 1)
            .fold(0, |result, row| {
                let pick = |word: u32, bit: u32| if row >> bit & 1 == 1 { word } else { !word };
                result | (pick(a, 2) & pick(b, 1) & pick(c, 0))
            })
    }))
}

/// A way to choose bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permute {
    Any,
    ForwardExtract,
    BackwardExtract,
    Replicate8,
    EdgeLeft,
    EdgeRight,
    Replicate16,
}

impl Permute {
    /// The four source bytes that a control value of two bits stands for: the table of the ISA, lowest first.
    fn bytes(self, control: u32) -> [u32; 4] {
        match self {
            Permute::ForwardExtract | Permute::Any => std::array::from_fn(|at| control + at as u32),
            Permute::BackwardExtract => std::array::from_fn(|at| (control + 8 - at as u32) % 8),
            Permute::Replicate8 => [control; 4],
            Permute::EdgeLeft => std::array::from_fn(|at| (at as u32).max(control)),
            Permute::EdgeRight => std::array::from_fn(|at| (at as u32).min(control)),
            Permute::Replicate16 => {
                let low = 2 * (control & 1);
                [low, low + 1, low, low + 1]
            }
        }
    }
}

/// Chooses four bytes of eight.
pub(super) fn prmt<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::B32])?;
    let mode = form.choose(&[
        ("f4e", Permute::ForwardExtract),
        ("b4e", Permute::BackwardExtract),
        ("rc8", Permute::Replicate8),
        ("ecl", Permute::EdgeLeft),
        ("ecr", Permute::EdgeRight),
        ("rc16", Permute::Replicate16),
    ]);
    let mode = mode.unwrap_or(Permute::Any);
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    Ok(three(d, sources, move |a: u32, b: u32, control: u32| {
        let source = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
        let mut result = [0u8; 4];
        for (at, byte) in result.iter_mut().enumerate() {
            let selector = if mode == Permute::Any {
                control >> (4 * at) & 15
            } else {
                mode.bytes(control & 3)[at]
            };
            let chosen = source[(selector & 7) as usize];
            // Only the general form has the bit that spreads the sign.
            *byte = if mode == Permute::Any && selector & 8 != 0 {
                (chosen as i8 >> 7) as u8
            } else {
                chosen
            };
        }
        u32::from_le_bytes(result)
    }))
}

/// The n-th set bit from a position on.
pub(super) fn fns<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let ty = form.ty(&[Type::B32])?;
    let [d, mask, base, offset] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([mask, base, offset], ty)?;
    Ok(three(d, sources, |mask: u32, base: u32, offset: i32| {
        let base = (base & 31) as i32;
        let step = if offset < 0 { -1 } else { 1 };
        let mut left = offset.unsigned_abs().max(1);
        let mut position = base;
        while (0..32).contains(&position) {
            left -= mask >> position & 1;
            if left == 0 {
                return position as u32;
            }
            if offset == 0 {
                break;
            }
            position += step;
        }
        u32::MAX
    }))
}

/// The parts of a packed word, `bits` each.
fn parts(word: u32, bits: u32, signed: bool) -> impl Iterator<Item = i64> {
    (0..32 / bits).map(move |at| {
        let part = truncate(u64::from(word >> (at * bits)), bits);
        if signed {
            sign_extend(part, bits) as i64
        } else {
            part as i64
        }
    })
}

fn dot<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    bits: u32,
) -> Result<Op, Problem> {
    let skip = if bits == 16 {
        form.require(&[("lo", 0), ("hi", 2)])?
    } else {
        0
    };
    let a_type = form.ty(&[Type::U32, Type::S32])?;
    let b_type = form.ty(&[Type::U32, Type::S32])?;
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    let sources = builder.scope.sources([a, b, c], Type::B32)?;
    Ok(three(d, sources, move |a: u32, b: u32, c: u32| {
        let products = parts(a, bits, a_type.is_signed())
            .zip(parts(b, 8, b_type.is_signed()).skip(skip))
            .map(|(a, b)| a * b);
        c.wrapping_add(products.sum::<i64>() as u32)
    }))
}

/// Four products of bytes, and a sum.
pub(super) fn dp4a<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    dot(form, builder, 8)
}

/// Two products of 16 bits with a byte, and a sum.
pub(super) fn dp2a<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    dot(form, builder, 16)
}
