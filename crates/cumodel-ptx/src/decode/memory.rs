//! Loads and stores.
use super::form::{Form, Problem};
use super::function::Builder;
use super::scope::Home;
use crate::code::{Constant, Op, Reg};
use crate::exec::memory::{Space, Transfer};
use crate::syntax::ast::Operand;
use crate::types::Type;

const TYPES: &[Type] = &[
    Type::B8,
    Type::B16,
    Type::B32,
    Type::B64,
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
];

/// Hints about caches, and orders between threads: the model has no caches and executes in program order.
const HINTS: &[&str] = &[
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "volatile",
    "weak",
    "relaxed",
    "acquire",
    "release",
    "cta",
    "gpu",
    "sys",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];

/// A space as it is written; constant memory is the caller's, as global memory is.
const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
];

pub(super) fn take_hints(form: &mut Form<'_, '_>) {
    for hint in HINTS {
        form.take(hint);
    }
}

/// The space of an access, the register of its address, and an offset.
pub(super) fn place<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    operand: &Operand<'a>,
) -> Result<(Space, Reg, i64), Problem> {
    let space = form.choose(SPACES).unwrap_or(Space::Generic);
    let Operand::Address(name, offset) = operand else {
        return Err("an address in brackets is missing".to_owned());
    };
    let (home, reg) = match name {
        Some(name) => builder.scope.address_of(name, 0)?,
        None => (Home::Absolute, builder.scope.constant(Constant::Bits(0))),
    };
    let space = match (space, home) {
        // The parameters of a device function, and those for one that is called, lie in local memory.
        (Space::Param, Home::Local) => Space::Local,
        (Space::Param, Home::Register) if !builder.entry => Space::Local,
        (Space::Generic, Home::Global | Home::Constant) => Space::Global,
        (Space::Generic, Home::Register | Home::Absolute) => Space::Generic,
        (space, Home::Register | Home::Absolute) => space,
        (Space::Global, Home::Global | Home::Constant)
        | (Space::Shared, Home::Shared)
        | (Space::Local, Home::Local)
        | (Space::Param, Home::Param) => space,
        _ => return Err("the variable lies in another space than the instruction says".to_owned()),
    };
    Ok((space, reg, *offset))
}

fn vector(form: &mut Form<'_, '_>) -> usize {
    form.choose(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
}

/// The operands of a transfer: one, or as many as the vector has, in braces.
fn elements<'o, 'a>(operand: &'o Operand<'a>, count: usize) -> Result<&'o [Operand<'a>], Problem> {
    let elements = match operand {
        Operand::Vector(elements) => &elements[..],
        single => std::slice::from_ref(single),
    };
    if elements.len() != count {
        return Err(format!(
            "{} elements were expected, not {}",
            count,
            elements.len()
        ));
    }
    Ok(elements)
}

pub(super) fn ld<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    take_hints(form);
    let count = vector(form);
    let ty = form.ty(TYPES)?;
    let operands = &form.inst.operands;
    let [destination, address] = &operands[..] else {
        return Err(format!("2 operands were expected, not {}", operands.len()));
    };
    let (space, base, offset) = place(form, builder, address)?;
    form.no_more_modifiers()?;
    let (mut regs, mut widths) = (Vec::new(), Vec::new());
    for element in elements(destination, count)? {
        if *element == Operand::Name("_", 0) && count > 1 {
            regs.push(None);
            continue;
        }
        let (reg, width) = builder.scope.wide_destination(element)?;
        if width < ty.bits() {
            return Err(format!(
                "a register of {width} bits cannot take {}",
                ty.bits()
            ));
        }
        regs.push(Some(reg));
        widths.push(width);
    }
    if widths.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err("registers of different widths in one vector are not supported".to_owned());
    }
    let bytes = bytes(ty, count)?;
    let extend = widths
        .first()
        .copied()
        .filter(|&width| ty.is_signed() && width > ty.bits());
    Ok(Op::Load(Box::new(Transfer {
        id: builder.access(),
        space,
        base,
        offset,
        bytes,
        extend,
        regs,
    })))
}

pub(super) fn st<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    take_hints(form);
    let count = vector(form);
    let ty = form.ty(TYPES)?;
    let operands = &form.inst.operands;
    let [address, source] = &operands[..] else {
        return Err(format!("2 operands were expected, not {}", operands.len()));
    };
    let (space, base, offset) = place(form, builder, address)?;
    if space == Space::Param {
        return Err("the parameters of a kernel cannot be written".to_owned());
    }
    form.no_more_modifiers()?;
    let mut regs = Vec::new();
    for element in elements(source, count)? {
        let (reg, width) = builder.scope.wide_source(element, ty)?;
        if width < ty.bits() {
            return Err(format!(
                "a register of {width} bits cannot give {}",
                ty.bits()
            ));
        }
        regs.push(Some(reg));
    }
    let bytes = bytes(ty, count)?;
    Ok(Op::Store(Box::new(Transfer {
        id: builder.access(),
        space,
        base,
        offset,
        bytes,
        extend: None,
        regs,
    })))
}

/// Bytes of an element; a vector has at most 16 in all.
fn bytes(ty: Type, count: usize) -> Result<usize, Problem> {
    if ty.bytes() * count > 16 {
        return Err("vectors of more than 16 bytes need sm_100".to_owned());
    }
    Ok(ty.bytes())
}
