//! Memory: allocation, freeing and questions about it.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use cumodel::{Access, AccessKind, Freed, Place, Region, Space, StreamId, Visibility, What};

use super::{call, give, give_if_wanted, Call, Handle};
use crate::config::Free;
use crate::memory::{Owner, WRITE_COMBINED};
use crate::run::settle;
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const PORTABLE: c_uint = 1;
const DEVICE_MAP: c_uint = 2;

/// Allocates device memory; its contents are whatever they are (R40).
#[no_mangle]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    call("cuMemAlloc_v2", |call| {
        let owner = call.owner()?;
        if bytes == 0 || address.is_null() {
            let why = "0 bytes were asked for, or the out-pointer is null";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        call.unsafe_during_capture()?;
        let region = call.allocate_device(bytes, None, owner)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(address, region.range.start) }
    })
}

/// Allocates device memory in stream order (R43, R44).
///
/// 0 bytes give an address that nothing can be read from or written to (R47: no source says what a driver does).
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) -> u32 {
    call("cuMemAllocAsync", |call| {
        let id = call.stream(stream)?;
        if address.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        let context = call.context_of_stream(stream)?;
        let device = call
            .state
            .context(context)
            .map_or(0, |context| context.device);
        let owner = Owner { device, context };
        let region = call.allocate_device(bytes, Some(id), owner)?;
        let access = Access {
            range: region.range.clone(),
            kind: AccessKind::Allocate,
        };
        let what = What::Allocate(Place::of(&region));
        call.submit(id, what, vec![access], Effect::Nothing, Visibility::ByRace)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(address, region.range.start) }
    })
}

/// Frees device or managed memory at once; the manual only says that this may wait for work in flight (R41, R42).
///
/// An address that no live allocation starts at is refused (R48).
#[no_mangle]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call("cuMemFree_v2", |call| {
        if address == 0 {
            return Ok(());
        }
        let fits = |space| matches!(space, Space::Device | Space::Managed);
        let region = call.allocation(address, "device", fits)?;
        call.unsafe_during_capture()?;
        let stream_ordered = call
            .state
            .memory
            .block(address)
            .is_some_and(|block| block.stream_ordered);
        if !stream_ordered {
            call.wait_as_drivers_do()?;
        }
        let name = call.name;
        call.state.free_now(&region, name, capture());
        Ok(())
    })
}

/// Frees device memory in stream order (R45); memory from outside of a capture cannot be freed in it (R65).
#[no_mangle]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> u32 {
    call("cuMemFreeAsync", |call| {
        let id = call.stream(stream)?;
        let fits = |space| space == Space::Device;
        let region = call.allocation(address, "device", fits)?;
        if call.state.graphs.status(id).is_some() {
            call.state.graphs.invalidate_stream(id);
            let why = "memory from outside of the capture cannot be freed in it";
            return Err(call.violate(Code::InvalidValue, why));
        }
        let access = Access {
            range: region.range.clone(),
            kind: AccessKind::Free,
        };
        let what = What::Free(Place::of(&region));
        let effect = Effect::Nothing;
        let op = call.submit(id, what, vec![access], effect, Visibility::ByRace)?;
        if let Some(op) = op {
            let moment = call.state.engine.op_target(op);
            call.state.engine.free_in_stream(&region);
            let name = call.name;
            call.state
                .memory
                .free_in_stream(&region, id, moment, name, capture());
        }
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
        let owner = call.owner()?;
        if flags & !(PORTABLE | DEVICE_MAP | WRITE_COMBINED) != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags are unknown"));
        }
        if bytes == 0 || address.is_null() {
            let why = "0 bytes were asked for, or the out-pointer is null";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        call.unsafe_during_capture()?;
        call.note_hidden_wait();
        let region = call
            .state
            .allocate_host(Space::Pinned, bytes, flags, owner, capture());
        let Some(region) = region else {
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
        let fits = |space| space == Space::Pinned;
        let region = call.allocation(address as u64, "pinned", fits)?;
        call.unsafe_during_capture()?;
        call.wait_as_drivers_do()?;
        let name = call.name;
        if call.state.free_now(&region, name, capture()) == Freed::Idle {
            call.note_hidden_wait();
        }
        Ok(())
    })
}

/// The flags that page-locked memory was allocated with; all of it is mapped for the device.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostGetFlags(flags: *mut c_uint, address: *mut c_void) -> u32 {
    call("cuMemHostGetFlags", |call| {
        let region = call.state.engine.region(address as u64).cloned();
        let block = region
            .filter(|region| region.space == Space::Pinned)
            .and_then(|region| call.state.memory.block(region.range.start));
        let Some(value) = block.map(|block| block.flags | DEVICE_MAP) else {
            let why = "the address is in no live pinned allocation";
            return Err(call.refuse(Code::InvalidValue, why));
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(flags, value) }
    })
}

/// The device's address of page-locked memory; for write-combined memory it is not the host's (R29).
#[no_mangle]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    device: *mut u64,
    address: *mut c_void,
    flags: c_uint,
) -> u32 {
    call("cuMemHostGetDevicePointer_v2", |call| {
        if flags != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags must be 0"));
        }
        let region = call.state.engine.region(address as u64).cloned();
        let Some(region) = region.filter(|region| region.space.is_host()) else {
            let why = "the address is in no live page-locked or registered memory";
            return Err(call.refuse(Code::InvalidValue, why));
        };
        let value = call.state.memory.device_address(&region, address as u64);
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(device, value) }
    })
}

/// Free and total memory of the current device, in bytes (R49).
#[no_mangle]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    call("cuMemGetInfo_v2", |call| {
        let owner = call.owner()?;
        let (free_bytes, total_bytes) = call.state.memory.of_device(owner.device);
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
            give_if_wanted(base, region.range.start);
            give_if_wanted(size, (region.range.end - region.range.start) as usize);
        }
        Ok(())
    })
}

/// Something about the memory at an address (CUpointer_attribute).
#[no_mangle]
pub unsafe extern "C" fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: c_uint,
    address: u64,
) -> u32 {
    call("cuPointerGetAttribute", |call| {
        if data.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the out-pointer is null"));
        }
        let Some(region) = call.state.engine.region(address).cloned() else {
            let why = format!("{address:#x} is in no memory that the driver knows");
            return Err(call.refuse(Code::InvalidValue, &why));
        };
        let block = call.state.memory.block(region.range.start);
        let (context, device) = block.map_or((0, 0), |block| (block.context, block.device));
        const HOST: c_uint = 1;
        const DEVICE: c_uint = 2;
        // SAFETY: by the manual, `data` holds a value of the attribute's type.
        unsafe {
            match attribute {
                1 => data.cast::<Handle>().write(context), // CONTEXT
                2 => data.cast::<c_uint>().write(
                    if region.space.is_host() && region.space != Space::Managed {
                        HOST
                    } else {
                        DEVICE
                    },
                ), // MEMORY_TYPE
                3 => data
                    .cast::<u64>()
                    .write(call.state.memory.device_address(&region, address)), // DEVICE_POINTER
                4 if region.space.is_host() => data.cast::<u64>().write(address), // HOST_POINTER
                4 => return Err(Code::InvalidValue),
                8 => data
                    .cast::<c_uint>()
                    .write(c_uint::from(region.space == Space::Managed)), // IS_MANAGED
                9 => data.cast::<c_int>().write(device as c_int), // DEVICE_ORDINAL
                11 => data.cast::<u64>().write(region.range.start), // RANGE_START_ADDR
                12 => data
                    .cast::<usize>()
                    .write((region.range.end - region.range.start) as usize), // RANGE_SIZE
                13 => data.cast::<c_uint>().write(1),             // MAPPED
                _ => {
                    let why = format!("pointer attribute {attribute} is not modelled");
                    return Err(call.refuse(Code::NotSupported, &why));
                }
            }
        }
        Ok(())
    })
}

impl Call {
    /// Allocates device memory, waiting for blocks that are about to be free if there is no room otherwise.
    pub(super) fn allocate_device(
        &mut self,
        bytes: usize,
        stream: Option<StreamId>,
        owner: Owner,
    ) -> Result<Arc<Region>, Code> {
        if let Some(region) = self.state.allocate_device(bytes, stream, owner, capture()) {
            return Ok(region);
        }
        let everything = self.state.engine.everything();
        settle(&mut self.state, &everything)?;
        self.state.host_waited(&everything);
        self.state
            .allocate_device(bytes, stream, owner, capture())
            .ok_or_else(|| {
                let why = format!("no room for {bytes} bytes of device memory");
                self.refuse(Code::OutOfMemory, &why)
            })
    }

    /// In the profile `free=driver`, frees wait for all work in flight, as drivers have been seen to do.
    pub(super) fn wait_as_drivers_do(&mut self) -> Result<(), Code> {
        if self.state.config.free == Free::Driver {
            let everything = self.state.engine.everything();
            settle(&mut self.state, &everything)?;
        }
        Ok(())
    }
}
