//! Memory: allocation, freeing and questions about it.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use cumodel::{Access, AccessKind, Place, Region, Space, What};

use super::{call, give, Call, Handle};
use crate::run::settle;
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const PORTABLE: c_uint = 1;
const DEVICE_MAP: c_uint = 2;
const WRITE_COMBINED: c_uint = 4;

/// Allocates device memory; its contents are whatever they are (R40).
#[no_mangle]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    call("cuMemAlloc_v2", |call| {
        call.need_context()?;
        if bytes == 0 {
            return Err(call.refuse(Code::InvalidValue, "0 bytes were asked for"));
        }
        let region = call.allocate_device(bytes, None)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(address, region.range.start) }
    })
}

/// Allocates device memory in stream order (R43, R44).
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) -> u32 {
    call("cuMemAllocAsync", |call| {
        let id = call.stream(stream)?;
        let region = call.allocate_device(bytes, Some(id))?;
        call.enqueue(
            id,
            What::Allocate(Place::of(&region)),
            Vec::new(),
            Effect::Nothing,
        );
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(address, region.range.start) }
    })
}

/// Frees device memory at once; the manual only says that this may wait for work in flight (R41, R42).
#[no_mangle]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call("cuMemFree_v2", |call| {
        if address == 0 {
            return Ok(());
        }
        let region = call.allocation(address, Space::Device)?;
        call.state.free_now(&region, "cuMemFree_v2", capture());
        Ok(())
    })
}

/// Frees device memory in stream order (R45).
#[no_mangle]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> u32 {
    call("cuMemFreeAsync", |call| {
        let id = call.stream(stream)?;
        let region = call.allocation(address, Space::Device)?;
        let access = Access {
            range: region.range.clone(),
            kind: AccessKind::Free,
        };
        let what = What::Free(Place::of(&region));
        let op = call.enqueue(id, what, vec![access], Effect::Nothing);
        call.state.free_in_stream(&region, id, op);
        Ok(())
    })
}

/// Allocates page-locked memory.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostAlloc(
    address: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> u32 {
    // SAFETY: the same requirements.
    unsafe { allocate_pinned("cuMemHostAlloc", address, bytes, flags) }
}

/// Allocates page-locked memory with flags 0.
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize) -> u32 {
    // SAFETY: the same requirements.
    unsafe { allocate_pinned("cuMemAllocHost_v2", address, bytes, 0) }
}

/// # Safety
///
/// `address` is null or valid for a write.
unsafe fn allocate_pinned(
    name: &'static str,
    address: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> u32 {
    call(name, |call| {
        call.need_context()?;
        if flags & !(PORTABLE | DEVICE_MAP | WRITE_COMBINED) != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags are unknown"));
        }
        if bytes == 0 {
            return Err(call.refuse(Code::InvalidValue, "0 bytes were asked for"));
        }
        let Some(region) = call.state.allocate_pinned(bytes, flags, capture()) else {
            let why = format!("no room for {bytes} bytes of pinned memory");
            return Err(call.refuse(Code::OutOfMemory, &why));
        };
        // SAFETY: by the caller's promise.
        unsafe { give(address, region.range.start as *mut c_void) }
    })
}

/// Frees page-locked memory; no manual promises that this waits for work in flight (R46).
#[no_mangle]
pub unsafe extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    call("cuMemFreeHost", |call| {
        let region = call.allocation(address as u64, Space::Pinned)?;
        call.state.free_now(&region, "cuMemFreeHost", capture());
        Ok(())
    })
}

/// The flags that page-locked memory was allocated with.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostGetFlags(flags: *mut c_uint, address: *mut c_void) -> u32 {
    call("cuMemHostGetFlags", |call| {
        let Some(value) = call.state.pinned_flags(address as u64) else {
            let why = "the address is in no live pinned allocation";
            return Err(call.refuse(Code::InvalidValue, why));
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(flags, value) }
    })
}

/// Free and total device memory, in bytes (R49).
#[no_mangle]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    call("cuMemGetInfo_v2", |call| {
        call.need_context()?;
        let (free_bytes, total_bytes) = call.state.device_memory();
        // SAFETY: the manual's requirement on the out-pointers.
        unsafe {
            give(free, free_bytes)?;
            give(total, total_bytes)
        }
    })
}

/// Start and size of the allocation that holds an address.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut u64,
    size: *mut usize,
    address: u64,
) -> u32 {
    call("cuMemGetAddressRange_v2", |call| {
        let Some(region) = call.state.engine.region(address).cloned() else {
            let why = "the address is in no live allocation";
            return Err(call.refuse(Code::NotFound, why));
        };
        // SAFETY: the manual allows either pointer to be null, and requires it to be valid otherwise.
        unsafe {
            if !base.is_null() {
                give(base, region.range.start)?;
            }
            if !size.is_null() {
                give(size, (region.range.end - region.range.start) as usize)?;
            }
        }
        Ok(())
    })
}

impl Call {
    /// Allocates device memory, waiting for blocks that are about to be free if there is no room otherwise.
    fn allocate_device(
        &mut self,
        bytes: usize,
        stream: Option<cumodel::StreamId>,
    ) -> Result<Arc<Region>, Code> {
        if let Some(region) = self.state.allocate_device(bytes, stream, capture()) {
            return Ok(region);
        }
        let everything = self.state.engine.device_target();
        settle(&mut self.state, &everything);
        self.state.host_waited(&everything);
        self.state
            .allocate_device(bytes, stream, capture())
            .ok_or_else(|| {
                let why = format!("no room for {bytes} bytes of device memory");
                self.refuse(Code::OutOfMemory, &why)
            })
    }

    /// The live allocation that starts at `address`.
    fn allocation(&self, address: u64, space: Space) -> Result<Arc<Region>, Code> {
        match self.state.engine.region_at(address) {
            Some(region) if region.space == space => Ok(region.clone()),
            _ => Err(self.refuse(
                Code::InvalidValue,
                &format!("{address:#x} is not the start of a live {space} allocation"),
            )),
        }
    }
}
