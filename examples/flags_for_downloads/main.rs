//! `alloc_pinned` gives write-combined memory, which the CPU reads slowly; a download needs flags 0.
//! hazard: none

use cudarc::driver::{sys, CudaContext, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;

/// The flags that the driver remembers for a pinned buffer.
fn flags(buffer: &PinnedHostSlice<u32>) -> anyhow::Result<u32> {
    let mut flags = 0;
    let address = buffer.as_ptr()?.cast_mut().cast();
    // SAFETY: the out-pointer is valid; the address is only looked up.
    unsafe { sys::cuMemHostGetFlags(&mut flags, address) }.result()?;
    Ok(flags)
}

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    // ANCHOR: idea
    // For the way up: the CPU writes it from front to back, and never reads it.
    // SAFETY: the memory is filled below, before the copy reads it.
    let mut up = unsafe { ctx.alloc_pinned::<u32>(LEN) }?;

    // For the way down: the CPU reads it, so it has to be cached.
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut down = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    for (call, buffer) in [("alloc_pinned", &up), ("alloc_pinned_with_flags 0", &down)] {
        let write_combined = flags(buffer)? & sys::CU_MEMHOSTALLOC_WRITECOMBINED != 0;
        println!("{call}: write-combined {write_combined}");
    }

    up.as_mut_slice()?.fill(7);
    stream.memcpy_htod(&up, &mut device)?;
    stream.memcpy_dtoh(&device, &mut down)?;
    stream.synchronize()?;
    println!("{}", lab::verdict(lab::probe(down.as_slice()?), 7));
    // ANCHOR_END: idea
    Ok(())
}
