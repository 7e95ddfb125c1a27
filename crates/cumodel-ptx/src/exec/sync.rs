//! Instructions in which lanes wait for each other: shuffles, votes and barriers.
use super::lanes::{blend, lanes, Slot, WARP};
use super::memory::Failed;
use super::warp::{Group, Machine, State, Warp};
use crate::code::{Mask, Op, Pred, Reg};
use crate::launch::Reason;

/// `bar` and `barrier`.
pub(crate) struct Barrier {
    pub(crate) id: Reg,
    /// Threads that take part; `None` for all of the block.
    pub(crate) count: Option<Reg>,
    /// `arrive` does not wait.
    pub(crate) waits: bool,
    pub(crate) reduce: Option<Reduce>,
}

/// `bar.red`: the predicate that is reduced, and where the result goes.
pub(crate) struct Reduce {
    pub(crate) kind: ReduceKind,
    pub(crate) input: (Pred, bool),
    /// A register for `Popc`, else a predicate.
    pub(crate) destination: u32,
}

/// How predicates of all threads become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduceKind {
    Popc,
    And,
    Or,
}

/// An instruction of lanes that name each other in a member mask.
pub(crate) struct WarpSync {
    pub(crate) kind: WarpSyncKind,
    pub(crate) members: Reg,
    pub(crate) destination: Option<Reg>,
    pub(crate) destination_pred: Option<Pred>,
    /// Value, lane and clamp of a shuffle; the value alone otherwise.
    pub(crate) inputs: [Reg; 3],
    /// What is voted on.
    pub(crate) vote: Option<(Pred, bool)>,
}

/// What the lanes do once all are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarpSyncKind {
    Barrier,
    ShuffleUp,
    ShuffleDown,
    ShuffleButterfly,
    ShuffleIndex,
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    MatchAll,
    Reduce(Reduction),
}

/// How `redux.sync` joins two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    MinUnsigned,
    MaxUnsigned,
    MinSigned,
    MaxSigned,
    And,
    Or,
    Xor,
}

impl Reduction {
    fn join(self, a: u32, b: u32) -> u32 {
        match self {
            Reduction::Add => a.wrapping_add(b),
            Reduction::MinUnsigned => a.min(b),
            Reduction::MaxUnsigned => a.max(b),
            Reduction::MinSigned => (a as i32).min(b as i32) as u32,
            Reduction::MaxSigned => (a as i32).max(b as i32) as u32,
            Reduction::And => a & b,
            Reduction::Or => a | b,
            Reduction::Xor => a ^ b,
        }
    }
}

/// Whether every live lane that each of these names is here, so that nobody has to wait.
pub(crate) fn is_complete(sync: &WarpSync, regs: &[Slot], mask: Mask, live: Mask) -> bool {
    let members = &regs[sync.members as usize];
    lanes(mask).all(|lane| members[lane] as Mask & live == mask)
}

/// A lane that leaves itself out of its member mask waits for something undefined.
pub(crate) fn check_members(sync: &WarpSync, regs: &[Slot], mask: Mask) -> Result<(), Failed> {
    let members = &regs[sync.members as usize];
    match lanes(mask).find(|&lane| members[lane] as Mask >> lane & 1 == 0) {
        None => Ok(()),
        Some(lane) => {
            let what = format!(
                "lane {lane} is not in its own member mask {:#010x}",
                members[lane] as Mask
            );
            Err((lane, Reason::Undefined { what }))
        }
    }
}

fn sync_at<'m>(machine: &Machine<'m>, group: &Group) -> Option<&'m WarpSync> {
    match &machine.code.insts[group.pc as usize].op {
        Op::WarpSync(sync) => Some(sync),
        _ => None,
    }
}

/// Lets those lanes go on whose members have all come.
pub(crate) fn resume(warp: &mut Warp, machine: &Machine<'_>) -> Result<(), Failed> {
    loop {
        let waiting: Vec<Group> = warp
            .groups
            .iter()
            .filter(|group| group.state == State::AtSync)
            .copied()
            .collect();
        let mut named: Vec<(Mask, Mask)> = Vec::new();
        for group in &waiting {
            let Some(sync) = sync_at(machine, group) else {
                continue;
            };
            let members = warp.registers(machine, group).0[sync.members as usize];
            for lane in lanes(group.mask) {
                let members = members[lane] as Mask;
                match named.iter_mut().find(|(other, _)| *other == members) {
                    Some((_, here)) => *here |= 1 << lane,
                    None => named.push((members, 1 << lane)),
                }
            }
        }
        let complete = named
            .into_iter()
            .find(|(members, here)| members & warp.live == *here);
        let Some((_, here)) = complete else {
            return Ok(());
        };
        let parts: Vec<Group> = waiting
            .iter()
            .map(|group| Group {
                mask: group.mask & here,
                ..*group
            })
            .filter(|group| group.mask != 0)
            .collect();
        perform(warp, machine, &parts)?;
        for group in &mut warp.groups {
            if group.state == State::AtSync {
                group.mask &= !here;
            }
        }
        warp.groups.retain(|group| group.mask != 0);
        for part in parts {
            warp.add(Group {
                pc: part.pc + 1,
                state: State::Ready,
                ..part
            });
        }
    }
}

/// Executes one synchronizing instruction for lanes that may stand at several copies of it.
pub(crate) fn perform(
    warp: &mut Warp,
    machine: &Machine<'_>,
    parts: &[Group],
) -> Result<(), Failed> {
    let (mut inputs, mut members, mut votes, mut all) = ([[0; WARP]; 3], [0; WARP], 0, 0);
    let mut kind = None;
    for part in parts {
        let Some(sync) = sync_at(machine, part) else {
            continue;
        };
        let lane = part.mask.trailing_zeros() as usize;
        let (regs, preds) = warp.registers(machine, part);
        check_members(sync, regs, part.mask)?;
        if *kind.get_or_insert(sync.kind) != sync.kind {
            let what = "lanes that name each other execute different synchronizing instructions"
                .to_owned();
            return Err((lane, Reason::Undefined { what }));
        }
        for (input, reg) in inputs.iter_mut().zip(sync.inputs) {
            super::lanes::set(input, part.mask, |lane| regs[reg as usize][lane]);
        }
        super::lanes::set(&mut members, part.mask, |lane| {
            regs[sync.members as usize][lane]
        });
        if let Some((pred, negated)) = sync.vote {
            let value = preds[pred as usize];
            votes = blend(votes, if negated { !value } else { value }, part.mask);
        }
        all |= part.mask;
    }
    let Some(kind) = kind else { return Ok(()) };
    let (values, truths) = results(kind, &inputs, &members, votes, all)?;
    for part in parts {
        let Some(sync) = sync_at(machine, part) else {
            continue;
        };
        let (regs, preds) = warp.registers(machine, part);
        if let Some(destination) = sync.destination {
            super::lanes::set(&mut regs[destination as usize], part.mask, |lane| {
                values[lane]
            });
        }
        if let Some(pred) = sync.destination_pred {
            preds[pred as usize] = blend(preds[pred as usize], truths, part.mask);
        }
    }
    Ok(())
}

/// A value and a truth for each lane of `all`.
fn results(
    kind: WarpSyncKind,
    inputs: &[Slot; 3],
    members: &Slot,
    votes: Mask,
    all: Mask,
) -> Result<(Slot, Mask), Failed> {
    let [value, b, c] = inputs;
    let (mut values, mut truths) = ([0; WARP], 0);
    for lane in lanes(all) {
        // Lanes may form several parts that synchronize at the same instruction.
        let here = members[lane] as Mask & all;
        let (result, truth) = match kind {
            WarpSyncKind::Barrier => (0, false),
            WarpSyncKind::ShuffleUp
            | WarpSyncKind::ShuffleDown
            | WarpSyncKind::ShuffleButterfly
            | WarpSyncKind::ShuffleIndex => {
                let (from, in_range) =
                    shuffle_source(kind, lane as i32, b[lane] as u32, c[lane] as u32);
                if here >> from & 1 == 0 {
                    let what = format!(
                        "lane {lane} takes a value from lane {from}, which does not take part"
                    );
                    return Err((lane, Reason::Undefined { what }));
                }
                (value[from], in_range)
            }
            WarpSyncKind::VoteAll => (0, votes & here == here),
            WarpSyncKind::VoteAny => (0, votes & here != 0),
            WarpSyncKind::VoteUniform => (0, votes & here == here || votes & here == 0),
            WarpSyncKind::Ballot => (u64::from(votes & here), false),
            WarpSyncKind::MatchAny => {
                let same = lanes(here).filter(|&other| value[other] == value[lane]);
                (same.fold(0, |same, other| same | 1 << other), false)
            }
            WarpSyncKind::MatchAll => {
                let same = lanes(here).all(|other| value[other] == value[lane]);
                (if same { u64::from(here) } else { 0 }, same)
            }
            WarpSyncKind::Reduce(reduction) => {
                let all = lanes(here)
                    .map(|other| value[other] as u32)
                    .reduce(|a, b| reduction.join(a, b));
                (u64::from(all.unwrap_or(0)), false)
            }
        };
        values[lane] = result;
        truths |= Mask::from(truth) << lane;
    }
    Ok((values, truths))
}

/// The lane that a shuffle reads from, and whether it lies in range: the pseudo code of the PTX ISA, `shfl.sync`.
fn shuffle_source(kind: WarpSyncKind, lane: i32, b: u32, c: u32) -> (usize, bool) {
    let (offset, clamp, segment) = ((b & 31) as i32, (c & 31) as i32, (c >> 8 & 31) as i32);
    let last = (lane & segment) | (clamp & !segment);
    let first = lane & segment;
    let (from, in_range) = match kind {
        WarpSyncKind::ShuffleUp => (lane - offset, lane - offset >= last),
        WarpSyncKind::ShuffleDown => (lane + offset, lane + offset <= last),
        WarpSyncKind::ShuffleButterfly => (lane ^ offset, lane ^ offset <= last),
        _ => {
            let from = first | (offset & !segment);
            (from, from <= last)
        }
    };
    (if in_range { from } else { lane } as usize, in_range)
}
