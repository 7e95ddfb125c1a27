//! A download that leans on the wait of a pageable copy loses it when the buffer becomes pinned.
//! hazard: H01

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

// ANCHOR: idea
/// Copies to the host.
fn download(stream: &Arc<CudaStream>, device: &CudaSlice<u32>, host: &mut [u32]) -> Result<()> {
    stream.memcpy_dtoh(device, host)?;
    // The wait is missing here. With a `Vec` that has always worked.
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

    // The gate holds the stream, so the copy is certainly late.
    let gate = lab::Gate::close(&stream)?;
    download(&stream, &device, pinned.as_mut_slice()?)?;
    let read = lab::probe(pinned.as_slice()?);
    println!("pinned: {}", lab::verdict(read, 7));

    // Too late for the line above, but no buffer may be freed under a copy.
    gate.open();
    stream.synchronize()?;
    Ok(())
}
// ANCHOR_END: idea
