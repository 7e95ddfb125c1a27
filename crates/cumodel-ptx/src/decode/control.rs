//! Jumps, calls, barriers and fences.
use super::bits::destination;
use super::form::{Form, Problem};
use super::function::Builder;
use crate::code::{Call, Constant, Op, Target};
use crate::exec::sync::{Barrier, Reduce, ReduceKind};
use crate::syntax::ast::Operand;
use crate::types::Type;

pub(super) fn bra<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.take("uni");
    match form.finish()? {
        [Operand::Name(label, 0)] => Ok(Op::Branch(builder.scope.label(label)?)),
        _ => Err("a label is missing".to_owned()),
    }
}

pub(super) fn brx<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.require(&[("idx", ())])?;
    form.take("uni");
    let [index, Operand::Name(targets, 0)] = form.finish()? else {
        return Err("a list of targets is missing".to_owned());
    };
    let index = builder.scope.source(index, Type::U32)?;
    let targets = builder.scope.target_list(targets)?.into_boxed_slice();
    Ok(Op::BranchIndexed { index, targets })
}

/// `call (results), function, (arguments), prototype`: all but the function may be missing.
pub(super) fn call<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.take("uni");
    form.no_more_modifiers()?;
    let mut operands = form.inst.operands.iter().peekable();
    let results = match operands.next_if(|operand| matches!(operand, Operand::List(_))) {
        Some(Operand::List(results)) => locals(builder, results)?,
        _ => Vec::new(),
    };
    let Some(&Operand::Name(name, 0)) = operands.next() else {
        return Err("the function is missing".to_owned());
    };
    let arguments = match operands.next_if(|operand| matches!(operand, Operand::List(_))) {
        Some(Operand::List(arguments)) => locals(builder, arguments)?,
        _ => Vec::new(),
    };
    let target = match builder.scope.layout.functions.get(name) {
        Some(&index) => {
            let (params, returns, entry) = &builder.scope.layout.signatures[index];
            let sizes =
                |places: &[(u32, usize)]| places.iter().map(|&(_, size)| size).collect::<Vec<_>>();
            if *entry || *params != sizes(&arguments) || *returns != sizes(&results) {
                return Err(format!("`{name}` takes other parameters or is a kernel"));
            }
            Target::Function(index)
        }
        None if operands.next().is_some() => {
            Target::Pointer(builder.scope.source(&Operand::Name(name, 0), Type::B64)?)
        }
        None => return Err(format!("function `{name}` is not defined in this module")),
    };
    builder.calls.push(target);
    Ok(Op::Call(Box::new(Call {
        target,
        arguments,
        results,
    })))
}

fn locals<'a>(
    builder: &mut Builder<'_, 'a>,
    names: &[Operand<'a>],
) -> Result<Vec<(u32, usize)>, Problem> {
    names
        .iter()
        .map(|name| match name {
            Operand::Name(name, 0) => builder.scope.local_variable(name),
            _ => Err("arguments and results are parameters that were declared before".to_owned()),
        })
        .collect()
}

pub(super) fn ret<'a>(form: &mut Form<'_, 'a>, _: &mut Builder<'_, 'a>) -> Result<Op, Problem> {
    form.take("uni");
    let [] = form.finish()?;
    Ok(Op::Return)
}

pub(super) fn exit<'a>(form: &mut Form<'_, 'a>, _: &mut Builder<'_, 'a>) -> Result<Op, Problem> {
    let [] = form.finish()?;
    Ok(Op::Exit)
}

pub(super) fn trap<'a>(form: &mut Form<'_, 'a>, _: &mut Builder<'_, 'a>) -> Result<Op, Problem> {
    let [] = form.finish()?;
    Ok(Op::Trap)
}

/// `bar` and `barrier`: `sync`, `arrive` and `red`.
pub(super) fn barrier<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if form.inst.mnemonic == "bar" && form.take("warp") {
        return super::warp::barrier(form, builder);
    }
    form.take("cta");
    form.take("aligned");
    if form.take("red") {
        return reduction(form, builder);
    }
    let waits = form.require(&[("sync", true), ("arrive", false)])?;
    form.no_more_modifiers()?;
    let (id, count) = match &form.inst.operands[..] {
        [id] if waits => (id, None),
        [id, count] => (id, Some(count)),
        operands => return Err(format!("{} operands do not fit this form", operands.len())),
    };
    let id = builder.scope.source(id, Type::U32)?;
    let count = count
        .map(|count| builder.scope.source(count, Type::U32))
        .transpose()?;
    Ok(Op::Barrier(Box::new(Barrier {
        id,
        count,
        waits,
        reduce: None,
    })))
}

fn reduction<'a>(form: &mut Form<'_, 'a>, builder: &mut Builder<'_, 'a>) -> Result<Op, Problem> {
    let kind = form.require(&[
        ("popc", ReduceKind::Popc),
        ("and", ReduceKind::And),
        ("or", ReduceKind::Or),
    ])?;
    match kind {
        ReduceKind::Popc => form.require(&[("u32", ())])?,
        _ => form.require(&[("pred", ())])?,
    }
    form.no_more_modifiers()?;
    let (d, id, count, input) = match &form.inst.operands[..] {
        [d, id, input] => (d, id, None, input),
        [d, id, count, input] => (d, id, Some(count), input),
        operands => return Err(format!("{} operands do not fit this form", operands.len())),
    };
    let destination = match kind {
        ReduceKind::Popc => builder.scope.destination(d, 32)?,
        _ => destination(builder, d)?,
    };
    let id = builder.scope.source(id, Type::U32)?;
    let count = count
        .map(|count| builder.scope.source(count, Type::U32))
        .transpose()?;
    let input = builder.scope.truth(input)?;
    Ok(Op::Barrier(Box::new(Barrier {
        id,
        count,
        waits: true,
        reduce: Some(Reduce {
            kind,
            input,
            destination,
        }),
    })))
}

/// `membar` and `fence`.
pub(super) fn fence<'a>(form: &mut Form<'_, 'a>, _: &mut Builder<'_, 'a>) -> Result<Op, Problem> {
    for part in [
        "sc", "acq_rel", "acquire", "release", "cta", "gl", "gpu", "sys",
    ] {
        form.take(part);
    }
    let [] = form.finish()?;
    Ok(Op::Nothing)
}

/// `prefetch`, `discard` and `nanosleep`: nothing that shows.
pub(super) fn hint<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    match form.inst.mnemonic {
        "nanosleep" => {
            form.require(&[("u32", ())])?;
            let [time] = form.finish()?;
            builder.scope.source(time, Type::U32)?;
        }
        _ => {
            for part in [
                "global",
                "local",
                "L1",
                "L2",
                "L2::evict_last",
                "L2::evict_normal",
            ] {
                form.take(part);
            }
            form.no_more_modifiers()?;
            match form.inst.operands.first() {
                Some(Operand::Address(Some(name), _)) => {
                    builder.scope.address_of(name, 0)?;
                }
                Some(Operand::Address(None, _)) => {
                    builder.scope.constant(Constant::Bits(0));
                }
                _ => return Err("an address in brackets is missing".to_owned()),
            }
        }
    }
    Ok(Op::Nothing)
}
