//! A copy takes the values of its pageable source in the call, before the stream has written them.
//! hazard: H12

use std::ffi::c_void;

use cudarc::driver::{result, CudaContext};

/// 16 KiB of values.
const LEN: usize = 1 << 12;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut arrived = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    /// Prepares the batch when the stream comes to it.
    unsafe extern "C" fn prepare(batch: *mut c_void) {
        // SAFETY: the argument points to LEN values that live until the stream has been waited for.
        unsafe { *batch.cast::<[u32; LEN]>() = [5; LEN] };
    }

    // Pageable, so the driver may take the values in the call, out of the stream's order.
    let mut batch = vec![1; LEN];

    let argument = batch.as_mut_ptr().cast();
    // SAFETY: `batch` holds LEN values, and the program waits for the stream before it drops them.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), prepare, argument) }?;
    stream.memcpy_htod(&batch, &mut device)?;
    stream.synchronize()?;

    stream.memcpy_dtoh(&device, &mut arrived)?;
    stream.synchronize()?;
    let read = lab::probe(arrived.as_slice()?);
    println!("the device got: {}", lab::verdict(read, 5));
    // ANCHOR_END: idea
    Ok(())
}
