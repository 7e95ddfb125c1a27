//! The exported functions: arguments in, result code out.
//!
//! Every function has the name, the arguments and the result of the CUDA driver function that it stands for
//! (<https://docs.nvidia.com/cuda/cuda-driver-api/>), and the safety requirements that come with them: pointers are valid
//! for what the manual says the function reads or writes.
//! A function that is not modelled returns 801 and says so once.
//! None panics across the boundary.
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the names and the requirements are those of CUDA's manual"
)]

pub mod context;
pub mod copy;
pub mod device;
pub mod error;
pub mod event;
pub mod memory;
pub mod stream;
pub mod unmodelled;

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

use cumodel::{EventId, OpId, Site, Spec, StreamId, Target, What};

use crate::host_function::is_host_function_thread;
use crate::run::{run_wanted, settle};
use crate::site::capture;
use crate::state::{lock, Calling, Effect, Locked};
use crate::Code;

/// A handle or null, as it comes over the ABI.
pub(crate) type Handle = usize;

/// The stream handles that name default streams instead of created ones.
const NULL_STREAM: Handle = 0;
const LEGACY_STREAM: Handle = 1;
const PER_THREAD_STREAM: Handle = 2;

thread_local! {
    /// The generation of the primary context that is current on this thread, or 0 (R71).
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The base of the one context's handle; the generation is added.
const FIRST_CONTEXT: Handle = 0xC0_0000;

/// One call of a driver function, with the state locked.
pub(crate) struct Call {
    name: &'static str,
    state: Locked,
}

/// Runs the body of a driver function with the state locked, and afterwards whatever the schedule runs at a call.
pub(crate) fn call(name: &'static str, body: impl FnOnce(&mut Call) -> Result<(), Code>) -> u32 {
    enter(name, || {
        let mut call = Call {
            name,
            state: lock(),
        };
        if !call.state.initialized && name != "cuInit" {
            return Err(Code::NotInitialized);
        }
        let result = body(&mut call);
        call.let_the_schedule_run();
        result
    })
}

/// Runs the body of a driver function that neither enqueues nor waits.
fn enter(name: &'static str, body: impl FnOnce() -> Result<(), Code>) -> u32 {
    if is_host_function_thread() {
        eprintln!("model: {name} was called by a host function, which must not call CUDA (R55): it returned 800");
        return Code::NotPermitted as u32;
    }
    let _calling = Calling::start();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code as u32,
        Err(_) => {
            eprintln!("model: {name} failed inside the model, which is a bug of the model: it returned 999");
            Code::Unknown as u32
        }
    }
}

/// Writes a result through an out-pointer.
///
/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn give<T>(out: *mut T, value: T) -> Result<(), Code> {
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    // SAFETY: not null, so valid for a write by the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

impl Call {
    /// Says why a call is refused, and returns the code to refuse it with.
    fn refuse(&self, code: Code, why: &str) -> Code {
        eprintln!(
            "model: {} returned {} ({}): {why}   {}",
            self.name,
            code as u32,
            code.name(),
            crate::site::locate(&capture())
        );
        code
    }

    /// Fails unless the primary context is current on this thread (R71, R72).
    fn need_context(&self) -> Result<(), Code> {
        if CURRENT.get() != 0 && CURRENT.get() == self.state.generation {
            Ok(())
        } else {
            Err(self.refuse(
                Code::InvalidContext,
                "no context is current on this thread; call ctx.bind_to_thread()? in it first",
            ))
        }
    }

    /// The stream that a handle names.
    fn stream(&mut self, handle: Handle) -> Result<StreamId, Code> {
        match handle {
            NULL_STREAM | LEGACY_STREAM => {
                self.need_context()?;
                Ok(self.state.engine.legacy_stream())
            }
            PER_THREAD_STREAM => {
                self.need_context()?;
                Ok(self.state.per_thread_stream(thread::current().id()))
            }
            _ => match self.state.created_stream(handle) {
                Ok(entry) => Ok(entry.id),
                Err(code) => Err(self.refuse(code, "the stream handle stands for no live stream")),
            },
        }
    }

    /// The event that a handle names.
    fn event(&mut self, handle: Handle) -> Result<EventId, Code> {
        match self.state.event(handle) {
            Ok(entry) => Ok(entry.id),
            Err(code) => Err(self.refuse(code, "the event handle stands for no live event")),
        }
    }

    /// Appends an operation to a stream.
    fn enqueue(
        &mut self,
        stream: StreamId,
        what: What,
        accesses: Vec<cumodel::Access>,
        effect: Effect,
    ) -> OpId {
        let op = self.state.enqueue(
            stream,
            Spec {
                call: self.name,
                what,
                accesses,
                effect,
                site: capture(),
            },
        );
        self.state.handle_notices();
        op
    }

    /// Makes the host wait for `target`, which it calls `on` in the trace.
    fn wait(&mut self, target: &Target, on: &str, site: &Site) {
        self.state.trace.wait(self.name, on, site);
        settle(&mut self.state, target);
        self.state.host_waited(target);
        self.state.handle_notices();
        self.state.trace.waited(self.name, on);
    }

    fn let_the_schedule_run(&mut self) {
        self.state.engine.tick();
        run_wanted(&mut self.state);
        if self.state.engine.every_call_waits() {
            let everything = self.state.engine.device_target();
            settle(&mut self.state, &everything);
            self.state.host_waited(&everything);
        }
        self.state.handle_notices();
    }
}
