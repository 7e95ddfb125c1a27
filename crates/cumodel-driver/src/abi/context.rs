//! Context management: one primary context, current or not on each thread.

use std::ffi::{c_int, c_uint};

use super::{call, enter, give, Handle, CURRENT, FIRST_CONTEXT};
use crate::state::lock;
use crate::Code;

/// Retains the primary context, making it if this is the first retain (R70).
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32 {
    call("cuDevicePrimaryCtxRetain", |call| {
        if device != 0 {
            return Err(call.refuse(Code::InvalidDevice, "the model has device 0 only"));
        }
        if call.state.retained == 0 {
            call.state.generation += 1;
        }
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(context, FIRST_CONTEXT + call.state.generation as usize) }?;
        call.state.retained += 1;
        Ok(())
    })
}

/// Releases the primary context; the last release ends it with all that it holds (R70).
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    call("cuDevicePrimaryCtxRelease_v2", |call| {
        if device != 0 {
            return Err(call.refuse(Code::InvalidDevice, "the model has device 0 only"));
        }
        if call.state.retained == 0 {
            return Err(call.refuse(
                Code::InvalidContext,
                "the primary context was released more often than retained",
            ));
        }
        call.state.retained -= 1;
        if call.state.retained == 0 {
            call.state.reset();
        }
        Ok(())
    })
}

/// The context that is current on this thread, or null (R71).
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> u32 {
    enter("cuCtxGetCurrent", || {
        let current = match CURRENT.get() {
            0 => 0,
            generation => FIRST_CONTEXT + generation as usize,
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(context, current) }
    })
}

/// Makes a context current on this thread (R71).
#[no_mangle]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    enter("cuCtxSetCurrent", || {
        let generation = lock().generation;
        if context == 0 {
            CURRENT.set(0);
        } else if context == FIRST_CONTEXT + generation as usize {
            CURRENT.set(generation);
        } else {
            return Err(Code::InvalidContext);
        }
        Ok(())
    })
}

/// Waits for everything enqueued in the context (R8).
#[no_mangle]
pub unsafe extern "C" fn cuCtxSynchronize() -> u32 {
    call("cuCtxSynchronize", |call| {
        call.need_context()?;
        let everything = call.state.engine.device_target();
        call.wait(&everything, "everything", &super::capture());
        Ok(())
    })
}

/// The range of stream priorities.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> u32 {
    enter("cuCtxGetStreamPriorityRange", || {
        // SAFETY: the manual allows either pointer to be null, and requires it to be valid otherwise.
        unsafe {
            if !least.is_null() {
                give(least, 0)?;
            }
            if !greatest.is_null() {
                give(greatest, -5)?;
            }
        }
        Ok(())
    })
}

/// Flags of the context: the model has no scheduling to choose, so any are accepted and none has an effect.
#[no_mangle]
pub unsafe extern "C" fn cuCtxSetFlags(_flags: c_uint) -> u32 {
    call("cuCtxSetFlags", |call| call.need_context())
}
