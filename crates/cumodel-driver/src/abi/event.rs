//! Event management.

use std::ffi::c_uint;

use super::{call, give, Handle};
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// Makes an event.
#[no_mangle]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> u32 {
    call("cuEventCreate", |call| {
        call.need_context()?;
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            let why = "the flags are other than blocking sync (1) and disable timing (2); interprocess events are not modelled";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        let handle = call.state.create_event(flags & DISABLE_TIMING == 0);
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(event, handle) }
    })
}

/// Ends an event; waits that were issued on it stay (R15).
#[no_mangle]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> u32 {
    call("cuEventDestroy_v2", |call| {
        call.event(event)?;
        call.state.destroy_event(event)
    })
}

/// Captures the present contents of a stream (R10, R11).
#[no_mangle]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> u32 {
    record("cuEventRecord", event, stream)
}

/// Captures the present contents of a stream; external records (flag 1) belong to graphs, which are not modelled.
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
        let stream = call.stream(stream)?;
        let op = call
            .state
            .engine
            .record(id, stream, call.name, capture(), Effect::Nothing);
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

/// Waits for what the last record captured (R14); an event that was never recorded waits for nothing (R12).
#[no_mangle]
pub unsafe extern "C" fn cuEventSynchronize(event: Handle) -> u32 {
    call("cuEventSynchronize", |call| {
        let id = call.event(event)?;
        let target = call.state.engine.event_target(id);
        let site = capture();
        if !target.is_empty() {
            let name = format!("event {}", call.state.engine.event_number(id));
            call.wait(&target, &name, &site);
        }
        call.state.engine.host_waited_for_event(id, call.name, site);
        Ok(())
    })
}

/// Is what the last record captured complete? Asking often enough makes it so (R9, R17).
#[no_mangle]
pub unsafe extern "C" fn cuEventQuery(event: Handle) -> u32 {
    call("cuEventQuery", |call| {
        let id = call.event(event)?;
        let target = call.state.engine.event_target(id);
        if target.is_empty() {
            return Ok(());
        }
        let done = call.state.engine.is_done(&target);
        if !done && !call.state.engine.event_query_exhausts_patience(id) {
            return Err(Code::NotReady);
        }
        let name = format!("event {}", call.state.engine.event_number(id));
        call.wait(&target, &name, &capture());
        Ok(())
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
