//! Copies and memsets.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};
use std::slice;

use cumodel::{AccessKind, Target, What};

use super::{call, Call, Handle, NULL_STREAM};
use crate::run::settle;
use crate::site::capture;
use crate::state::{Effect, Place};
use crate::Code;

/// Copies device to host, in stream order (R20 for pinned destinations, R21 for pageable ones).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyDtoHAsync_v2", |call| {
        call.copy(to as u64, from, bytes, stream).map(drop)
    })
}

/// Copies host to device, in stream order (R22 for pinned sources, R23 for pageable ones).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyHtoDAsync_v2", |call| {
        call.copy(to, from as u64, bytes, stream).map(drop)
    })
}

/// Copies device to device, in stream order (R25).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyDtoDAsync_v2", |call| {
        call.copy(to, from, bytes, stream).map(drop)
    })
}

/// Copies between any two places, in stream order.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> u32 {
    call("cuMemcpyAsync", |call| {
        call.copy(to, from, bytes, stream).map(drop)
    })
}

/// Copies device to host on the legacy default stream, and waits (R26).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32 {
    call("cuMemcpyDtoH_v2", |call| {
        call.copy_and_wait(to as u64, from, bytes)
    })
}

/// Copies host to device on the legacy default stream; a pageable source is only waited for until it is read (R26).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> u32 {
    call("cuMemcpyHtoD_v2", |call| {
        call.copy_and_wait(to, from as u64, bytes)
    })
}

/// Copies device to device on the legacy default stream, without any wait of the host (R25).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    call("cuMemcpyDtoD_v2", |call| {
        call.copy(to, from, bytes, NULL_STREAM).map(drop)
    })
}

/// Copies between any two places on the legacy default stream, and waits as the function for those places does.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> u32 {
    call("cuMemcpy", |call| call.copy_and_wait(to, from, bytes))
}

/// Fills with a byte, in stream order (R35).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: c_uchar,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD8Async", |call| {
        call.fill(to, u32::from(value), 1, count, stream).map(drop)
    })
}

/// Fills with a 16-bit value, in stream order; the address is a multiple of 2 (R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD16Async(
    to: u64,
    value: c_ushort,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD16Async", |call| {
        call.fill(to, u32::from(value), 2, count, stream).map(drop)
    })
}

/// Fills with a 32-bit value, in stream order; the address is a multiple of 4 (R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD32Async(
    to: u64,
    value: c_uint,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD32Async", |call| {
        call.fill(to, value, 4, count, stream).map(drop)
    })
}

/// Fills with a byte on the legacy default stream; waits only for pinned memory (R35).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> u32 {
    call("cuMemsetD8_v2", |call| {
        call.fill_and_wait(to, u32::from(value), 1, count)
    })
}

/// Fills with a 16-bit value on the legacy default stream; waits only for pinned memory (R35, R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD16_v2(to: u64, value: c_ushort, count: usize) -> u32 {
    call("cuMemsetD16_v2", |call| {
        call.fill_and_wait(to, u32::from(value), 2, count)
    })
}

/// Fills with a 32-bit value on the legacy default stream; waits only for pinned memory (R35, R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> u32 {
    call("cuMemsetD32_v2", |call| {
        call.fill_and_wait(to, value, 4, count)
    })
}

/// An operation that was just enqueued.
struct Enqueued {
    /// Its moment, to wait for.
    target: Target,
    /// Does the synchronous form of the function wait for it?
    host_waits: bool,
}

impl Call {
    fn place(&self, address: u64, bytes: usize) -> Result<Place, Code> {
        self.state.place(address, bytes).map_err(|code| {
            let why = format!("{bytes} bytes at {address:#x} are not inside one live allocation");
            self.refuse(code, &why)
        })
    }

    fn copy(&mut self, to: u64, from: u64, bytes: usize, stream: Handle) -> Result<Enqueued, Code> {
        let stream = self.stream(stream)?;
        let from = self.place(from, bytes)?;
        let to = self.place(to, bytes)?;
        let mut accesses = Vec::with_capacity(2);
        accesses.extend(from.access(bytes, AccessKind::Read));
        accesses.extend(to.access(bytes, AccessKind::Write));
        let what = What::Copy {
            bytes: bytes as u64,
            from: from.describe(),
            to: to.describe(),
        };
        let staged = from.is_pageable() && !to.is_pageable();
        let effect = if staged && bytes > 0 {
            // R23: a pageable source is read at the call, whatever is queued before the copy.
            // SAFETY: the caller of the driver function promises that the source holds `bytes` bytes.
            let contents = unsafe { slice::from_raw_parts(from.address() as *const u8, bytes) };
            Effect::Staged {
                contents: contents.into(),
                to: to.address(),
            }
        } else {
            Effect::Copy {
                from: from.address(),
                to: to.address(),
                bytes,
            }
        };
        let op = self.enqueue(stream, what, accesses, effect);
        let target = self.state.engine.op_target(op);
        if to.is_pageable() {
            // R21: the copy is complete when the call returns, but no manual promises it: it has run, and is still not
            // ordered before anything that follows.
            settle(&mut self.state, &target);
            if from.is_pageable() {
                // R24: between two pageable places the call is fully synchronous.
                self.state.host_waited(&target);
            }
        }
        Ok(Enqueued {
            target,
            host_waits: !staged && !(from.is_device() && to.is_device()),
        })
    }

    fn copy_and_wait(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Code> {
        let copy = self.copy(to, from, bytes, NULL_STREAM)?;
        if copy.host_waits {
            self.wait(&copy.target, "default stream", &capture());
        }
        Ok(())
    }

    fn fill(
        &mut self,
        to: u64,
        value: u32,
        width: usize,
        count: usize,
        stream: Handle,
    ) -> Result<Enqueued, Code> {
        let stream = self.stream(stream)?;
        if !to.is_multiple_of(width as u64) {
            let why = format!("the address {to:#x} is not a multiple of {width}");
            return Err(self.refuse(Code::InvalidValue, &why));
        }
        let Some(bytes) = count.checked_mul(width) else {
            return Err(self.refuse(Code::InvalidValue, "the size overflows"));
        };
        let to = self.place(to, bytes)?;
        if to.is_pageable() && bytes > 0 {
            let why = "the address is pageable memory, which a memset cannot reach";
            return Err(self.refuse(Code::InvalidValue, why));
        }
        let what = What::Fill {
            bytes: bytes as u64,
            to: to.describe(),
        };
        let accesses = to.access(bytes, AccessKind::Write).into_iter().collect();
        let effect = Effect::Fill {
            to: to.address(),
            value,
            width,
            count,
        };
        let op = self.enqueue(stream, what, accesses, effect);
        Ok(Enqueued {
            target: self.state.engine.op_target(op),
            host_waits: !to.is_device(),
        })
    }

    fn fill_and_wait(
        &mut self,
        to: u64,
        value: u32,
        width: usize,
        count: usize,
    ) -> Result<(), Code> {
        let fill = self.fill(to, value, width, count, NULL_STREAM)?;
        if fill.host_waits {
            self.wait(&fill.target, "default stream", &capture());
        }
        Ok(())
    }
}
