//! Performs what the engine hands out, and waits.

use std::ptr;
use std::slice;

use cumodel::{OpId, Target};

use crate::state::{notify, wait_for_change, Effect, Locked, State};

/// Runs operations until everything of `target` has executed.
pub fn settle(state: &mut Locked, target: &Target) {
    state.engine.want(target);
    while !state.engine.is_done(target) {
        if !step(state) {
            // Another thread runs what is left: a host function, or a wait that wanted the same.
            wait_for_change(state);
        }
    }
}

/// Runs whatever is wanted now, without waiting for host functions.
pub fn run_wanted(state: &mut Locked) {
    while step(state) {}
}

/// Performs the next operation, if there is one.
fn step(state: &mut Locked) -> bool {
    let Some((op, effect)) = state.engine.next() else {
        return false;
    };
    match effect {
        Effect::HostFunction(function) => {
            state.engine.host_function_starts(op);
            state.handle_notices();
            state.host_functions.run(op, function);
        }
        effect => {
            perform(&effect);
            finish(state, op);
        }
    }
    true
}

/// The effect of `op` has happened.
pub fn finish(state: &mut State, op: OpId) {
    state.operation_ran(op);
    notify();
}

fn perform(effect: &Effect) {
    match effect {
        Effect::Nothing | Effect::HostFunction(_) => (),
        Effect::Copy { from, to, bytes } => {
            // SAFETY: both ranges were checked when the copy was enqueued: they lie in the engine's view of an
            // allocation, which stays mapped for the life of the process, or in memory that the caller of the driver
            // function vouches for until the copy is complete. `copy` allows them to overlap.
            unsafe { ptr::copy(*from as *const u8, *to as *mut u8, *bytes) };
        }
        Effect::Staged { contents, to } => {
            // SAFETY: as above; the contents are the model's own.
            unsafe {
                ptr::copy_nonoverlapping(contents.as_ptr(), *to as *mut u8, contents.len());
            }
        }
        Effect::Fill {
            to,
            value,
            width,
            count,
        } => match width {
            1 => {
                // SAFETY: as above.
                unsafe { ptr::write_bytes(*to as *mut u8, *value as u8, *count) };
            }
            2 => {
                // SAFETY: as above; the address is a multiple of 2, which the call checked.
                unsafe { slice::from_raw_parts_mut(*to as *mut u16, *count) }.fill(*value as u16);
            }
            _ => {
                // SAFETY: as above; the address is a multiple of 4, which the call checked.
                unsafe { slice::from_raw_parts_mut(*to as *mut u32, *count) }.fill(*value);
            }
        },
    }
}
