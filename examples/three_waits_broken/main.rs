//! A wait for one stream says nothing about the copies of another.
//! hazard: H01

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the last wait covers everything before a buffer is freed. With its tracking on, cudarc
    // would wait for each buffer when it is read.
    unsafe { ctx.disable_event_tracking() };
    let (stream, other) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    stream.synchronize()?;
    // SAFETY: a copy has filled each buffer before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (mut first, mut second, mut third) = (pinned()?, pinned()?, pinned()?);
    lab::poison(second.as_mut_slice()?);

    // ANCHOR: idea
    stream.memcpy_dtoh(&device, &mut first)?;
    // The gate holds the second copy, so it is certainly late.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut second)?;
    other.memcpy_dtoh(&device, &mut third)?;

    // The wrong stream: the wait succeeds, and covers the third copy alone.
    other.synchronize()?;
    let read = lab::probe(second.as_slice()?);
    println!("after the wrong stream, copy 2: {}", lab::verdict(read, 7));

    // Too late for the line above, but no buffer may be freed under a copy.
    gate.open();
    ctx.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
