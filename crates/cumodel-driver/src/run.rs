//! Performs what the engine hands out, and waits.

use std::ops::Range;
use std::ptr;
use std::slice;

use cumodel::guard::Level;
use cumodel::{OpId, Part, Space, Step, Target};

use crate::guard;
use crate::kernel;
use crate::state::{notify, wait_for_change, Effect, Locked, State};
use crate::Code;

/// Runs operations until everything of `target` has executed.
///
/// Fails when everything is forgotten meanwhile, because another thread has ended the last context.
pub fn settle(state: &mut Locked, target: &Target) -> Result<(), Code> {
    let epoch = state.epoch;
    state.engine.want(target);
    while !state.engine.is_done(target) {
        if !step(state, true) {
            // Another thread runs what is left: a host function, or a wait that wanted the same.
            wait_for_change(state);
            if state.epoch != epoch {
                return Err(Code::ContextIsDestroyed);
            }
        }
    }
    Ok(())
}

/// Runs whatever is wanted now, without waiting for host functions; `forced` as for [`cumodel::Engine::next`].
pub fn run_wanted(state: &mut Locked, forced: bool) {
    while step(state, forced) {}
}

/// Performs the next step, if there is one.
fn step(state: &mut Locked, forced: bool) -> bool {
    let Some(Step { op, part, effect }) = state.engine.next(forced) else {
        return false;
    };
    match effect {
        Effect::HostFunction(function) => {
            state.engine.host_function_starts(op);
            state.handle_notices();
            let epoch = state.epoch;
            state.host_functions.run(op, function, epoch);
        }
        Effect::Kernel(launch) => {
            state.count_run(op);
            kernel::run(state, op, &launch);
            notify();
        }
        effect => {
            perform(state, &effect, part);
            finish(state, op, part);
        }
    }
    true
}

/// The effect of a step has happened.
pub fn finish(state: &mut State, op: OpId, part: Part) {
    state.step_done(op, part);
    notify();
}

/// The bytes of a step: where they start, and how many there are; none is a step like any other (R32).
fn piece(bytes: usize, unit: usize, part: Part) -> (usize, usize) {
    let half = bytes / unit / 2 * unit;
    match part {
        Part::Whole => (0, bytes),
        Part::First => (0, half),
        Part::Second => (half, bytes - half),
    }
}

/// Opens the guarded pages of registered memory in a range, where the model has no view of its own.
pub fn open_registered(
    state: &State,
    address: usize,
    bytes: usize,
) -> impl Iterator<Item = Range<u64>> + '_ {
    let range = address as u64..(address as u64).saturating_add(bytes as u64);
    state
        .engine
        .regions()
        .overlapping(&range)
        .filter(|region| region.space == Space::Registered)
        .filter_map(|region| region.guarded.clone())
        .inspect(|pages| guard::protect(pages, Level::Open))
}

/// Guards again what was opened.
pub fn close_registered(state: &State, opened: &[Range<u64>]) {
    for pages in opened {
        for change in state.engine.protection(pages) {
            guard::protect(&change.range, change.level);
        }
    }
}

/// Performs a step, with registered memory open for as long as it takes: also such as was registered after the
/// operation had been enqueued.
fn perform(state: &State, effect: &Effect, part: Part) {
    let touched = match effect {
        Effect::Nothing | Effect::HostFunction(_) | Effect::Kernel(_) => [None, None],
        Effect::Copy(copy) => [Some((copy.from, copy.bytes)), Some((copy.to, copy.bytes))],
        Effect::Staged { contents, to, .. } => [Some((*to, contents.len())), None],
        Effect::Fill {
            to, width, count, ..
        } => [Some((*to, width * count)), None],
    };
    let opened: Vec<Range<u64>> = touched
        .into_iter()
        .flatten()
        .flat_map(|(address, bytes)| open_registered(state, address, bytes))
        .collect();
    move_bytes(effect, part);
    close_registered(state, &opened);
}

fn move_bytes(effect: &Effect, part: Part) {
    match effect {
        Effect::Nothing | Effect::HostFunction(_) | Effect::Kernel(_) => (),
        Effect::Copy(copy) => {
            let (start, bytes) = piece(copy.bytes, 1, part);
            // SAFETY: both ranges were checked when the copy was enqueued: they lie in the engine's view of an
            // allocation, which stays mapped for the life of the process, or in memory that the caller of the driver
            // function vouches for until the copy is complete. `copy` allows them to overlap.
            unsafe {
                ptr::copy(
                    (copy.from as *const u8).add(start),
                    (copy.to as *mut u8).add(start),
                    bytes,
                );
            };
        }
        Effect::Staged { contents, to, .. } => {
            let (start, bytes) = piece(contents.len(), 1, part);
            let source = &contents[start..start + bytes];
            // SAFETY: as above; the contents are the model's own.
            unsafe {
                ptr::copy_nonoverlapping(source.as_ptr(), (*to as *mut u8).add(start), bytes);
            }
        }
        Effect::Fill {
            to,
            value,
            width,
            count,
        } => {
            let (start, bytes) = piece(count * width, *width, part);
            let (to, count) = (to + start, bytes / width);
            match width {
                1 => {
                    // SAFETY: as above.
                    unsafe { ptr::write_bytes(to as *mut u8, *value as u8, count) };
                }
                2 => {
                    // SAFETY: as above; the address is a multiple of 2, which the call checked.
                    unsafe { slice::from_raw_parts_mut(to as *mut u16, count) }.fill(*value as u16);
                }
                _ => {
                    // SAFETY: as above; the address is a multiple of 4, which the call checked.
                    unsafe { slice::from_raw_parts_mut(to as *mut u32, count) }.fill(*value);
                }
            }
        }
    }
}
