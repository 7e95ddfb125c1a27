//! Calls of device functions.
use super::block::UNWRITTEN;
use super::lanes::{lanes, WARP};
use super::memory::Failed;
use super::warp::{Group, Machine, State, Warp};
use crate::code::{function_at, Call, Mask, Op, Target, LOCAL_LIMIT};
use crate::launch::Reason;

/// Calls in calls.
const DEEPEST: usize = 256;

impl Warp {
    /// Enters a function, which may be another one in each lane.
    pub(super) fn call(
        &mut self,
        machine: &Machine<'_>,
        call: &Call,
        group: Group,
    ) -> Result<(), Failed> {
        let first = group.mask.trailing_zeros() as usize;
        let [reg_base, _, caller] = machine.bases(group.depth);
        let [next_regs, next_preds, callee] = machine.bases(group.depth + 1);
        if group.depth >= DEEPEST || callee + machine.stride[2] > LOCAL_LIMIT {
            return Err((first, Reason::Stack { depth: group.depth }));
        }
        let grow = |length: usize, to: usize| length.max(to);
        self.regs.resize(
            grow(self.regs.len(), next_regs + machine.stride[0]),
            [0; WARP],
        );
        self.preds
            .resize(grow(self.preds.len(), next_preds + machine.stride[1]), 0);
        if self.returns.len() <= group.depth {
            self.returns.push([0; WARP]);
        }
        let mut entered: Vec<(usize, Mask)> = Vec::new();
        for lane in lanes(group.mask) {
            let function = match call.target {
                Target::Function(function) => function,
                Target::Pointer(reg) => {
                    let address = self.regs[reg_base + reg as usize][lane];
                    match function_at(address)
                        .filter(|&function| self.fits(machine, function, call))
                    {
                        Some(function) => function,
                        None => {
                            let what = format!("a call through {address:#x}, which is no function of the prototype");
                            return Err((lane, Reason::Undefined { what }));
                        }
                    }
                }
            };
            let local = &mut self.local[lane];
            local.resize(grow(local.len(), callee + machine.stride[2]), UNWRITTEN);
            for (&(from, bytes), &(to, _)) in call
                .arguments
                .iter()
                .zip(&machine.code.functions[function].params)
            {
                let from = caller + from as usize;
                local.copy_within(from..from + bytes, callee + to as usize);
            }
            self.returns[group.depth][lane] = group.pc + 1;
            match entered.iter_mut().find(|(other, _)| *other == function) {
                Some((_, mask)) => *mask |= 1 << lane,
                None => entered.push((function, 1 << lane)),
            }
        }
        for (function, mask) in entered {
            self.set_constants(machine, function, group.depth + 1, mask);
            let pc = machine.code.functions[function].start;
            self.add(Group {
                mask,
                depth: group.depth + 1,
                pc,
                state: State::Ready,
            });
        }
        Ok(())
    }

    /// Whether a function takes what a call gives it.
    fn fits(&self, machine: &Machine<'_>, function: usize, call: &Call) -> bool {
        let sizes =
            |list: &[(u32, usize)]| list.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>();
        machine
            .code
            .functions
            .get(function)
            .is_some_and(|function| {
                !function.entry
                    && sizes(&function.params) == sizes(&call.arguments)
                    && sizes(&function.results) == sizes(&call.results)
            })
    }

    /// Returns from a device function, each lane to its own caller.
    pub(super) fn give_back(&mut self, machine: &Machine<'_>, group: Group) {
        let [.., callee] = machine.bases(group.depth);
        let [.., caller] = machine.bases(group.depth - 1);
        let function = machine
            .code
            .functions
            .iter()
            .rfind(|function| function.start <= group.pc);
        for lane in lanes(group.mask) {
            let pc = self.returns[group.depth - 1][lane];
            let call = pc
                .checked_sub(1)
                .map(|pc| &machine.code.insts[pc as usize].op);
            if let (Some(Op::Call(call)), Some(function)) = (call, function) {
                for (&(from, bytes), &(to, _)) in function.results.iter().zip(&call.results) {
                    let from = callee + from as usize;
                    self.local[lane].copy_within(from..from + bytes, caller + to as usize);
                }
            }
            self.add(Group {
                mask: 1 << lane,
                depth: group.depth - 1,
                pc,
                state: State::Ready,
            });
        }
    }
}
