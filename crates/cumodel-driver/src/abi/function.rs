//! Properties of kernels.

use std::ffi::c_int;

use super::{call, give, Call, Handle};
use crate::module::{SHARED_PER_BLOCK, SHARED_PER_BLOCK_OPTIN};
use crate::Code;

/// Names of properties (CUfunction_attribute).
const MAX_THREADS_PER_BLOCK: c_int = 0;
const SHARED_SIZE_BYTES: c_int = 1;
const CONST_SIZE_BYTES: c_int = 2;
const LOCAL_SIZE_BYTES: c_int = 3;
const NUM_REGS: c_int = 4;
const PTX_VERSION: c_int = 5;
const BINARY_VERSION: c_int = 6;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
const PREFERRED_SHARED_MEMORY_CARVEOUT: c_int = 9;
/// One past the last name.
const NAMES: c_int = 16;

/// A property of a kernel.
///
/// Registers are those that the PTX declares: there is no assembler here that would need fewer.
#[no_mangle]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    function: Handle,
) -> u32 {
    call("cuFuncGetAttribute", |call| {
        let function = call.function(function)?;
        let kernel = &function.kernel;
        let module = call.state.modules.module(function.module)?;
        let known = match attribute {
            MAX_THREADS_PER_BLOCK => kernel.max_threads() as c_int,
            SHARED_SIZE_BYTES => kernel.static_shared() as c_int,
            CONST_SIZE_BYTES => {
                let constants = module.ptx.globals().iter().filter(|it| it.is_constant());
                constants.map(|it| it.size()).sum::<usize>() as c_int
            }
            LOCAL_SIZE_BYTES => kernel.local_bytes() as c_int,
            NUM_REGS => kernel.registers() as c_int,
            PTX_VERSION | BINARY_VERSION => module.target,
            MAX_DYNAMIC_SHARED_SIZE_BYTES => function.max_dynamic_shared as c_int,
            PREFERRED_SHARED_MEMORY_CARVEOUT => function.carveout,
            // Nothing about caches and clusters is modelled.
            other if (0..NAMES).contains(&other) => 0,
            other => {
                let why = format!("{other} is no property of a function");
                return Err(call.refuse(Code::InvalidValue, &why));
            }
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(value, known) }
    })
}

/// Changes a property of a kernel: the most dynamic shared memory that a launch may ask for, or the preferred split of
/// shared memory and cache, which changes nothing here.
#[no_mangle]
pub unsafe extern "C" fn cuFuncSetAttribute(
    function: Handle,
    attribute: c_int,
    value: c_int,
) -> u32 {
    call("cuFuncSetAttribute", |call| {
        let known = call.function(function)?;
        let room = SHARED_PER_BLOCK_OPTIN.saturating_sub(known.kernel.static_shared());
        match attribute {
            MAX_DYNAMIC_SHARED_SIZE_BYTES if (0..=room as c_int).contains(&value) => {
                call.state.modules.function(function)?.max_dynamic_shared = value as u32;
                Ok(())
            }
            PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                call.state.modules.function(function)?.carveout = value;
                Ok(())
            }
            _ => {
                let why = format!("property {attribute} cannot be set to {value}; dynamic shared memory can be {room} bytes at most");
                Err(call.refuse(Code::InvalidValue, &why))
            }
        }
    })
}

/// The preferred cache of a kernel, which changes nothing here.
#[no_mangle]
pub unsafe extern "C" fn cuFuncSetCacheConfig(function: Handle, config: c_int) -> u32 {
    call("cuFuncSetCacheConfig", |call| {
        call.function(function)?;
        if (0..=3).contains(&config) {
            Ok(())
        } else {
            Err(call.refuse(Code::InvalidValue, "the configuration is not 0, 1, 2 or 3"))
        }
    })
}

impl Call {
    /// How much shared memory a block of a kernel takes, in bytes; an error beyond what a block can have.
    pub(super) fn shared_of_block(
        &mut self,
        function: Handle,
        dynamic: usize,
    ) -> Result<u64, Code> {
        let function = self.function(function)?;
        let bytes = u64::from(function.kernel.static_shared()) + dynamic as u64;
        if bytes > u64::from(SHARED_PER_BLOCK.max(function.max_dynamic_shared)) {
            let why = format!("{bytes} bytes of shared memory are more than a block can have");
            return Err(self.refuse(Code::InvalidValue, &why));
        }
        Ok(bytes)
    }
}
