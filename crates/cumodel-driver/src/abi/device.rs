//! Initialization, version and device management.

use std::ffi::{c_char, c_int, c_uint};

use super::{call, enter, give};
use crate::state::lock;
use crate::Code;

/// The CUDA version whose behaviour is modelled: 12.8.
const CUDA_VERSION: c_int = 12080;
const NAME: &[u8] = b"Model device (no GPU)\0";
const UUID: [u8; 16] = *b"cumodel device 0";

/// Which model of a driver this is; no real driver exports it.
#[no_mangle]
pub extern "C" fn cumodel_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Initializes the driver.
#[no_mangle]
pub unsafe extern "C" fn cuInit(flags: c_uint) -> u32 {
    call("cuInit", |call| {
        if flags != 0 {
            return Err(call.refuse(Code::InvalidValue, "the flags must be 0"));
        }
        call.state.initialized = true;
        Ok(())
    })
}

/// The CUDA version that the driver supports.
#[no_mangle]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    // SAFETY: the manual's requirement on the out-pointer.
    enter("cuDriverGetVersion", || unsafe {
        give(version, CUDA_VERSION)
    })
}

fn check_device(device: c_int) -> Result<(), Code> {
    if !lock().initialized {
        return Err(Code::NotInitialized);
    }
    if device == 0 {
        Ok(())
    } else {
        Err(Code::InvalidDevice)
    }
}

/// The handle of a device.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    enter("cuDeviceGet", || {
        check_device(ordinal)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(device, ordinal) }
    })
}

/// The number of devices.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    enter("cuDeviceGetCount", || {
        check_device(0)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(count, 1) }
    })
}

/// The name of a device, cut to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> u32 {
    enter("cuDeviceGetName", || {
        check_device(device)?;
        if name.is_null() || length <= 0 {
            return Err(Code::InvalidValue);
        }
        let count = NAME.len().min(length as usize);
        // SAFETY: by the manual, `name` holds `length` bytes, and `count` is at most that.
        unsafe {
            name.copy_from_nonoverlapping(NAME.as_ptr().cast(), count);
            name.add(count - 1).write(0);
        }
        Ok(())
    })
}

/// The UUID of a device.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> u32 {
    enter("cuDeviceGetUuid", || {
        check_device(device)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(uuid, UUID) }
    })
}

/// The UUID of a device.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> u32 {
    // SAFETY: the same requirements.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

/// The memory of a device, in bytes.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> u32 {
    enter("cuDeviceTotalMem_v2", || {
        check_device(device)?;
        let (_, total) = lock().device_memory();
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(bytes, total) }
    })
}

/// A property of a device.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> u32 {
    enter("cuDeviceGetAttribute", || {
        check_device(device)?;
        let known = attribute_value(attribute).ok_or(Code::InvalidValue)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(value, known) }
    })
}

/// The profile `discrete`: a PCIe GPU with its own page tables.
///
/// What is not modelled is said to be unsupported (0), so that a program that asks first takes another path.
fn attribute_value(attribute: c_int) -> Option<c_int> {
    const LAST_ATTRIBUTE: c_int = 149;
    Some(match attribute {
        1 | 2 | 3 => 1024,      // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
        4 => 64,                // MAX_BLOCK_DIM_Z
        5 => i32::MAX,          // MAX_GRID_DIM_X
        6 | 7 => 65_535,        // MAX_GRID_DIM_Y, _Z
        10 => 32,               // WARP_SIZE
        15 | 19 | 31 | 41 => 1, // GPU_OVERLAP, CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING
        16 => 1,                // MULTIPROCESSOR_COUNT
        40 => 2,                // ASYNC_ENGINE_COUNT
        75 => 8,                // COMPUTE_CAPABILITY_MAJOR
        115 => 1,               // MEMORY_POOLS_SUPPORTED
        134 => -1,              // HOST_NUMA_ID: no nearest node
        1..=LAST_ATTRIBUTE => 0,
        _ => return None,
    })
}
