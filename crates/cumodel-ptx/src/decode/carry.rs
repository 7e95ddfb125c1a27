//! Extended precision: the carry flag of each lane.
use super::arithmetic::{Part, PARTS};
use super::form::{Form, Problem};
use super::function::Builder;
use crate::code::Op;
use crate::exec::lanes::carrying;
use crate::types::{sign_extend, truncate, Type};

const TYPES: &[Type] = &[Type::U32, Type::S32, Type::U64, Type::S64];

/// `a + b + carry` in this many bits, and the carry out of them.
fn sum(a: u64, b: u64, carry: bool, bits: u32) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (truncate(sum as u64, bits), sum >> bits != 0)
}

/// `a - b - borrow` in this many bits, and the borrow.
fn difference(a: u64, b: u64, borrow: bool, bits: u32) -> (u64, bool) {
    let taken = u128::from(b) + u128::from(borrow);
    let difference = u128::from(a).wrapping_sub(taken);
    (truncate(difference as u64, bits), u128::from(a) < taken)
}

fn two_sources<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    writes: bool,
    reads: bool,
    f: fn(u64, u64, bool, u32) -> (u64, bool),
) -> Result<Op, Problem> {
    let ty = form.ty(TYPES)?;
    let [d, a, b] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let [a, b] = builder.scope.sources([a, b], ty)?;
    let bits = ty.bits();
    Ok(carrying(d, [a, b, b], writes, move |a, b, _, carry| {
        f(a, b, reads && carry, bits)
    }))
}

pub(super) fn add_cc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    two_sources(form, builder, true, false, sum)
}

pub(super) fn addc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let writes = form.take("cc");
    two_sources(form, builder, writes, true, sum)
}

pub(super) fn sub_cc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    two_sources(form, builder, true, false, difference)
}

pub(super) fn subc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let writes = form.take("cc");
    two_sources(form, builder, writes, true, difference)
}

pub(super) fn mad_cc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    product(form, builder, true, false)
}

pub(super) fn madc<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let writes = form.take("cc");
    product(form, builder, writes, true)
}

fn product<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    writes: bool,
    reads: bool,
) -> Result<Op, Problem> {
    let ty = form.ty(TYPES)?;
    let part = form.require(&PARTS[..2])?;
    let [d, a, b, c] = form.finish()?;
    let d = builder.scope.destination(d, ty.bits())?;
    let sources = builder.scope.sources([a, b, c], ty)?;
    let (bits, signed, high) = (ty.bits(), ty.is_signed(), part == Part::Hi);
    Ok(carrying(d, sources, writes, move |a, b, c, carry| {
        let wide = |value: u64| {
            if signed {
                i128::from(sign_extend(value, bits) as i64)
            } else {
                i128::from(value)
            }
        };
        // The product of two 64-bit unsigned values may wrap in 128 signed bits; its bits are right all the same.
        let product = wide(a).wrapping_mul(wide(b)) as u128 >> if high { bits } else { 0 };
        sum(truncate(product as u64, bits), c, reads && carry, bits)
    }))
}
