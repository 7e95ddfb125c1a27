//! A host function that frees its buffer is refused, and the buffer stays pinned for good.
//! hazard: H19

use std::ffi::c_void;
use std::slice;
use std::sync::mpsc::{channel, Sender};

use anyhow::Result;
use cudarc::driver::{result, sys, CudaContext};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

// ANCHOR: idea
/// A pinned block that its last copy still reads, and who is told what became of it.
struct LastUse {
    block: usize,
    over: Sender<sys::CUresult>,
}

/// Runs behind the last copy of the block.
unsafe extern "C" fn after_last_use(argument: *mut c_void) {
    // SAFETY: the argument is the box that `main` gave away.
    let last_use = unsafe { Box::from_raw(argument.cast::<LastUse>()) };
    // This is a thread of the driver: CUDA refuses the call.
    let _ = last_use.over.send(free(last_use.block));
}

/// What `cuMemFreeHost` returns.
fn free(block: usize) -> sys::CUresult {
    // SAFETY: the block came from `malloc_host`, and its last copy is complete.
    unsafe { sys::cuMemFreeHost(block as *mut c_void) }
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the block is filled in the next line, before anything reads it.
    let block = unsafe { result::malloc_host(LEN * size_of::<u32>(), 0) }?;
    // SAFETY: the block holds LEN values, and nobody else uses it.
    let values = unsafe { slice::from_raw_parts_mut(block.cast::<u32>(), LEN) };
    values.fill(7);
    stream.memcpy_htod(values, &mut device)?;

    let (over, told) = channel();
    let block = block as usize;
    let argument = Box::into_raw(Box::new(LastUse { block, over })).cast();
    // SAFETY: `after_last_use` takes over the box.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), after_last_use, argument) }?;

    let code = told.recv()?;
    println!("{}", verdict(code));
    // A program that does not look at the code leaks the block; this one frees it after all.
    free(block).result()?;
    Ok(())
}

fn verdict(code: sys::CUresult) -> String {
    match code {
        sys::CUresult::CUDA_SUCCESS => "freed: 0".to_owned(),
        _ => format!("freed: {} instead of 0: WRONG", code as u32),
    }
}
