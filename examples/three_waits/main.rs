//! The host waits for an event, for a stream or for the context: each covers more than the last.
//! hazard: none

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. With its tracking on, cudarc would wait for each
    // buffer when it is read, and no other wait would show.
    unsafe { ctx.disable_event_tracking() };
    let (stream, other) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    stream.synchronize()?;
    // SAFETY: a copy has filled each buffer before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (mut first, mut second, mut third) = (pinned()?, pinned()?, pinned()?);

    // ANCHOR: idea
    stream.memcpy_dtoh(&device, &mut first)?;
    let copied = stream.record_event(None)?;
    stream.memcpy_dtoh(&device, &mut second)?;
    other.memcpy_dtoh(&device, &mut third)?;

    // The event: the first copy, which was in the stream when the event was recorded.
    copied.synchronize()?;
    let read = lab::probe(first.as_slice()?);
    println!("after the event, copy 1: {}", lab::verdict(read, 7));

    // The stream: all that was in this stream when the wait was called.
    stream.synchronize()?;
    let read = lab::probe(second.as_slice()?);
    println!("after the stream, copy 2: {}", lab::verdict(read, 7));

    // The context: all that was in any of its streams when the wait was called.
    ctx.synchronize()?;
    let read = lab::probe(third.as_slice()?);
    println!("after the context, copy 3: {}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
