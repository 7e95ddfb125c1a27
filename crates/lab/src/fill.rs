//! Something that produces values on the device.

use anyhow::{Context, Result};
use cudarc::driver::{sys, CudaSlice, CudaStream, DevicePtrMut};

/// Queues a fill of the whole slice with `value`: the stand-in for a kernel that produces values.
///
/// Like a kernel it is asynchronous and ordered by `stream`.
///
/// # Errors
/// When the driver refuses the fill.
pub fn fill(stream: &CudaStream, slice: &mut CudaSlice<u32>, value: u32) -> Result<()> {
    let len = slice.len();
    stream
        .context()
        .bind_to_thread()
        .context("filling device memory")?;
    let (start, _recorded) = slice.device_ptr_mut(stream);
    // SAFETY: the slice owns `len` values from `start`; `slice` is borrowed until the fill is queued.
    unsafe { sys::cuMemsetD32Async(start, value, len, stream.cu_stream()) }
        .result()
        .with_context(|| format!("filling {len} values of device memory with {value}"))
}
