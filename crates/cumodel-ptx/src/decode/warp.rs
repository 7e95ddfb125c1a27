//! Shuffles, votes and everything else that lanes of a warp do together.
use super::form::{Form, Problem};
use super::function::Builder;
use crate::code::{Op, Pred, Reg};
use crate::exec::lanes::{set, whole};
use crate::exec::sync::{Reduction, WarpSync, WarpSyncKind};
use crate::syntax::ast::Operand;
use crate::types::Type;

/// A register and a predicate that are written: `d` or `d|p`.
fn destinations<'a>(
    builder: &mut Builder<'_, 'a>,
    operand: &Operand<'a>,
) -> Result<(Option<Reg>, Option<Pred>), Problem> {
    match *operand {
        Operand::Pair(d, p) => {
            let d = if d == "_" {
                None
            } else {
                Some(builder.scope.destination(&Operand::Name(d, 0), 32)?)
            };
            let p = if p == "_" {
                None
            } else {
                Some(builder.scope.predicate(p)?)
            };
            Ok((d, p))
        }
        _ => Ok((Some(builder.scope.destination(operand, 32)?), None)),
    }
}

fn op(sync: WarpSync) -> Result<Op, Problem> {
    Ok(Op::WarpSync(Box::new(sync)))
}

/// `bar.warp.sync`
pub(super) fn barrier<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.require(&[("sync", ())])?;
    let [members] = form.finish()?;
    let members = builder.scope.source(members, Type::B32)?;
    let kind = WarpSyncKind::Barrier;
    op(WarpSync {
        kind,
        members,
        destination: None,
        destination_pred: None,
        inputs: [members; 3],
        vote: None,
    })
}

pub(super) fn shfl<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if !form.take("sync") {
        return Err("without `.sync` it was removed in sm_70".to_owned());
    }
    let kind = form.require(&[
        ("up", WarpSyncKind::ShuffleUp),
        ("down", WarpSyncKind::ShuffleDown),
        ("bfly", WarpSyncKind::ShuffleButterfly),
        ("idx", WarpSyncKind::ShuffleIndex),
    ])?;
    let ty = form.ty(&[Type::B32])?;
    let [d, a, b, c, members] = form.finish()?;
    let (destination, destination_pred) = destinations(builder, d)?;
    let [a, b, c, members] = builder.scope.sources([a, b, c, members], ty)?;
    op(WarpSync {
        kind,
        members,
        destination,
        destination_pred,
        inputs: [a, b, c],
        vote: None,
    })
}

pub(super) fn vote<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    if !form.take("sync") {
        return Err("without `.sync` it was removed in sm_70".to_owned());
    }
    let kind = form.require(&[
        ("all", WarpSyncKind::VoteAll),
        ("any", WarpSyncKind::VoteAny),
        ("uni", WarpSyncKind::VoteUniform),
        ("ballot", WarpSyncKind::Ballot),
    ])?;
    let ballot = kind == WarpSyncKind::Ballot;
    form.require(&[(if ballot { "b32" } else { "pred" }, ())])?;
    let [d, a, members] = form.finish()?;
    let vote = Some(builder.scope.truth(a)?);
    let members = builder.scope.source(members, Type::B32)?;
    let (destination, destination_pred) = match d {
        _ if ballot => (Some(builder.scope.destination(d, 32)?), None),
        d => (None, Some(super::bits::destination(builder, d)?)),
    };
    op(WarpSync {
        kind,
        members,
        destination,
        destination_pred,
        inputs: [members; 3],
        vote,
    })
}

pub(super) fn matching<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    let kind = form.require(&[
        ("any", WarpSyncKind::MatchAny),
        ("all", WarpSyncKind::MatchAll),
    ])?;
    form.require(&[("sync", ())])?;
    let ty = form.ty(&[Type::B32, Type::B64])?;
    let [d, a, members] = form.finish()?;
    let (destination, destination_pred) = destinations(builder, d)?;
    if kind == WarpSyncKind::MatchAny && destination_pred.is_some() {
        return Err("only `.all` has a second destination".to_owned());
    }
    let a = builder.scope.source(a, ty)?;
    let members = builder.scope.source(members, Type::B32)?;
    op(WarpSync {
        kind,
        members,
        destination,
        destination_pred,
        inputs: [a; 3],
        vote: None,
    })
}

pub(super) fn redux<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.require(&[("sync", ())])?;
    let ty = form.ty(&[Type::B32, Type::U32, Type::S32])?;
    let reduction = match ty {
        Type::B32 => form.require(&[
            ("and", Reduction::And),
            ("or", Reduction::Or),
            ("xor", Reduction::Xor),
        ])?,
        Type::U32 => form.require(&[
            ("add", Reduction::Add),
            ("min", Reduction::MinUnsigned),
            ("max", Reduction::MaxUnsigned),
        ])?,
        _ => form.require(&[
            ("add", Reduction::Add),
            ("min", Reduction::MinSigned),
            ("max", Reduction::MaxSigned),
        ])?,
    };
    let [d, a, members] = form.finish()?;
    let destination = Some(builder.scope.destination(d, 32)?);
    let a = builder.scope.source(a, ty)?;
    let members = builder.scope.source(members, Type::B32)?;
    let kind = WarpSyncKind::Reduce(reduction);
    op(WarpSync {
        kind,
        members,
        destination,
        destination_pred: None,
        inputs: [a; 3],
        vote: None,
    })
}

/// The lanes that execute together at this moment.
pub(super) fn activemask<'a>(
    form: &mut Form<'_, 'a>,
    builder: &mut Builder<'_, 'a>,
) -> Result<Op, Problem> {
    form.require(&[("b32", ())])?;
    let [d] = form.finish()?;
    let d = builder.scope.destination(d, 32)?;
    Ok(whole(move |frame, mask| {
        let active = u64::from(mask);
        set(&mut frame.regs[d as usize], mask, |_| active);
    }))
}
