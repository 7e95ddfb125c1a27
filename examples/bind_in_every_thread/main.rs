//! A context is current on one thread, not in the program: each thread that calls the driver binds it.
//! hazard: none

use std::sync::Arc;
use std::thread;

use anyhow::{bail, Result};
use cudarc::driver::{sys, CudaContext};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

// ANCHOR: idea
/// Registers memory of the program as pinned, on a thread that has made no CUDA call yet.
/// Returns the memory, and what the driver said.
fn prepare(ctx: &Arc<CudaContext>) -> Result<(Vec<u32>, sys::CUresult)> {
    // The thread that made the context has it as its current one; this thread has none. The
    // methods of cudarc bind it by themselves, with a few exceptions, and raw calls never do.
    ctx.bind_to_thread()?;

    let mut values = vec![7; LEN];
    let (start, bytes) = (values.as_mut_ptr().cast(), size_of_val(&*values));
    // SAFETY: the memory belongs to `values`, which stays where it is until it is unregistered.
    let code = unsafe { sys::cuMemHostRegister_v2(start, bytes, 0) };
    Ok((values, code))
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    let worker = thread::spawn({
        let ctx = ctx.clone();
        move || prepare(&ctx)
    });
    let Ok(prepared) = worker.join() else {
        bail!("the worker panicked");
    };
    let (mut values, code) = prepared?;
    let right = sys::CUresult::CUDA_SUCCESS;
    if code != right {
        println!(
            "register: {} instead of {}: WRONG",
            code as u32, right as u32
        );
        return Ok(());
    }
    println!("register: {}", code as u32);

    // Pinned for every thread of the context, whichever registered it.
    let mut arrived = vec![0; LEN];
    stream.memcpy_htod(&values, &mut device)?;
    stream.memcpy_dtoh(&device, &mut arrived)?;
    stream.synchronize()?;
    println!("round trip: {}", lab::verdict(lab::probe(&arrived), 7));
    // SAFETY: the memory was registered above, and every copy of it has been waited for.
    unsafe { sys::cuMemHostUnregister(values.as_mut_ptr().cast()) }.result()?;
    Ok(())
}
