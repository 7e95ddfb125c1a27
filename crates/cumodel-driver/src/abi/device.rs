//! Initialization, version and device management.

use std::ffi::{c_char, c_int, c_uint};

use super::{call, enter, give};
use crate::config::Machine;
use crate::state::lock;
use crate::Code;

/// The CUDA version whose behaviour is modelled: 12.8.
const CUDA_VERSION: c_int = 12080;
const NAME: &[u8] = b"Model device (no GPU)\0";
const UUID: [u8; 16] = *b"cumodel device 0";

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

/// The number of a device, which is also its handle.
pub(super) fn check_device(device: c_int) -> Result<usize, Code> {
    let state = lock();
    if !state.initialized {
        return Err(Code::NotInitialized);
    }
    usize::try_from(device)
        .ok()
        .filter(|&device| device < state.config.devices)
        .ok_or(Code::InvalidDevice)
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
        let devices = lock().config.devices as c_int;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(count, devices) }
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
        let number = check_device(device)?;
        let mut value = UUID;
        value[15] += number as u8;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(uuid, value) }
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
        let number = check_device(device)?;
        let (_, total) = lock().memory.of_device(number);
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
        let state = lock();
        let known = state
            .config
            .attributes
            .get(&attribute)
            .copied()
            .or_else(|| attribute_of(state.config.machine, attribute))
            .ok_or(Code::InvalidValue)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(value, known) }
    })
}

/// Can one device reach the memory of another?
#[no_mangle]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> u32 {
    enter("cuDeviceCanAccessPeer", || {
        let (device, peer) = (check_device(device)?, check_device(peer)?);
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(can, c_int::from(device != peer)) }
    })
}

/// What is not modelled is said to be unsupported (0), so that a program that asks first takes another path.
fn attribute_of(machine: Machine, attribute: c_int) -> Option<c_int> {
    const LAST_ATTRIBUTE: c_int = 149;
    let coherent = c_int::from(machine == Machine::Coherent);
    Some(match attribute {
        1..=3 => 1024,              // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
        4 => 64,                    // MAX_BLOCK_DIM_Z
        5 => i32::MAX,              // MAX_GRID_DIM_X
        6 | 7 => 65_535,            // MAX_GRID_DIM_Y, _Z
        8 => 48 << 10,              // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 64 << 10,              // TOTAL_CONSTANT_MEMORY
        10 => 32,                   // WARP_SIZE
        15 | 19 | 31 | 41 => 1, // GPU_OVERLAP, CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING
        16 => 1,                // MULTIPROCESSOR_COUNT
        39 => 2048,             // MAX_THREADS_PER_MULTIPROCESSOR
        40 => 2,                // ASYNC_ENGINE_COUNT
        75 => 8,                // COMPUTE_CAPABILITY_MAJOR
        83 | 89 => 1,           // MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS
        88 | 100 | 101 => coherent, // PAGEABLE_MEMORY_ACCESS, …_USES_HOST_PAGE_TABLES, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        91 | 99 => 1, // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, HOST_REGISTER_SUPPORTED
        81 => 164 << 10, // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        97 => 163 << 10, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        106 => 32,    // MAX_BLOCKS_PER_MULTIPROCESSOR
        111 => 1 << 10, // RESERVED_SHARED_MEMORY_PER_BLOCK
        115 => 1,     // MEMORY_POOLS_SUPPORTED
        134 => coherent - 1, // HOST_NUMA_ID: no nearest node on the discrete machine, node 0 on the coherent one
        other if (1..=LAST_ATTRIBUTE).contains(&other) => 0,
        _ => return None,
    })
}
