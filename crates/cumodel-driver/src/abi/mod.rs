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
pub mod control;
pub mod copy;
pub mod device;
pub mod error;
pub mod event;
pub mod function;
pub mod graph;
pub mod launch;
pub mod managed;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod register;
pub mod stream;
pub mod unmodelled;

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use cumodel::hazard::{Hazard, HazardKind, Party};
use cumodel::{
    Access, AccessKind, EventId, OpId, Region, Site, Space, Spec, StreamId, Target, Visibility,
    What,
};

use crate::graph::{Mode, Node};
use crate::host_function::{is_host_function_thread, let_functions_finish};
use crate::memory::Owner;
use crate::run::{run_wanted, settle};
use crate::site::{capture, is_in_a_destructor};
use crate::state::{lock, Calling, Effect, Locked};
use crate::Code;

/// A handle or null, as it comes over the ABI.
pub(crate) type Handle = usize;

/// The stream handles that name default streams instead of created ones.
const NULL_STREAM: Handle = 0;
const LEGACY_STREAM: Handle = 1;
const PER_THREAD_STREAM: Handle = 2;

thread_local! {
    /// The contexts that are current on this thread, the innermost last (R71).
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// The context that is current on this thread, or null.
fn current_context() -> Handle {
    // While the thread ends it has none.
    CURRENT
        .try_with(|stack| stack.borrow().last().copied())
        .ok()
        .flatten()
        .unwrap_or(0)
}

/// Changes what is current on this thread.
fn change_current<T>(change: impl FnOnce(&mut Vec<Handle>) -> T) -> Result<T, Code> {
    CURRENT
        .try_with(|stack| change(&mut stack.borrow_mut()))
        .map_err(|_| Code::Deinitialized)
}

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
        let result = call.run(body);
        if let Err(code) = result {
            call.report_if_in_a_destructor(code);
        }
        result
    })
}

/// Runs the body of a driver function that neither enqueues nor waits.
fn enter(name: &'static str, body: impl FnOnce() -> Result<(), Code>) -> u32 {
    if is_host_function_thread() {
        let does = "was called by a host function; it returned 800".to_owned();
        let hazard = Hazard::of_call(HazardKind::HostFunctionCallsCuda, name, does, capture());
        lock().report(hazard);
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

/// Writes a result through an out-pointer that may be null.
///
/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn give_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, so valid for a write by the caller's promise.
        unsafe { out.write(value) };
    }
}

impl Call {
    fn run(&mut self, body: impl FnOnce(&mut Call) -> Result<(), Code>) -> Result<(), Code> {
        if let Some(code) = self.state.count_call(self.name) {
            return Err(code);
        }
        if !self.state.initialized && self.name != "cuInit" {
            return Err(Code::NotInitialized);
        }
        if let Some(code) = self.state.sticky {
            return Err(code);
        }
        let result = body(self);
        self.let_the_schedule_run();
        // A hazard can have made every call fail from this one on.
        self.state.sticky.map_or(result, Err)
    }

    /// Says why a call is refused, and returns the code to refuse it with.
    fn refuse(&self, code: Code, why: &str) -> Code {
        self.state.reports.say(format!(
            "model: {} returned {} ({}): {why}   {}\n",
            self.name,
            code as u32,
            code.name(),
            crate::site::locate(&capture())
        ));
        code
    }

    /// Refuses a call with a report.
    fn refuse_with(&mut self, code: Code, kind: HazardKind, why: &str, a: Option<Party>) -> Code {
        let does = format!("returned {} ({}): {why}", code as u32, code.name());
        let mut hazard = Hazard::of_call(kind, self.name, does, capture());
        hazard.a = a;
        self.state.report(hazard);
        code
    }

    /// H28: cudarc keeps an error of a destructor and returns it from a later call.
    fn report_if_in_a_destructor(&mut self, code: Code) {
        let site = capture();
        // An error that stays has been told when it came.
        let new = code != Code::NotReady && self.state.sticky.is_none();
        if new && is_in_a_destructor(&site) {
            let does = format!("returned {} ({})", code as u32, code.name());
            self.state.report(Hazard::of_call(
                HazardKind::ErrorInDrop,
                self.name,
                does,
                site,
            ));
        }
    }

    /// The current context (R71 to R73).
    fn context(&mut self) -> Result<Handle, Code> {
        let current = current_context();
        if self.state.context(current).is_some() {
            return Ok(current);
        }
        if current != 0 {
            return Err(self.refuse(
                Code::ContextIsDestroyed,
                "the current context was destroyed",
            ));
        }
        let why = "no context is current on this thread";
        Err(self.refuse_with(
            Code::InvalidContext,
            HazardKind::NoCurrentContext,
            why,
            None,
        ))
    }

    /// Whose memory an allocation in the current context is.
    fn owner(&mut self) -> Result<Owner, Code> {
        let context = self.context()?;
        let device = self
            .state
            .context(context)
            .map_or(0, |context| context.device);
        Ok(Owner { device, context })
    }

    /// The stream that a handle names; a default stream is that of the current context (R72).
    fn stream(&mut self, handle: Handle) -> Result<StreamId, Code> {
        match handle {
            NULL_STREAM | LEGACY_STREAM => {
                let context = self.context()?;
                self.state
                    .context(context)
                    .map(|context| context.legacy)
                    .ok_or(Code::InvalidContext)
            }
            PER_THREAD_STREAM => {
                let context = self.context()?;
                Ok(self
                    .state
                    .per_thread_stream(context, thread::current().id()))
            }
            _ => match self.state.created_stream(handle) {
                Ok(entry) => Ok(entry.id),
                Err(code) => Err(self.refuse_handle(code, handle, "stream")),
            },
        }
    }

    /// The context that a stream handle belongs to.
    fn context_of_stream(&mut self, handle: Handle) -> Result<Handle, Code> {
        match handle {
            NULL_STREAM | LEGACY_STREAM | PER_THREAD_STREAM => self.context(),
            _ => Ok(self.state.created_stream(handle)?.context),
        }
    }

    /// The event that a handle names.
    fn event(&mut self, handle: Handle) -> Result<EventId, Code> {
        match self.state.event(handle) {
            Ok(entry) => Ok(entry.id),
            Err(code) => Err(self.refuse_handle(code, handle, "event")),
        }
    }

    /// Refuses a handle that stands for no live object; a dead one is reported (H21).
    fn refuse_handle(&mut self, code: Code, handle: Handle, what: &str) -> Code {
        let Some((dead, site)) = self.state.dead(handle).cloned() else {
            let why = format!("the handle {handle:#x} stands for no live {what}");
            return self.refuse(code, &why);
        };
        let a = Party::Call {
            call: "the destroying call",
            does: format!("ended the {dead} {handle:#x}"),
            site,
        };
        let why = format!("the handle {handle:#x} stood for a {dead} that was destroyed");
        self.refuse_with(code, HazardKind::DeadHandle, &why, Some(a))
    }

    /// Reports a call that a capture forbids (H23); that an earlier one spoiled the capture is no second report.
    fn violate(&mut self, code: Code, why: &str) -> Code {
        if code == Code::StreamCaptureInvalidated {
            return self.refuse(code, why);
        }
        self.refuse_with(code, HazardKind::CaptureViolation, why, None)
    }

    /// Fails, and spoils the capture, when a capture's mode forbids unsafe calls to this thread (R63).
    fn unsafe_during_capture(&mut self) -> Result<(), Code> {
        let thread = thread::current().id();
        let forbids = |mode: Mode, owner| match mode {
            Mode::Global => true,
            Mode::ThreadLocal => owner == thread,
            Mode::Relaxed => false,
        };
        let forbidden = self
            .state
            .graphs
            .captures()
            .iter()
            .any(|capture| forbids(capture.mode, capture.thread));
        if !forbidden {
            return Ok(());
        }
        self.state
            .graphs
            .invalidate(|capture| forbids(capture.mode, capture.thread));
        let why = "the call is unsafe while a stream captures in this mode";
        Err(self.violate(Code::StreamCaptureUnsupported, why))
    }

    /// Fails, and spoils the capture, when `stream` captures: it has nothing that could be waited for (R62).
    fn not_capturing(&mut self, stream: StreamId) -> Result<(), Code> {
        match self.state.graphs.status(stream) {
            None => self.legacy_is_free(stream),
            Some(_) => {
                self.state.graphs.invalidate_stream(stream);
                let why = "the stream captures: nothing has run that could be waited for";
                Err(self.violate(Code::StreamCaptureUnsupported, why))
            }
        }
    }

    /// Fails when `stream` is a legacy default stream and a blocking stream of its context captures (R62).
    fn legacy_is_free(&mut self, stream: StreamId) -> Result<(), Code> {
        if !self.state.graphs.capturing() {
            return Ok(());
        }
        let captured: Vec<StreamId> = self
            .state
            .graphs
            .captures()
            .iter()
            .flat_map(|capture| capture.streams())
            .collect();
        let engine = &self.state.engine;
        let tied: Vec<StreamId> = captured
            .into_iter()
            .filter(|&other| engine.is_ordered_by_legacy_rule(stream, other))
            .collect();
        if tied.is_empty() {
            return Ok(());
        }
        for other in tied {
            self.state.graphs.invalidate_stream(other);
        }
        let why = "the legacy default stream orders with a blocking stream that captures";
        Err(self.violate(Code::StreamCaptureImplicit, why))
    }

    /// Appends an operation to a stream, or to the capture that the stream is in; then there is no operation yet.
    fn submit(
        &mut self,
        stream: StreamId,
        what: What,
        accesses: Vec<Access>,
        effect: Effect,
        visibility: Visibility,
    ) -> Result<Option<OpId>, Code> {
        if self.state.graphs.status(stream).is_some() {
            let regions: Vec<Arc<Region>> = accesses
                .iter()
                .filter_map(|access| self.state.engine.region(access.range.start).cloned())
                .collect();
            let node = Node {
                call: self.name,
                what,
                accesses,
                effect,
                visibility,
                site: capture(),
                regions,
                after: Vec::new(),
            };
            return match self.state.graphs.add(stream, node) {
                Ok(()) => Ok(None),
                Err(code) => Err(self.violate(code, "the capture was invalidated before")),
            };
        }
        self.legacy_is_free(stream)?;
        let spec = Spec {
            call: self.name,
            what,
            accesses,
            late: self.expected(&effect),
            effect,
            site: capture(),
            visibility,
        };
        Ok(Some(self.state.enqueue(stream, spec, &[])))
    }

    /// The allocations that an operation can be expected to touch, if it shows only by running which ones it does.
    fn expected(&self, effect: &Effect) -> Option<Vec<Range<u64>>> {
        let Effect::Kernel(launch) = effect else {
            return None;
        };
        let state = &*self.state;
        let regions = launch.expected(&state.memory, &state.engine);
        Some(regions.iter().map(|it| it.range.clone()).collect())
    }

    /// Makes the host wait for `target`, which it calls `on` in the trace.
    fn wait(&mut self, target: &Target, on: &str, site: &Site) -> Result<(), Code> {
        self.state.trace.wait(self.name, on, site);
        settle(&mut self.state, target)?;
        self.state.host_waited(target);
        self.state.handle_notices();
        self.state.trace.waited(self.name, on);
        Ok(())
    }

    /// The live allocation that starts at `address`, of a kind that satisfies `fits`.
    fn allocation(
        &mut self,
        address: u64,
        kind: &str,
        fits: impl Fn(Space) -> bool,
    ) -> Result<Arc<Region>, Code> {
        let of_module = self.state.modules.owns(address);
        match self.state.engine.regions().starting_at(address) {
            Some(region) if fits(region.space) && !of_module => Ok(region.clone()),
            _ => {
                let why = format!("{address:#x} is not the start of a live {kind} allocation");
                let why = match self.state.memory.ended(address) {
                    Some(ended) => format!(
                        "{why}; {} was freed by {} at {}",
                        ended.region,
                        ended.call,
                        crate::site::locate(&ended.site)
                    ),
                    None => why,
                };
                Err(self.refuse(Code::InvalidValue, &why))
            }
        }
    }

    /// Notes that the call waits on hardware although nothing says so (H31), when work is in flight.
    fn note_hidden_wait(&mut self) {
        let in_flight = self
            .state
            .engine
            .pending(|effect| !matches!(effect, Effect::Nothing));
        if !in_flight.is_empty() {
            let does = format!("{} operations were in flight", in_flight.len());
            let hazard = Hazard::of_call(HazardKind::HiddenSync, self.name, does, capture());
            self.state.report(hazard);
        }
    }

    fn let_the_schedule_run(&mut self) {
        self.state.engine.tick();
        run_wanted(&mut self.state, false);
        let_functions_finish(&mut self.state);
        if self.state.engine.every_call_waits() {
            let everything = self.state.engine.everything();
            if settle(&mut self.state, &everything).is_ok() {
                self.state.host_waited(&everything);
            }
        }
        self.state.handle_notices();
    }
}

/// The accesses of a copy or a memset.
fn accesses(
    from: Option<(&crate::memory::Place, usize)>,
    to: (&crate::memory::Place, usize),
) -> Vec<Access> {
    let read = from.and_then(|(place, bytes)| place.access(bytes, AccessKind::Read));
    let write = to.0.access(to.1, AccessKind::Write);
    read.into_iter().chain(write).collect()
}
