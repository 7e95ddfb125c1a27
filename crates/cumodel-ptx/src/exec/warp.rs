//! A warp: 32 threads, and how they part and meet.
//!
//! Lanes at the same instruction form a group. The deepest call goes first, and among equals the lowest instruction, so
//! that groups meet again where the branches of a condition join. A group that runs for long while others could run gives
//! way, so a lane that spins until its neighbour acts does get its neighbour's action.
use super::lanes::{lanes, Frame, Place, Slot, ALL, WARP};
use super::memory::{Failed, Reach};
use super::sync;
use crate::access::Ranges;
use crate::code::{Code, Constant, Mask, Op};
use crate::launch::Reason;
use crate::Memory;

/// Steps until a group gives way to another of its warp.
const SLICE: u64 = 1 << 10;
/// Steps until a warp gives way to another of its block.
const TURN: u64 = 1 << 12;

/// What a launch has in common for all its warps.
pub(crate) struct Machine<'m> {
    pub(crate) code: &'m Code,
    pub(crate) kernel: usize,
    /// For each function, what its constants hold.
    pub(crate) constants: Vec<Vec<(u32, Constant)>>,
    /// Registers, predicates and bytes of local memory that each call takes at most.
    pub(crate) stride: [usize; 3],
    pub(crate) memory: &'m dyn Memory,
    pub(crate) params: &'m [u8],
}

/// What a warp shares with its block.
pub(crate) struct Surroundings<'b> {
    pub(crate) shared: &'b mut [u8],
    pub(crate) reads: &'b mut Ranges,
    pub(crate) writes: &'b mut Ranges,
}

/// What a group of lanes does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// It waits at a barrier of the block.
    AtBarrier,
    /// It waits for lanes of its warp.
    AtSync,
}

/// Lanes that stand at the same instruction of the same depth of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) mask: Mask,
    pub(crate) depth: usize,
    pub(crate) pc: u32,
    pub(crate) state: State,
}

/// Where and why execution stopped.
pub(crate) struct Failure {
    pub(crate) pc: u32,
    pub(crate) lane: usize,
    pub(crate) reason: Reason,
}

/// 32 threads.
pub(crate) struct Warp {
    pub(crate) place: Place,
    pub(crate) regs: Vec<Slot>,
    pub(crate) preds: Vec<Mask>,
    carry: Mask,
    pub(super) local: Vec<Vec<u8>>,
    /// For each call around a lane, where it returns to.
    pub(super) returns: Vec<[u32; WARP]>,
    pub(crate) groups: Vec<Group>,
    /// Lanes that have not exited.
    pub(crate) live: Mask,
    /// Threads that have arrived at each barrier without waiting.
    pub(crate) arrivals: [u32; 16],
    /// How often groups were made to give way.
    turns: usize,
}

impl Machine<'_> {
    /// Where the registers, predicates and local memory of a depth of calls start.
    pub(super) fn bases(&self, depth: usize) -> [usize; 3] {
        let kernel = &self.code.functions[self.kernel];
        match depth {
            0 => [0; 3],
            _ => {
                let first = [kernel.registers, kernel.predicates, kernel.local];
                std::array::from_fn(|kind| first[kind] + (depth - 1) * self.stride[kind])
            }
        }
    }
}

impl Warp {
    pub(crate) fn new() -> Warp {
        Warp {
            place: Place::default(),
            regs: Vec::new(),
            preds: Vec::new(),
            carry: 0,
            local: vec![Vec::new(); WARP],
            returns: Vec::new(),
            groups: Vec::new(),
            live: 0,
            arrivals: [0; 16],
            turns: 0,
        }
    }

    /// Puts `mask` lanes at the start of the kernel. Local memory holds a pattern, because nothing promises zeros.
    pub(crate) fn start(&mut self, machine: &Machine<'_>, mask: Mask) {
        let kernel = &machine.code.functions[machine.kernel];
        self.regs.clear();
        self.regs.resize(kernel.registers, [0; WARP]);
        self.preds.clear();
        self.preds.resize(kernel.predicates, 0);
        for local in &mut self.local {
            local.clear();
            local.resize(kernel.local, super::block::UNWRITTEN);
        }
        self.returns.clear();
        self.carry = 0;
        self.arrivals = [0; 16];
        self.live = mask;
        self.place.clock = 0;
        self.set_constants(machine, machine.kernel, 0, ALL);
        self.groups.clear();
        self.groups.push(Group {
            mask,
            depth: 0,
            pc: kernel.start,
            state: State::Ready,
        });
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.groups.iter().any(|group| group.state == State::Ready)
    }

    pub(super) fn set_constants(
        &mut self,
        machine: &Machine<'_>,
        function: usize,
        depth: usize,
        mask: Mask,
    ) {
        let [regs, _, local] = machine.bases(depth);
        for &(reg, constant) in &machine.constants[function] {
            let bits = match constant {
                Constant::Bits(bits) => bits,
                Constant::Local(offset) => local as u64 + u64::from(offset),
                Constant::Global(..) | Constant::DynamicShared(_) => {
                    unreachable!("resolved before the launch")
                }
            };
            super::lanes::set(&mut self.regs[regs + reg as usize], mask, |_| bits);
        }
    }

    /// Adds a group, joined with one that stands at the same place.
    pub(crate) fn add(&mut self, group: Group) {
        if group.mask == 0 {
            return;
        }
        let twin = self.groups.iter_mut().find(|other| {
            other.state == State::Ready
                && group.state == State::Ready
                && other.pc == group.pc
                && other.depth == group.depth
        });
        match twin {
            Some(twin) => twin.mask |= group.mask,
            None => self.groups.push(group),
        }
    }

    /// Joins ready groups that stand at the same place.
    pub(crate) fn join_ready(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            self.add(group);
        }
    }

    /// Takes the group that runs next, and the instruction at which it may meet another.
    fn pick(&mut self, give_way: bool) -> Option<(Group, u32)> {
        let ready = || {
            self.groups
                .iter()
                .enumerate()
                .filter(|(_, group)| group.state == State::Ready)
        };
        if give_way {
            self.turns += 1;
            let count = ready().count();
            let index = ready().nth(self.turns % count.max(1))?.0;
            return Some((self.groups.swap_remove(index), u32::MAX));
        }
        let index = ready()
            .min_by_key(|(_, group)| (usize::MAX - group.depth, group.pc))?
            .0;
        let group = self.groups.swap_remove(index);
        let others = self
            .groups
            .iter()
            .filter(|other| other.state == State::Ready && other.depth == group.depth);
        let meets = others.map(|other| other.pc).min().unwrap_or(u32::MAX);
        Some((group, meets))
    }

    /// Runs until nothing is ready or the warp's turn is over; the thread-instructions go to `executed`.
    pub(crate) fn run(
        &mut self,
        machine: &Machine<'_>,
        around: &mut Surroundings<'_>,
        executed: &mut u64,
    ) -> Result<(), Failure> {
        let mut steps = 0;
        let mut give_way = false;
        while steps < TURN {
            let Some((group, meets)) = self.pick(give_way) else {
                return Ok(());
            };
            let before = steps;
            self.run_group(machine, around, group, meets, &mut steps, executed)?;
            // Only a slice that went on to its end and left others waiting makes way for them.
            give_way = !give_way && steps - before >= SLICE;
        }
        Ok(())
    }

    fn run_group(
        &mut self,
        machine: &Machine<'_>,
        around: &mut Surroundings<'_>,
        mut group: Group,
        meets: u32,
        steps: &mut u64,
        executed: &mut u64,
    ) -> Result<(), Failure> {
        let [reg_base, pred_base, _] = machine.bases(group.depth);
        let end = *steps + SLICE;
        while group.pc < meets && *steps < end {
            let inst = &machine.code.insts[group.pc as usize];
            *steps += 1;
            *executed += u64::from(group.mask.count_ones());
            self.place.clock += 1;
            let mask = match inst.guard {
                None => group.mask,
                Some((pred, negated)) => {
                    let value = self.preds[pred_base + pred as usize];
                    group.mask & if negated { !value } else { value }
                }
            };
            let fail = |(lane, reason): Failed| Failure {
                pc: group.pc,
                lane,
                reason,
            };
            match &inst.op {
                Op::Lanes(_) | Op::Load(_) | Op::Store(_) | Op::Atomic(_) | Op::Nothing
                    if mask == 0 => {}
                Op::Lanes(run) => {
                    let mut frame = Frame {
                        regs: &mut self.regs[reg_base..],
                        preds: &mut self.preds[pred_base..],
                        carry: &mut self.carry,
                        place: &self.place,
                    };
                    run(&mut frame, mask);
                }
                Op::Load(_) | Op::Store(_) | Op::Atomic(_) => {
                    let mut reach = Reach {
                        memory: machine.memory,
                        shared: around.shared,
                        local: &mut self.local,
                        params: machine.params,
                        reads: around.reads,
                        writes: around.writes,
                    };
                    let regs = &mut self.regs[reg_base..];
                    match &inst.op {
                        Op::Load(load) => reach.load(load, regs, mask),
                        Op::Store(store) => reach.store(store, regs, mask),
                        Op::Atomic(atomic) => reach.atomic(atomic, regs, mask),
                        _ => Ok(()),
                    }
                    .map_err(fail)?;
                }
                Op::Nothing => {}
                Op::Branch(target) if mask == group.mask => {
                    group.pc = *target;
                    continue;
                }
                Op::WarpSync(sync)
                    if mask == group.mask
                        && sync::is_complete(sync, &self.regs[reg_base..], mask, self.live) =>
                {
                    sync::perform(self, machine, &[group]).map_err(fail)?;
                }
                _ if mask == 0 => {}
                op => {
                    // From here on the lanes part, or leave this depth.
                    self.add(Group {
                        mask: group.mask & !mask,
                        pc: group.pc + 1,
                        ..group
                    });
                    return self
                        .part(machine, op, Group { mask, ..group })
                        .map_err(fail);
                }
            }
            group.pc += 1;
        }
        self.add(group);
        Ok(())
    }

    /// Executes what sends lanes to different places, for all lanes of `group`.
    fn part(&mut self, machine: &Machine<'_>, op: &Op, group: Group) -> Result<(), Failed> {
        let [reg_base, ..] = machine.bases(group.depth);
        let first = group.mask.trailing_zeros() as usize;
        match op {
            Op::Branch(target) => self.add(Group {
                pc: *target,
                ..group
            }),
            Op::BranchIndexed { index, targets } => {
                let index = self.regs[reg_base + *index as usize];
                for lane in lanes(group.mask) {
                    let Some(&target) = targets.get(index[lane] as usize) else {
                        let what = format!(
                            "brx.idx with index {} into {} targets",
                            index[lane],
                            targets.len()
                        );
                        return Err((lane, Reason::Undefined { what }));
                    };
                    self.add(Group {
                        mask: 1 << lane,
                        pc: target,
                        ..group
                    });
                }
            }
            Op::Call(call) => self.call(machine, call, group)?,
            Op::Return if group.depth > 0 => self.give_back(machine, group),
            Op::Return | Op::Exit => {
                self.live &= !group.mask;
                // Lanes that exit are waited for no longer.
                sync::resume(self, machine)?;
            }
            Op::Trap => return Err((first, Reason::Trap)),
            Op::Barrier(barrier) => {
                let id = self.regs[reg_base + barrier.id as usize][first];
                if id >= 16 {
                    return Err((
                        first,
                        Reason::Undefined {
                            what: format!("barrier {id} of 16"),
                        },
                    ));
                }
                if barrier.waits {
                    self.add(Group {
                        state: State::AtBarrier,
                        ..group
                    });
                } else {
                    self.arrivals[id as usize] += WARP as u32;
                    self.add(Group {
                        pc: group.pc + 1,
                        ..group
                    });
                }
            }
            Op::WarpSync(sync) => {
                sync::check_members(sync, &self.regs[reg_base..], group.mask)?;
                self.add(Group {
                    state: State::AtSync,
                    ..group
                });
                sync::resume(self, machine)?;
            }
            Op::Lanes(_) | Op::Load(_) | Op::Store(_) | Op::Atomic(_) | Op::Nothing => {
                self.add(Group {
                    pc: group.pc + 1,
                    ..group
                });
            }
        }
        Ok(())
    }

    /// The registers of a group.
    pub(crate) fn registers(
        &mut self,
        machine: &Machine<'_>,
        group: &Group,
    ) -> (&mut [Slot], &mut [Mask]) {
        let [regs, preds, _] = machine.bases(group.depth);
        (&mut self.regs[regs..], &mut self.preds[preds..])
    }
}
