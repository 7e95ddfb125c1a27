//! Atomics on global and shared memory.
use super::form::{Form, Problem};
use super::function::{AtomicUse, Builder};
use super::half::half_sum;
use super::memory::{place, take_hints};
use crate::code::{Constant, Op};
use crate::exec::memory::{Atomic, Combine, Space};
use crate::syntax::ast::Operand;
use crate::types::{sign_extend, Type};

/// What is done with the value before (`a`) and the operand (`b`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
}

const ACTIONS: &[(&str, Action)] = &[
    ("add", Action::Add),
    ("min", Action::Min),
    ("max", Action::Max),
    ("inc", Action::Increment),
    ("dec", Action::Decrement),
    ("and", Action::And),
    ("or", Action::Or),
    ("xor", Action::Xor),
    ("exch", Action::Exchange),
    ("cas", Action::CompareAndSwap),
];

/// The types of each action, as the ISA lists them for sm_80.
fn types(action: Action) -> &'static [Type] {
    match action {
        Action::Add => &[
            Type::U32,
            Type::S32,
            Type::U64,
            Type::S64,
            Type::F16,
            Type::F16x2,
            Type::F32,
            Type::F64,
        ],
        Action::Min | Action::Max => &[Type::U32, Type::S32, Type::U64, Type::S64],
        Action::Increment | Action::Decrement => &[Type::U32],
        Action::And | Action::Or | Action::Xor => &[Type::B32, Type::B64],
        Action::Exchange => &[Type::B32, Type::B64],
        Action::CompareAndSwap => &[Type::B16, Type::B32, Type::B64],
    }
}

fn combine(action: Action, ty: Type) -> Combine {
    fn floats<T: super::rounding::Real + std::ops::Add<Output = T>>(a: u64, b: u64) -> u64 {
        (T::from_lane(a) + T::from_lane(b)).canonical().to_lane()
    }
    let bits = ty.bits();
    match (action, ty) {
        // The devices flush subnormals in atomics on single precision in global memory; here they stay.
        (Action::Add, Type::F32) => Box::new(|a, b, _| floats::<f32>(a, b)),
        (Action::Add, Type::F16 | Type::F16x2) => {
            Box::new(move |a, b, _| u64::from(half_sum(a as u32, b as u32, ty)))
        }
        (Action::Add, Type::F64) => Box::new(|a, b, _| floats::<f64>(a, b)),
        (Action::Add, _) => {
            Box::new(move |a, b, _| crate::types::truncate(a.wrapping_add(b), bits))
        }
        (Action::Min | Action::Max, _) => {
            let signed = ty.is_signed();
            Box::new(move |a, b, _| {
                let value = |bits_of| {
                    if signed {
                        i128::from(sign_extend(bits_of, bits) as i64)
                    } else {
                        i128::from(bits_of)
                    }
                };
                if (value(a) <= value(b)) == (action == Action::Min) {
                    a
                } else {
                    b
                }
            })
        }
        (Action::Increment, _) => Box::new(|a, b, _| if a >= b { 0 } else { a + 1 }),
        (Action::Decrement, _) => Box::new(|a, b, _| if a == 0 || a > b { b } else { a - 1 }),
        (Action::And, _) => Box::new(|a, b, _| a & b),
        (Action::Or, _) => Box::new(|a, b, _| a | b),
        (Action::Xor, _) => Box::new(|a, b, _| a ^ b),
        (Action::Exchange, _) => Box::new(|_, b, _| b),
        (Action::CompareAndSwap, _) => Box::new(|a, b, c| if a == b { c } else { a }),
    }
}

/// Integer sums, extremes and logic give the same in any order.
fn commutes(action: Action, ty: Type) -> Option<String> {
    let order_free = matches!(
        action,
        Action::Add | Action::Min | Action::Max | Action::And | Action::Or | Action::Xor
    );
    (order_free && !ty.is_float()).then(|| format!("{action:?} {ty:?}"))
}

pub(super) fn atom<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let [destination, rest @ ..] = &form.inst.operands[..] else {
        return Err("the operands are missing".to_owned());
    };
    atomic(form, builder, Some(destination), rest)
}

pub(super) fn red<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    atomic(form, builder, None, &form.inst.operands)
}

fn atomic<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
    destination: Option<&Operand<'a>>,
    operands: &[Operand<'a>],
) -> Result<Op, Problem> {
    // Both orders at once, before one of them is taken for a hint.
    form.take("acq_rel");
    take_hints(form);
    let action = form.require(ACTIONS)?;
    let ty = form.ty(types(action))?;
    if matches!(ty, Type::F16 | Type::F16x2) && !form.take("noftz") {
        return Err("`.noftz` is missing".to_owned());
    }
    let (address, operands) = operands.split_first().ok_or("the address is missing")?;
    let (space, base, offset) = place(form, builder, address)?;
    if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
        return Err("atomics work on global and shared memory".to_owned());
    }
    form.no_more_modifiers()?;
    let wanted = if action == Action::CompareAndSwap {
        2
    } else {
        1
    };
    if operands.len() != wanted {
        return Err(format!(
            "{} operands were expected behind the address, not {}",
            wanted,
            operands.len()
        ));
    }
    let b = builder.scope.source(&operands[0], ty)?;
    let c = match operands.get(1) {
        Some(c) => builder.scope.source(c, ty)?,
        None => builder.scope.constant(Constant::Bits(0)),
    };
    let destination = match destination {
        None | Some(Operand::Name("_", 0)) => None,
        Some(destination) => Some(builder.scope.destination(destination, ty.bits())?),
    };
    if space != Space::Shared {
        builder.atomics.push(AtomicUse {
            commutes: commutes(action, ty),
            destination,
        });
    }
    Ok(Op::Atomic(Box::new(Atomic {
        id: builder.access(),
        space,
        base,
        offset,
        bytes: ty.bytes(),
        destination,
        operands: [b, c],
        combine: combine(action, ty),
    })))
}
