//! A function that copies into a `&mut [u32]` waits: it cannot know whether the memory is pinned.
//! hazard: none

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

// ANCHOR: idea
/// Copies to the host, and returns when the values are there.
fn download(stream: &Arc<CudaStream>, device: &CudaSlice<u32>, host: &mut [u32]) -> Result<()> {
    stream.memcpy_dtoh(device, host)?;
    // The type does not tell pageable memory from pinned: to pinned memory the call only queued
    // the copy, and to pageable memory CUDA says that the call might have waited. The borrow of
    // `host` ends with this function, so the copy has to end before.
    stream.synchronize()?;
    Ok(())
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    let mut pageable = vec![lab::POISON; LEN];
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut pinned = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(pinned.as_mut_slice()?);

    download(&stream, &device, &mut pageable)?;
    println!("pageable: {}", lab::verdict(lab::probe(&pageable), 7));

    download(&stream, &device, pinned.as_mut_slice()?)?;
    let read = lab::probe(pinned.as_slice()?);
    println!("pinned: {}", lab::verdict(read, 7));
    Ok(())
}
// ANCHOR_END: idea
