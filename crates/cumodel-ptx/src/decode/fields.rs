//! Bit fields, permutations of bytes and packed products.
use super::bits::{FIELDS, WORDS};
use super::form::{Form, Problem};
use super::function::Builder;
use crate::code::Op;
use crate::exec::lanes::{four, three, two};
use crate::types::{sign_extend, truncate, Type};

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
