//! Context management: primary contexts and created ones, current or not on each thread.

use std::ffi::{c_int, c_uint, c_void};
use std::thread;

use super::device::check_device;
use super::{call, change_current, current_context, enter, give, give_if_wanted, Call, Handle};
use crate::site::capture;
use crate::state::lock;
use crate::Code;

impl Call {
    fn device(&self, device: c_int) -> Result<usize, Code> {
        usize::try_from(device)
            .ok()
            .filter(|&device| device < self.state.config.devices)
            .ok_or_else(|| {
                let why = format!("there is no device {device}");
                self.refuse(Code::InvalidDevice, &why)
            })
    }
}

/// Retains the primary context, making it if this is the first retain (R70).
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32 {
    call("cuDevicePrimaryCtxRetain", |call| {
        let device = call.device(device)?;
        if context.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        if call.state.primaries[device].0 == 0 {
            call.state.primaries[device].1 = call.state.create_context(device);
        }
        call.state.primaries[device].0 += 1;
        let handle = call.state.primaries[device].1;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(context, handle) }
    })
}

/// Releases the primary context; the last release ends it with all that it holds (R70).
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    call("cuDevicePrimaryCtxRelease_v2", |call| {
        let device = call.device(device)?;
        let (retained, handle) = call.state.primaries[device];
        if retained == 0 {
            return Err(call.refuse(
                Code::InvalidContext,
                "the primary context was released more often than retained",
            ));
        }
        call.state.primaries[device].0 -= 1;
        if retained == 1 {
            let name = call.name;
            call.state.destroy_context(handle, name);
        }
        Ok(())
    })
}

/// Is the primary context alive, and with which flags?
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> u32 {
    enter("cuDevicePrimaryCtxGetState", || {
        let device = check_device(device)?;
        let retained = lock().primaries[device].0;
        // SAFETY: the manual's requirement on the out-pointers.
        unsafe {
            give(flags, 0)?;
            give(active, c_int::from(retained > 0))
        }
    })
}

fn create(name: &'static str, context: *mut Handle, device: c_int) -> u32 {
    call(name, |call| {
        let device = call.device(device)?;
        if context.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        let handle = call.state.create_context(device);
        change_current(|stack| stack.push(handle))?;
        // SAFETY: not null, and valid for a write by the manual's requirement.
        unsafe { give(context, handle) }
    })
}

/// Makes a context and pushes it on this thread's stack of current ones.
#[no_mangle]
pub unsafe extern "C" fn cuCtxCreate_v2(
    context: *mut Handle,
    _flags: c_uint,
    device: c_int,
) -> u32 {
    create("cuCtxCreate_v2", context, device)
}

/// Makes a context; execution affinities have no meaning in the model.
#[no_mangle]
pub unsafe extern "C" fn cuCtxCreate_v3(
    context: *mut Handle,
    _affinities: *mut c_void,
    _count: c_int,
    _flags: c_uint,
    device: c_int,
) -> u32 {
    create("cuCtxCreate_v3", context, device)
}

/// Makes a context; the parameters (affinities, contexts for graphics) have no meaning in the model.
#[no_mangle]
pub unsafe extern "C" fn cuCtxCreate_v4(
    context: *mut Handle,
    _parameters: *mut c_void,
    _flags: c_uint,
    device: c_int,
) -> u32 {
    create("cuCtxCreate_v4", context, device)
}

/// Ends a context that was created, with all that it holds.
#[no_mangle]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> u32 {
    call("cuCtxDestroy_v2", |call| {
        let primary = call
            .state
            .primaries
            .iter()
            .any(|(retained, handle)| *retained > 0 && *handle == context);
        if primary || call.state.context(context).is_none() {
            let why = "the handle stands for no live context that was created";
            return Err(call.refuse(Code::InvalidContext, why));
        }
        let name = call.name;
        call.state.destroy_context(context, name);
        change_current(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        })
    })
}

/// The context that is current on this thread, or null (R71).
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> u32 {
    // SAFETY: the manual's requirement on the out-pointer.
    enter("cuCtxGetCurrent", || unsafe {
        give(context, current_context())
    })
}

/// Makes a context current on this thread in place of the one that is (R71).
#[no_mangle]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    enter("cuCtxSetCurrent", || {
        check_context(context)?;
        change_current(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        })
    })
}

/// Makes a context current on this thread until it is popped.
#[no_mangle]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> u32 {
    enter("cuCtxPushCurrent_v2", || {
        if context == 0 {
            return Err(Code::InvalidContext);
        }
        check_context(context)?;
        change_current(|stack| stack.push(context))
    })
}

/// Makes the context below the current one current again.
#[no_mangle]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut Handle) -> u32 {
    enter("cuCtxPopCurrent_v2", || {
        let popped = change_current(Vec::pop)?.ok_or(Code::InvalidContext)?;
        // SAFETY: the manual allows null, and requires a valid pointer otherwise.
        unsafe { give_if_wanted(context, popped) };
        Ok(())
    })
}

fn check_context(context: Handle) -> Result<(), Code> {
    let state = lock();
    if context == 0 || state.context(context).is_some() {
        Ok(())
    } else if state.was_context(context) {
        Err(Code::ContextIsDestroyed)
    } else {
        Err(Code::InvalidContext)
    }
}

/// The device of the current context.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> u32 {
    call("cuCtxGetDevice", |call| {
        let owner = call.owner()?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(device, owner.device as c_int) }
    })
}

/// Waits for everything enqueued in the current context (R8).
#[no_mangle]
pub unsafe extern "C" fn cuCtxSynchronize() -> u32 {
    call("cuCtxSynchronize", |call| {
        let context = call.context()?;
        let Some(legacy) = call.state.context(context).map(|context| context.legacy) else {
            return Err(Code::InvalidContext);
        };
        let thread = thread::current().id();
        let engine = &call.state.engine;
        let capturing = call.state.graphs.captures().iter().any(|capture| {
            capture
                .streams()
                .any(|stream| engine.legacy_of(stream) == legacy)
        });
        if capturing {
            call.state.graphs.invalidate(|capture| {
                capture.mode != crate::graph::Mode::Relaxed || capture.thread == thread
            });
            let why = "a stream of the context captures";
            return Err(call.violate(Code::StreamCaptureUnsupported, why));
        }
        let everything = call.state.engine.context_target(legacy);
        call.wait(&everything, "everything", &capture())
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
            give_if_wanted(least, 0);
            give_if_wanted(greatest, -5);
        }
        Ok(())
    })
}

/// Flags of the context: the model has no scheduling to choose, so any are accepted and none has an effect.
#[no_mangle]
pub unsafe extern "C" fn cuCtxSetFlags(_flags: c_uint) -> u32 {
    call("cuCtxSetFlags", |call| call.context().map(drop))
}

/// Lets the current context use the memory of a context of another device.
#[no_mangle]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) -> u32 {
    call("cuCtxEnablePeerAccess", |call| {
        let context = call.context()?;
        if flags != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags must be 0"));
        }
        let peers = [context, peer].map(|handle| call.state.context(handle).map(|c| c.device));
        let [Some(device), Some(other)] = peers else {
            return Err(call.refuse(Code::InvalidContext, "the peer is no live context"));
        };
        if device == other {
            return Err(call.refuse(Code::InvalidDevice, "the peer is on the same device"));
        }
        if !call.state.peers.insert((context, peer)) {
            return Err(Code::PeerAccessAlreadyEnabled);
        }
        Ok(())
    })
}

/// The opposite.
#[no_mangle]
pub unsafe extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> u32 {
    call("cuCtxDisablePeerAccess", |call| {
        let context = call.context()?;
        if call.state.peers.remove(&(context, peer)) {
            Ok(())
        } else {
            Err(Code::PeerAccessNotEnabled)
        }
    })
}
