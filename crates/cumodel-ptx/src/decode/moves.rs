//! Moves and addresses.
use super::bits::destination;
use super::form::{Form, Problem};
use super::function::Builder;
use super::scope::Home;
use crate::code::{Op, Reg, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW};
use crate::exec::lanes::{blend, one, set, set_pred, where_true, whole};
use crate::syntax::ast::Operand;
use crate::types::{truncate, Type};

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
    Type::F16,
    Type::F32,
    Type::F64,
];

pub(super) fn mov<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.take("pred") {
        let [d, a] = form.finish()?;
        let d = destination(builder, d)?;
        if let Operand::Integer(value) = a {
            let bits = if *value == 0 { 0 } else { u32::MAX };
            return Ok(whole(move |frame, mask| {
                set_pred(frame, Some(d), bits, mask)
            }));
        }
        let (a, negated) = builder.scope.truth(a)?;
        return Ok(whole(move |frame, mask| {
            let bits = frame.preds[a as usize];
            frame.preds[d as usize] = blend(
                frame.preds[d as usize],
                if negated { !bits } else { bits },
                mask,
            );
        }));
    }
    let ty = form.ty(TYPES)?;
    let [d, a] = form.finish()?;
    match (d, a) {
        (_, Operand::Vector(parts)) => return pack(builder, ty, d, parts),
        (Operand::Vector(parts), _) => return unpack(builder, ty, parts, a),
        _ => {}
    }
    let d = builder.scope.destination(d, ty.bits())?;
    if let Operand::Name(name, 0) = a {
        // 64-bit special registers are read as 32 bits in older code, and the other way around.
        if super::special::bits(name).is_some() && ty.bits() >= 32 {
            let op = super::special::read(d, name)?;
            return Ok(if ty.bits() == 32 { low_half(op, d) } else { op });
        }
    }
    let a = builder.scope.source(a, ty)?;
    Ok(one(d, a, |a: u64| a))
}

/// Keeps the low 32 bits of what an instruction writes.
fn low_half(op: Op, d: Reg) -> Op {
    let Op::Lanes(run) = op else { return op };
    whole(move |frame, mask| {
        run(frame, mask);
        let value = frame.regs[d as usize];
        set(&mut frame.regs[d as usize], mask, |lane| {
            truncate(value[lane], 32)
        });
    })
}

/// Bits of each of the parts that make up a type.
fn part_bits(ty: Type, parts: &[Operand<'_>]) -> Result<u32, Problem> {
    match ty.bits() / parts.len().max(1) as u32 {
        bits @ (8 | 16 | 32) if bits * parts.len() as u32 == ty.bits() => Ok(bits),
        _ => Err(format!(
            "{} parts do not make up {} bits",
            parts.len(),
            ty.bits()
        )),
    }
}

fn unsigned(bits: u32) -> Type {
    match bits {
        8 => Type::B8,
        16 => Type::B16,
        _ => Type::B32,
    }
}

/// `mov.b64 d, {a, b}`: the first part is the lowest.
fn pack<'a>(
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    d: &Operand<'a>,
    parts: &[Operand<'a>],
) -> Result<Op, Problem> {
    let bits = part_bits(ty, parts)?;
    let d = builder.scope.destination(d, ty.bits())?;
    let regs = parts
        .iter()
        .map(|part| builder.scope.source(part, unsigned(bits)))
        .collect::<Result<Vec<Reg>, _>>()?;
    Ok(whole(move |frame, mask| {
        let mut value = [0u64; 32];
        for (at, &reg) in regs.iter().enumerate() {
            let part = &frame.regs[reg as usize];
            for (value, part) in value.iter_mut().zip(part) {
                *value |= part << (at as u32 * bits);
            }
        }
        set(&mut frame.regs[d as usize], mask, |lane| value[lane]);
    }))
}

/// `mov.b64 {d, e}, a`; a part may be `_`.
fn unpack<'a>(
    builder: &mut Builder<'_, 'a>,
    ty: Type,
    parts: &[Operand<'a>],
    a: &Operand<'a>,
) -> Result<Op, Problem> {
    let bits = part_bits(ty, parts)?;
    let a = builder.scope.source(a, ty)?;
    let mut regs = Vec::new();
    for part in parts {
        regs.push(match part {
            Operand::Name("_", 0) => None,
            _ => Some(builder.scope.destination(part, bits)?),
        });
    }
    Ok(whole(move |frame, mask| {
        let value = frame.regs[a as usize];
        for (at, reg) in regs.iter().enumerate() {
            if let Some(reg) = *reg {
                set(&mut frame.regs[reg as usize], mask, |lane| {
                    truncate(value[lane] >> (at as u32 * bits), bits)
                });
            }
        }
    }))
}

/// Where the generic addresses of a space start.
const WINDOWS: &[(&str, u64)] = &[
    ("global", 0),
    ("const", 0),
    ("shared", SHARED_WINDOW),
    ("shared::cta", SHARED_WINDOW),
    ("local", LOCAL_WINDOW),
    ("param", PARAM_WINDOW),
    ("param::entry", PARAM_WINDOW),
];

/// Between addresses of a space and generic ones.
pub(super) fn cvta<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let to = form.take("to");
    let window = form.require(WINDOWS)?;
    let ty = form.ty(&[Type::U64])?;
    let [d, a] = form.finish()?;
    let d = builder.scope.destination(d, 64)?;
    let a = match a {
        Operand::Name(name, offset) if !to => match builder.scope.address_of(name, *offset)? {
            (Home::Register, _) => builder.scope.source(a, ty)?,
            (_, reg) => reg,
        },
        _ => builder.scope.source(a, ty)?,
    };
    Ok(if to {
        one(d, a, move |a: u64| a.wrapping_sub(window))
    } else {
        one(d, a, move |a: u64| a.wrapping_add(window))
    })
}

/// Whether a generic address lies in a space.
pub(super) fn isspacep<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let window = form.require(WINDOWS)?;
    let constant = form.inst.modifiers.contains(&"const");
    let [p, a] = form.finish()?;
    let p = destination(builder, p)?;
    let a = builder.scope.source(a, Type::U64)?;
    Ok(whole(move |frame, mask| {
        let value = where_true(mask, |lane| {
            let address = frame.regs[a as usize][lane];
            match window {
                // Constant memory lies among the caller's addresses; its variables are not told apart.
                0 => !constant && address < SHARED_WINDOW,
                _ => (window..window + WINDOW).contains(&address),
            }
        });
        set_pred(frame, Some(p), value, mask);
    }))
}
