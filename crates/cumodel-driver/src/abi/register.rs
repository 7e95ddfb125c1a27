//! Registration of the program's own memory (R27).

use std::ffi::{c_uint, c_void};
use std::fs;
use std::ops::Range;

use cumodel::Space;

use super::call;
use crate::site::capture;
use crate::Code;

const PORTABLE: c_uint = 1;
const DEVICE_MAP: c_uint = 2;
const IO_MEMORY: c_uint = 4;
const READ_ONLY: c_uint = 8;

/// Makes memory of the program page-locked.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostRegister_v2(
    address: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> u32 {
    call("cuMemHostRegister_v2", |call| {
        let owner = call.owner()?;
        let start = address as u64;
        let Some(end) = start
            .checked_add(bytes as u64)
            .filter(|_| bytes > 0 && start > 0)
        else {
            let why = "the range is empty, null, or wraps around";
            return Err(call.refuse(Code::InvalidValue, why));
        };
        if flags & !(PORTABLE | DEVICE_MAP | IO_MEMORY | READ_ONLY) != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags are unknown"));
        }
        if flags & (IO_MEMORY | READ_ONLY) != 0 {
            let why = "registration of I/O memory or for reading alone is not supported (attribute 113 is 0)";
            return Err(call.refuse(Code::NotSupported, why));
        }
        call.unsafe_during_capture()?;
        let range = start..end;
        if let Some(other) = call.state.engine.regions().overlapping(&range).next() {
            let why = format!("{other} covers part of the range already");
            return Err(call.refuse(Code::HostMemoryAlreadyRegistered, &why));
        }
        if !is_writable(&range) {
            let why = "part of the range is not mapped, or cannot be written";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        let state = &mut *call.state;
        state
            .memory
            .register(&mut state.engine, range, flags, owner, capture());
        call.state.handle_notices();
        Ok(())
    })
}

/// Makes registered memory pageable again; that is no wait for work in flight (R46).
#[no_mangle]
pub unsafe extern "C" fn cuMemHostUnregister(address: *mut c_void) -> u32 {
    call("cuMemHostUnregister", |call| {
        let address = address as u64;
        let region = match call.state.engine.region(address).cloned() {
            None => {
                let why = "the address is in no registered memory";
                return Err(call.refuse(Code::HostMemoryNotRegistered, why));
            }
            Some(region) if region.space != Space::Registered => {
                let why = format!("{region} was not registered but allocated");
                return Err(call.refuse(Code::InvalidValue, &why));
            }
            Some(region) if region.range.start != address => {
                let why = "the address is inside registered memory, not its start";
                return Err(call.refuse(Code::InvalidValue, why));
            }
            Some(region) => region,
        };
        call.unsafe_during_capture()?;
        call.wait_as_drivers_do()?;
        let name = call.name;
        call.state.free_now(&region, name, capture());
        Ok(())
    })
}

/// Is every byte of `range` mapped readable and writable?
fn is_writable(range: &Range<u64>) -> bool {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        // Without the list nothing is known against it.
        return true;
    };
    let mut position = range.start;
    for line in maps.lines() {
        let Some((addresses, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((start, end)) = addresses.split_once('-') else {
            continue;
        };
        let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        else {
            continue;
        };
        if (start..end).contains(&position) && rest.starts_with("rw") {
            position = end;
        }
        if position >= range.end {
            return true;
        }
    }
    false
}
