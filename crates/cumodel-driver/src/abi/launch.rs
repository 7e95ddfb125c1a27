//! Launches of kernels.

use std::ffi::{c_uint, c_void};
use std::slice;
use std::sync::Arc;

use cumodel::{Visibility, What};

use super::{call, Call, Handle};
use crate::config::Machine;
use crate::kernel::Launch;
use crate::module::Function;
use crate::state::Effect;
use crate::Code;

/// Threads of a block, at most.
const MAX_THREADS: u64 = 1024;
/// Threads of a block in each direction, at most.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Blocks of a grid in each direction, at most.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Size and shape of a launch.
#[derive(Clone, Copy)]
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    /// Bytes.
    dynamic_shared: u32,
}

/// A launch, as cuLaunchKernelEx is told of it (CUlaunchConfig).
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block in x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared: c_uint,
    /// The stream.
    pub stream: Handle,
    /// Attributes, which are not modelled.
    pub attributes: *const c_void,
    /// How many.
    pub attribute_count: c_uint,
}

/// Enqueues a kernel; its parameters are copied at the call.
///
/// A size of 0 or beyond the device's limits gives 1, one beyond the kernel's 701.
#[no_mangle]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_shared: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    call("cuLaunchKernel", |call| {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            dynamic_shared,
        };
        // SAFETY: the manual's requirements on the parameters are those of `launch_kernel`.
        unsafe { call.launch_kernel(function, shape, stream, parameters, extra) }
    })
}

/// The same with a structure; launch attributes are not modelled and give 801.
#[no_mangle]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    function: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    call("cuLaunchKernelEx", |call| {
        // SAFETY: by the manual, a valid pointer.
        let Some(config) = (unsafe { config.as_ref() }) else {
            return Err(call.refuse(Code::InvalidValue, "the configuration is null"));
        };
        if config.attribute_count > 0 {
            let why = "launch attributes are not modelled";
            return Err(call.refuse(Code::NotSupported, why));
        }
        let shape = Shape {
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.dynamic_shared,
        };
        // SAFETY: as above.
        unsafe { call.launch_kernel(function, shape, config.stream, parameters, extra) }
    })
}

/// Enqueues a kernel whose blocks may wait for each other, which is modelled for a single block; more give 801, as
/// attribute 95 says.
#[no_mangle]
pub unsafe extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_shared: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
) -> u32 {
    call("cuLaunchCooperativeKernel", |call| {
        let grid = [grid_x, grid_y, grid_z];
        if grid.iter().any(|&blocks| blocks > 1) {
            let why = "blocks that wait for each other are not modelled: a cooperative launch has one block here";
            return Err(call.refuse(Code::NotSupported, why));
        }
        let shape = Shape {
            grid,
            block: [block_x, block_y, block_z],
            dynamic_shared,
        };
        // SAFETY: the manual's requirements on the parameters are those of `launch_kernel`.
        unsafe { call.launch_kernel(function, shape, stream, parameters, std::ptr::null_mut()) }
    })
}

impl Call {
    /// # Safety
    ///
    /// `parameters` is null or points to one pointer for each parameter of the kernel, each to as many bytes as the
    /// parameter has; `extra` is null or a list as the manual describes it.
    unsafe fn launch_kernel(
        &mut self,
        handle: Handle,
        shape: Shape,
        stream: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<(), Code> {
        let id = self.stream(stream)?;
        let function = self.function(handle)?;
        let (ptx, context, globals) = {
            let module = self.state.modules.module(function.module)?;
            let globals = module.globals.iter().map(|region| region.range.start);
            (module.ptx.clone(), module.context, globals.collect())
        };
        if self.context_of_stream(stream)? != context {
            let why = "the stream and the function belong to different contexts";
            return Err(self.refuse(Code::InvalidHandle, why));
        }
        self.check_shape(&function, shape)?;
        // SAFETY: by the caller's promise.
        let params = unsafe { self.parameters(&function, parameters, extra) }?;
        let device = self
            .state
            .context(context)
            .map_or(0, |context| context.device);
        let mut launch = Launch {
            module: ptx,
            name: function.name.clone(),
            grid: shape.grid,
            block: shape.block,
            dynamic_shared: shape.dynamic_shared,
            params,
            globals,
            context,
            device,
            captured: Vec::new(),
        };
        if self.state.graphs.status(id).is_some() {
            let state = &*self.state;
            launch.captured = launch.expected(&state.memory, &state.engine);
        }
        let what = What::Kernel {
            name: function.name,
            grid: shape.grid,
            block: shape.block,
        };
        // On a coherent machine a kernel can touch memory that the engine does not watch.
        let visibility = match self.state.config.machine {
            Machine::Discrete => Visibility::ByRace,
            Machine::Coherent => Visibility::Always,
        };
        let effect = Effect::Kernel(Arc::new(launch));
        self.submit(id, what, Vec::new(), effect, visibility)
            .map(drop)
    }

    /// The kernel that a handle names.
    pub(super) fn function(&mut self, handle: Handle) -> Result<Function, Code> {
        match self.state.modules.function(handle) {
            Ok(function) => Ok(function.clone()),
            Err(code) => Err(self.refuse_handle(code, handle, "function")),
        }
    }

    fn check_shape(&self, function: &Function, shape: Shape) -> Result<(), Code> {
        let refuse = |code, why: String| Err(self.refuse(code, &why));
        let sides = [
            ("gridDim", shape.grid, MAX_GRID),
            ("blockDim", shape.block, MAX_BLOCK),
        ];
        for (side, sizes, limits) in sides {
            for ((axis, size), limit) in ["X", "Y", "Z"].into_iter().zip(sizes).zip(limits) {
                if size == 0 || size > limit {
                    let why = format!("{side}{axis} is {size}, and must be from 1 to {limit}");
                    return refuse(Code::InvalidValue, why);
                }
            }
        }
        let threads: u64 = shape.block.iter().map(|&size| u64::from(size)).product();
        if threads > MAX_THREADS {
            let why = format!("a block of {threads} threads is larger than {MAX_THREADS}");
            return refuse(Code::InvalidValue, why);
        }
        let most = function.kernel.max_threads();
        if threads > u64::from(most) {
            let why = format!(
                "a block of {threads} threads is larger than the {most} that `{}` was compiled for",
                function.name
            );
            return refuse(Code::LaunchOutOfResources, why);
        }
        if shape.dynamic_shared > function.max_dynamic_shared {
            let why = format!(
                "sharedMemBytes is {}, and `{}` may have {}; cuFuncSetAttribute raises it",
                shape.dynamic_shared, function.name, function.max_dynamic_shared
            );
            return refuse(Code::InvalidValue, why);
        }
        Ok(())
    }

    /// The parameters, laid out as the kernel reads them.
    ///
    /// # Safety
    ///
    /// As for [`Call::launch_kernel`].
    unsafe fn parameters(
        &self,
        function: &Function,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Vec<u8>, Code> {
        let kernel = &function.kernel;
        let mut bytes = vec![0; kernel.param_bytes()];
        if !extra.is_null() {
            if !parameters.is_null() {
                let why = "parameters are passed in kernelParams and in extra";
                return Err(self.refuse(Code::InvalidValue, why));
            }
            // SAFETY: by the caller's promise.
            let packed = unsafe { packed_parameters(extra) };
            let Some(packed) = packed.filter(|packed| packed.len() >= bytes.len()) else {
                let why = format!(
                    "extra holds no buffer of {} bytes, which is what `{}` takes",
                    bytes.len(),
                    function.name
                );
                return Err(self.refuse(Code::InvalidValue, &why));
            };
            let length = bytes.len();
            bytes.copy_from_slice(&packed[..length]);
            return Ok(bytes);
        }
        if parameters.is_null() && !kernel.params().is_empty() {
            let why = format!(
                "kernelParams is null, and `{}` takes {} parameters",
                function.name,
                kernel.params().len()
            );
            return Err(self.refuse(Code::InvalidValue, &why));
        }
        for (index, param) in kernel.params().iter().enumerate() {
            // SAFETY: by the caller's promise there is one pointer for each parameter.
            let from = unsafe { *parameters.add(index) };
            if from.is_null() {
                let why = format!("kernelParams[{index}] is null");
                return Err(self.refuse(Code::InvalidValue, &why));
            }
            // SAFETY: by the caller's promise it points to the bytes of the parameter.
            let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), param.size) };
            bytes[param.offset..param.offset + param.size].copy_from_slice(from);
        }
        Ok(bytes)
    }
}

/// The buffer of parameters in a list of names and values; nothing if the list is wrong.
///
/// # Safety
///
/// The list is as the manual describes it: it ends with a null name, the buffer has the size that goes with it.
unsafe fn packed_parameters<'a>(extra: *mut *mut c_void) -> Option<&'a [u8]> {
    const END: usize = 0;
    const BUFFER_POINTER: usize = 1;
    const BUFFER_SIZE: usize = 2;
    let mut buffer: *const u8 = std::ptr::null();
    let mut size: *const usize = std::ptr::null();
    for pair in 0.. {
        // SAFETY: the end has not been met.
        let name = unsafe { *extra.add(2 * pair) } as usize;
        // SAFETY: a name that is not the end has a value.
        let value = || unsafe { *extra.add(2 * pair + 1) };
        match name {
            END => break,
            BUFFER_POINTER => buffer = value().cast(),
            BUFFER_SIZE => size = value().cast(),
            _ => return None,
        }
    }
    if buffer.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    Some(unsafe { slice::from_raw_parts(buffer, *size) })
}
