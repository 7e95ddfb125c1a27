//! Stream management, and host functions.

use std::ffi::{c_int, c_uint, c_void};

use cumodel::{Visibility, What};

use super::{call, give, Handle, NULL_STREAM, PER_THREAD_STREAM};
use crate::graph::EventState;
use crate::host_function::HostFunction;
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const NON_BLOCKING: c_uint = 1;

/// Makes a stream (R4 for flag 1, CU_STREAM_NON_BLOCKING).
#[no_mangle]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> u32 {
    // SAFETY: the same requirements.
    unsafe { create("cuStreamCreate", stream, flags, 0) }
}

/// Makes a stream with a priority, which the model does not act on.
#[no_mangle]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut Handle,
    flags: c_uint,
    priority: c_int,
) -> u32 {
    // SAFETY: the same requirements.
    unsafe { create("cuStreamCreateWithPriority", stream, flags, priority) }
}

/// # Safety
///
/// `stream` is null or valid for a write.
unsafe fn create(name: &'static str, stream: *mut Handle, flags: c_uint, priority: c_int) -> u32 {
    call(name, |call| {
        let context = call.context()?;
        if flags & !NON_BLOCKING != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags are neither 0 nor 1"));
        }
        if stream.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        let handle = call.state.create_stream(context, flags, priority);
        // SAFETY: by the caller's promise.
        unsafe { give(stream, handle) }
    })
}

/// Ends a stream; its pending work still runs (R6).
#[no_mangle]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> u32 {
    call("cuStreamDestroy_v2", |call| {
        match call.state.destroy_stream(stream, capture()) {
            Ok(()) => Ok(()),
            Err(code) => Err(call.refuse_handle(code, stream, "created stream")),
        }
    })
}

/// Waits for everything enqueued in a stream (R7).
#[no_mangle]
pub unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> u32 {
    call("cuStreamSynchronize", |call| {
        let id = call.stream(stream)?;
        call.not_capturing(id)?;
        let target = call.state.engine.stream_target(id);
        let name = call.state.engine.stream_name(id);
        let site = capture();
        call.wait(&target, &name, &site)?;
        let function = call.name;
        call.state.engine.host_waited_for_stream(id, function, site);
        Ok(())
    })
}

/// Is everything enqueued in a stream complete? Asking often enough makes it so (R9).
#[no_mangle]
pub unsafe extern "C" fn cuStreamQuery(stream: Handle) -> u32 {
    call("cuStreamQuery", |call| {
        let id = call.stream(stream)?;
        call.not_capturing(id)?;
        let target = call.state.engine.stream_target(id);
        let done = call.state.engine.observe(&target);
        if !done && !call.state.engine.stream_query_exhausts_patience(id) {
            return Err(Code::NotReady);
        }
        let name = call.state.engine.stream_name(id);
        call.wait(&target, &name, &capture())
    })
}

/// Orders the stream's future work after what the event captured (R13).
#[no_mangle]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> u32 {
    call("cuStreamWaitEvent", |call| {
        if flags != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags must be 0"));
        }
        let id = call.stream(stream)?;
        let event = call.event(event)?;
        match call.state.graphs.event_state(event) {
            EventState::Capturing => {
                return call.state.graphs.wait(id, event).map_err(|code| {
                    call.violate(
                        code,
                        "the event and the stream are in different captures, or in a spoiled one",
                    )
                });
            }
            EventState::Stale => {
                let why =
                    "the event was last recorded in a capture that has ended; record it again";
                return Err(call.violate(Code::InvalidValue, why));
            }
            EventState::Ordinary => (),
        }
        let recorded = !call.state.engine.event_target(event).is_empty();
        if call.state.graphs.status(id).is_some() {
            if !recorded {
                // R12: an event that was never recorded stands for no work, so there is nothing uncaptured to depend on.
                return Ok(());
            }
            call.state.graphs.invalidate_stream(id);
            let why = "the event was recorded outside of the capture";
            return Err(call.violate(Code::StreamCaptureIsolation, why));
        }
        call.legacy_is_free(id)?;
        let function = call.name;
        let op = call
            .state
            .engine
            .wait(id, event, function, capture(), Effect::Nothing);
        call.state.trace_operation(op);
        Ok(())
    })
}

/// The flags that a stream was made with.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) -> u32 {
    call("cuStreamGetFlags", |call| {
        call.stream(stream)?;
        let value = match stream {
            NULL_STREAM..=PER_THREAD_STREAM => 0,
            _ => call.state.created_stream(stream)?.flags,
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(flags, value) }
    })
}

/// The priority that a stream was made with.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) -> u32 {
    call("cuStreamGetPriority", |call| {
        call.stream(stream)?;
        let value = match stream {
            NULL_STREAM..=PER_THREAD_STREAM => 0,
            _ => call.state.created_stream(stream)?.priority,
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(priority, value) }
    })
}

/// The context that a stream belongs to.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> u32 {
    call("cuStreamGetCtx", |call| {
        call.stream(stream)?;
        let handle = call.context_of_stream(stream)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(context, handle) }
    })
}

/// Enqueues a function of the program (R55, R56).
#[no_mangle]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> u32 {
    call("cuLaunchHostFunc", |call| {
        let id = call.stream(stream)?;
        let Some(function) = function else {
            return Err(call.refuse(Code::InvalidValue, "the function is null"));
        };
        if let Err(error) = call.state.host_functions.start() {
            let why = format!("the thread for host functions cannot be started: {error}");
            return Err(call.refuse(Code::OutOfMemory, &why));
        }
        let effect = Effect::HostFunction(HostFunction {
            function,
            data: data as usize,
        });
        let what = What::HostFunction;
        call.submit(id, what, Vec::new(), effect, Visibility::Always)
            .map(drop)
    })
}
