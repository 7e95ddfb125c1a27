//! Event management.

use std::ffi::c_uint;

use cumodel::EventId;

use super::{call, give, Call, Handle};
use crate::graph::EventState;
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// Makes an event.
#[no_mangle]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> u32 {
    call("cuEventCreate", |call| {
        let context = call.context()?;
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            let why = "the flags are other than blocking sync (1) and disable timing (2); interprocess events are not modelled";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        if event.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        let handle = call
            .state
            .create_event(context, flags & DISABLE_TIMING == 0);
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(event, handle) }
    })
}

/// Ends an event; waits that were issued on it stay (R15).
#[no_mangle]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> u32 {
    call("cuEventDestroy_v2", |call| {
        call.event(event)?;
        call.state.destroy_event(event, capture())
    })
}

/// Captures the present contents of a stream (R10, R11).
#[no_mangle]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> u32 {
    record("cuEventRecord", event, stream)
}

/// Captures the present contents of a stream; external records (flag 1) are not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuEventRecordWithFlags(
    event: Handle,
    stream: Handle,
    flags: c_uint,
) -> u32 {
    if flags != 0 {
        return Code::InvalidValue as u32;
    }
    record("cuEventRecordWithFlags", event, stream)
}

fn record(name: &'static str, event: Handle, stream: Handle) -> u32 {
    call(name, |call| {
        let id = call.event(event)?;
        let stream_id = call.stream(stream)?;
        let of_stream = call.context_of_stream(stream)?;
        if call.state.event(event)?.context != of_stream {
            let why = "the event and the stream belong to different contexts";
            return Err(call.refuse(Code::InvalidHandle, why));
        }
        if call.state.graphs.status(stream_id).is_some() {
            return call
                .state
                .graphs
                .record(id, stream_id)
                .map_err(|code| call.violate(code, "the capture was invalidated before"));
        }
        call.legacy_is_free(stream_id)?;
        call.state.graphs.forget_event(id);
        let function = call.name;
        let op = call
            .state
            .engine
            .record(id, stream_id, function, capture(), Effect::Nothing);
        let entry = call.state.event(event)?;
        let earlier = entry.recorded.replace(op);
        if entry.timed {
            call.state.keep_time_of(op);
        }
        if let Some(earlier) = earlier {
            call.state.forget_time_of(earlier);
        }
        call.state.trace_operation(op);
        Ok(())
    })
}

impl Call {
    /// Fails for an event that was last recorded in a capture: nothing has run that could be waited for (R62, R66).
    fn not_captured(&mut self, event: EventId) -> Result<(), Code> {
        match self.state.graphs.event_state(event) {
            EventState::Ordinary => Ok(()),
            EventState::Capturing => {
                self.state.graphs.invalidate_event(event);
                let why = "the event was last recorded in a stream that captures";
                Err(self.violate(Code::CapturedEvent, why))
            }
            EventState::Stale => {
                let why =
                    "the event was last recorded in a capture that has ended; record it again";
                Err(self.violate(Code::InvalidValue, why))
            }
        }
    }
}

/// Waits for what the last record captured (R14); an event that was never recorded waits for nothing (R12).
#[no_mangle]
pub unsafe extern "C" fn cuEventSynchronize(event: Handle) -> u32 {
    call("cuEventSynchronize", |call| {
        let id = call.event(event)?;
        call.not_captured(id)?;
        let target = call.state.engine.event_target(id);
        let site = capture();
        if !target.is_empty() {
            let name = format!("event {}", call.state.engine.event_number(id));
            call.wait(&target, &name, &site)?;
        }
        let function = call.name;
        call.state.engine.host_waited_for_event(id, function, site);
        Ok(())
    })
}

/// Is what the last record captured complete? Asking often enough makes it so (R9, R17).
#[no_mangle]
pub unsafe extern "C" fn cuEventQuery(event: Handle) -> u32 {
    call("cuEventQuery", |call| {
        let id = call.event(event)?;
        call.not_captured(id)?;
        call.unsafe_during_capture()?;
        let target = call.state.engine.event_target(id);
        if target.is_empty() {
            let function = call.name;
            call.state
                .engine
                .host_waited_for_event(id, function, capture());
            return Ok(());
        }
        let done = call.state.engine.observe(&target);
        if !done && !call.state.engine.event_query_exhausts_patience(id) {
            return Err(Code::NotReady);
        }
        let name = format!("event {}", call.state.engine.event_number(id));
        call.wait(&target, &name, &capture())
    })
}

/// The virtual time between two records: a thousandth of a millisecond for every operation that ran (R16).
#[no_mangle]
pub unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> u32 {
    // SAFETY: the same requirements.
    unsafe { elapsed("cuEventElapsedTime", milliseconds, start, end) }
}

/// The same.
#[no_mangle]
pub unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> u32 {
    // SAFETY: the same requirements.
    unsafe { elapsed("cuEventElapsedTime_v2", milliseconds, start, end) }
}

/// # Safety
///
/// `milliseconds` is null or valid for a write.
unsafe fn elapsed(name: &'static str, milliseconds: *mut f32, start: Handle, end: Handle) -> u32 {
    call(name, |call| {
        let mut times = [0u64; 2];
        for (handle, time) in [start, end].into_iter().zip(&mut times) {
            call.event(handle)?;
            let entry = call.state.event(handle)?;
            let (timed, recorded) = (entry.timed, entry.recorded);
            let Some(op) = recorded.filter(|_| timed) else {
                let why = "an event was never recorded, or was made without timing";
                return Err(call.refuse(Code::InvalidHandle, why));
            };
            *time = call.state.time_of(op).ok_or(Code::NotReady)?;
        }
        let ticks = times[1] as f32 - times[0] as f32;
        // SAFETY: by the caller's promise.
        unsafe { give(milliseconds, ticks / 1000.0) }
    })
}
