//! A block: warps in turn, and the barriers between them.
use super::lanes::{blend, lanes, WARP};
use super::sync::{Barrier, ReduceKind};
use super::warp::{Failure, Group, Machine, State, Surroundings, Warp};
use crate::access::Ranges;
use crate::code::{Mask, Op};
use crate::launch::Reason;

/// Shared and local memory before the first write: no value is promised there, and zeros would hide that.
pub(crate) const UNWRITTEN: u8 = 0xcd;

/// One block at a time, with storage that the next block uses again.
pub(crate) struct Block {
    warps: Vec<Warp>,
    shared: Vec<u8>,
    threads: u32,
    pub(crate) reads: Ranges,
    pub(crate) writes: Ranges,
}

/// The warp in which a block failed, and how.
pub(crate) type BlockFailure = (usize, Failure);

impl Block {
    pub(crate) fn new(
        machine: &Machine<'_>,
        block: [u32; 3],
        grid: [u32; 3],
        static_shared: u32,
        dynamic_shared: u32,
    ) -> Block {
        let threads = block.iter().product::<u32>();
        let count = threads.div_ceil(WARP as u32);
        let total_shared = static_shared + dynamic_shared;
        let warps = (0..count).map(|index| {
            let mut warp = Warp::new();
            let place = &mut warp.place;
            for lane in 0..WARP {
                let thread = index * WARP as u32 + lane as u32;
                place.tid[0][lane] = thread % block[0];
                place.tid[1][lane] = thread / block[0] % block[1];
                place.tid[2][lane] = thread / block[0] / block[1];
            }
            place.ntid = block;
            place.nctaid = grid;
            place.warp = index;
            place.warps = count;
            place.dynamic_shared = dynamic_shared;
            place.total_shared = total_shared;
            warp
        });
        Block {
            warps: warps.collect(),
            shared: vec![UNWRITTEN; total_shared as usize],
            threads,
            reads: Ranges::new(machine.code.accesses),
            writes: Ranges::new(machine.code.accesses),
        }
    }

    /// Executes the block `index` to its end. `go_on` hears of thread-instructions and may stop the block.
    pub(crate) fn run(
        &mut self,
        machine: &Machine<'_>,
        index: [u32; 3],
        mut go_on: impl FnMut(u64) -> Result<(), Reason>,
    ) -> Result<(), BlockFailure> {
        self.shared.fill(UNWRITTEN);
        for (number, warp) in self.warps.iter_mut().enumerate() {
            let lanes = (self.threads - (number * WARP) as u32).min(WARP as u32);
            warp.place.ctaid = index;
            warp.start(machine, Mask::MAX >> (WARP as u32 - lanes));
        }
        loop {
            let (mut alive, mut moved) = (false, false);
            for number in 0..self.warps.len() {
                let warp = &mut self.warps[number];
                if warp.live == 0 {
                    continue;
                }
                alive = true;
                if !warp.has_ready() {
                    continue;
                }
                moved = true;
                let mut around = Surroundings {
                    shared: &mut self.shared,
                    reads: &mut self.reads,
                    writes: &mut self.writes,
                };
                let mut executed = 0;
                let ran = warp.run(machine, &mut around, &mut executed);
                go_on(executed).map_err(|reason| (number, stopped_at(warp, reason)))?;
                ran.map_err(|failure| (number, failure))?;
            }
            if !alive {
                return Ok(());
            }
            if !self.release_barriers(machine) && !moved {
                return Err(self.deadlock(machine));
            }
        }
    }

    /// Lets the threads go on whose barrier is complete; says whether there were any.
    fn release_barriers(&mut self, machine: &Machine<'_>) -> bool {
        let mut released = false;
        for id in 0..16 {
            let waiting = self.waiting_at(machine, id);
            let Some(&(number, group)) = waiting.first() else {
                continue;
            };
            let Some(barrier) = barrier_at(machine, &group) else {
                continue;
            };
            let complete = match barrier.count {
                None => {
                    let here: u32 = waiting
                        .iter()
                        .map(|(_, group)| group.mask.count_ones())
                        .sum();
                    here == self.warps.iter().map(|warp| warp.live.count_ones()).sum()
                }
                Some(count) => {
                    let lane = group.mask.trailing_zeros() as usize;
                    let wanted =
                        self.warps[number].registers(machine, &group).0[count as usize][lane];
                    // A warp counts as a whole, once all of its live lanes have come.
                    let come = self.warps.iter().enumerate().filter(|(number, warp)| {
                        let here = waiting
                            .iter()
                            .filter(|(other, _)| other == number)
                            .fold(0, |here, (_, group)| here | group.mask);
                        here != 0 && here == warp.live
                    });
                    let arrived: u32 = self
                        .warps
                        .iter()
                        .map(|warp| warp.arrivals[id as usize])
                        .sum();
                    (come.count() * WARP) as u64 + u64::from(arrived) >= wanted
                }
            };
            if complete {
                self.reduce(machine, &waiting);
                self.release(machine, id);
                released = true;
            }
        }
        released
    }

    /// The groups that wait at a barrier, each with the number of its warp.
    fn waiting_at(&mut self, machine: &Machine<'_>, id: u64) -> Vec<(usize, Group)> {
        let mut waiting = Vec::new();
        for (number, warp) in self.warps.iter_mut().enumerate() {
            for index in 0..warp.groups.len() {
                let group = warp.groups[index];
                if group.state == State::AtBarrier && barrier_id(machine, warp, &group) == Some(id)
                {
                    waiting.push((number, group));
                }
            }
        }
        waiting
    }

    fn release(&mut self, machine: &Machine<'_>, id: u64) {
        for warp in &mut self.warps {
            warp.arrivals[id as usize] = 0;
            for index in 0..warp.groups.len() {
                let group = warp.groups[index];
                if group.state == State::AtBarrier && barrier_id(machine, warp, &group) == Some(id)
                {
                    warp.groups[index] = Group {
                        state: State::Ready,
                        pc: group.pc + 1,
                        ..group
                    };
                }
            }
            warp.join_ready();
        }
    }

    /// `bar.red`: every thread that waited gets the result.
    fn reduce(&mut self, machine: &Machine<'_>, waiting: &[(usize, Group)]) {
        let (mut yes, mut all) = (0, 0);
        for &(number, group) in waiting {
            let Some(reduce) =
                barrier_at(machine, &group).and_then(|barrier| barrier.reduce.as_ref())
            else {
                continue;
            };
            let (pred, negated) = reduce.input;
            let value = self.warps[number].registers(machine, &group).1[pred as usize];
            yes += (group.mask & if negated { !value } else { value }).count_ones();
            all += group.mask.count_ones();
        }
        for &(number, group) in waiting {
            let Some(reduce) =
                barrier_at(machine, &group).and_then(|barrier| barrier.reduce.as_ref())
            else {
                continue;
            };
            let (regs, preds) = self.warps[number].registers(machine, &group);
            let destination = reduce.destination as usize;
            let truth = match reduce.kind {
                ReduceKind::Popc => {
                    super::lanes::set(&mut regs[destination], group.mask, |_| u64::from(yes));
                    continue;
                }
                ReduceKind::And => yes == all,
                ReduceKind::Or => yes > 0,
            };
            preds[destination] = blend(
                preds[destination],
                if truth { Mask::MAX } else { 0 },
                group.mask,
            );
        }
    }

    /// Nobody can go on: says who waits for what.
    fn deadlock(&self, machine: &Machine<'_>) -> BlockFailure {
        let groups = self
            .warps
            .iter()
            .enumerate()
            .flat_map(|(number, warp)| warp.groups.iter().map(move |group| (number, *group)));
        let waits = |state: State| {
            groups
                .clone()
                .filter(|(_, group)| group.state == state)
                .map(|(_, group)| group.mask.count_ones())
                .sum::<u32>()
        };
        let (at_barrier, at_sync) = (waits(State::AtBarrier), waits(State::AtSync));
        let exited = self.threads - at_barrier - at_sync;
        let what = format!(
            "{at_barrier} threads wait at a barrier of the block and {at_sync} for lanes of their warp, \
             {exited} have exited, and none can go on"
        );
        let lines: std::collections::BTreeSet<u32> = groups
            .clone()
            .map(|(_, group)| machine.code.insts[group.pc as usize].line)
            .collect();
        let lines = lines
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let what = format!("{what} (PTX lines {lines})");
        // The lanes that wait for their warp are the cause more often than the barrier is.
        let (number, group) = groups
            .clone()
            .find(|(_, group)| group.state == State::AtSync)
            .or_else(|| groups.clone().next())
            .unwrap_or((
                0,
                Group {
                    mask: 1,
                    depth: 0,
                    pc: 0,
                    state: State::Ready,
                },
            ));
        let lane = lanes(group.mask).next().unwrap_or(0);
        (
            number,
            Failure {
                pc: group.pc,
                lane,
                reason: Reason::Deadlock { what },
            },
        )
    }

    /// The thread of a lane.
    pub(crate) fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        self.warps[warp].place.tid.map(|axis| axis[lane])
    }
}

fn stopped_at(warp: &Warp, reason: Reason) -> Failure {
    let group = warp
        .groups
        .iter()
        .min_by_key(|group| group.state != State::Ready);
    let (pc, lane) = group.map_or((0, 0), |group| {
        (group.pc, group.mask.trailing_zeros() as usize)
    });
    Failure { pc, lane, reason }
}

fn barrier_at<'m>(machine: &Machine<'m>, group: &Group) -> Option<&'m Barrier> {
    match &machine.code.insts[group.pc as usize].op {
        Op::Barrier(barrier) => Some(barrier),
        _ => None,
    }
}

fn barrier_id(machine: &Machine<'_>, warp: &mut Warp, group: &Group) -> Option<u64> {
    let barrier = barrier_at(machine, group)?;
    let lane = group.mask.trailing_zeros() as usize;
    Some(warp.registers(machine, group).0[barrier.id as usize][lane])
}
