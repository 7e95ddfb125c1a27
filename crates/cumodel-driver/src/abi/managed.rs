//! Managed memory.

use std::ffi::{c_int, c_uint};

use cumodel::{Place, Space, Visibility, What};

use super::{call, give, Call, Handle, NULL_STREAM};
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const ATTACH_GLOBAL: c_uint = 1;
const ATTACH_HOST: c_uint = 2;
const ATTACH_SINGLE: c_uint = 4;

/// A memory location (CUmemLocation), as it is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// CUmemLocationType.
    pub kind: c_int,
    /// The device or the NUMA node.
    pub id: c_int,
}

/// Allocates managed memory, which the host and the device can both reach.
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) -> u32 {
    call("cuMemAllocManaged", |call| {
        let owner = call.owner()?;
        if bytes == 0 || address.is_null() || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            let why = "0 bytes were asked for, the out-pointer is null, or the flag is neither global (1) nor host (2)";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        call.unsafe_during_capture()?;
        let region = call
            .state
            .allocate_host(Space::Managed, bytes, flags, owner, capture());
        let Some(region) = region else {
            let why = format!("no room for {bytes} bytes of managed memory");
            return Err(call.refuse(Code::OutOfMemory, &why));
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(address, region.range.start) }
    })
}

impl Call {
    /// Enqueues an operation on managed memory that moves it without changing it.
    fn migrate(&mut self, address: u64, bytes: usize, stream: Handle) -> Result<(), Code> {
        let id = self.stream(stream)?;
        let region = self.state.engine.region(address).cloned();
        let inside = region
            .as_ref()
            .is_some_and(|region| bytes as u64 <= region.range.end - address);
        let Some(region) = region.filter(|region| inside && region.space == Space::Managed) else {
            let why = "the range is not inside one live managed allocation";
            return Err(self.refuse(Code::InvalidValue, why));
        };
        let what = What::Migrate(Place::of(&region));
        self.submit(id, what, Vec::new(), Effect::Nothing, Visibility::ByRace)
            .map(drop)
    }
}

/// Moves managed memory in stream order; its contents do not change.
#[no_mangle]
pub unsafe extern "C" fn cuMemPrefetchAsync(
    address: u64,
    bytes: usize,
    _device: c_int,
    stream: Handle,
) -> u32 {
    call("cuMemPrefetchAsync", |call| {
        call.migrate(address, bytes, stream)
    })
}

/// The same, with a location.
#[no_mangle]
pub unsafe extern "C" fn cuMemPrefetchAsync_v2(
    address: u64,
    bytes: usize,
    _location: Location,
    flags: c_uint,
    stream: Handle,
) -> u32 {
    call("cuMemPrefetchAsync_v2", |call| {
        if flags != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags must be 0"));
        }
        call.migrate(address, bytes, stream)
    })
}

/// A hint, which the model has no use for.
#[no_mangle]
pub unsafe extern "C" fn cuMemAdvise(
    address: u64,
    bytes: usize,
    _advice: c_uint,
    _device: c_int,
) -> u32 {
    advise("cuMemAdvise", address, bytes)
}

/// A hint, which the model has no use for.
#[no_mangle]
pub unsafe extern "C" fn cuMemAdvise_v2(
    address: u64,
    bytes: usize,
    _advice: c_uint,
    _location: Location,
) -> u32 {
    advise("cuMemAdvise_v2", address, bytes)
}

fn advise(name: &'static str, address: u64, bytes: usize) -> u32 {
    call(name, |call| {
        let inside = call.state.engine.region(address).is_some_and(|region| {
            region.space == Space::Managed && bytes as u64 <= region.range.end - address
        });
        if inside {
            Ok(())
        } else {
            let why = "the range is not inside one live managed allocation";
            Err(call.refuse(Code::InvalidValue, why))
        }
    })
}

/// Ties managed memory to a stream, to all, or to the host; cannot be captured (R63).
#[no_mangle]
pub unsafe extern "C" fn cuStreamAttachMemAsync(
    stream: Handle,
    address: u64,
    bytes: usize,
    flags: c_uint,
) -> u32 {
    call("cuStreamAttachMemAsync", |call| {
        let id = call.stream(stream)?;
        call.not_capturing(id)?;
        if !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST | ATTACH_SINGLE) {
            return Err(call.refuse(Code::InvalidValue, "the flag is not 1, 2 or 4"));
        }
        if flags == ATTACH_SINGLE && stream == NULL_STREAM {
            let why = "memory cannot be attached to the default stream alone";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        call.migrate(address, bytes, stream)
    })
}
