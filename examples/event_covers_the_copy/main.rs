//! An event covers what was queued before it was recorded: record it behind the copy.
//! hazard: none

use cudarc::driver::CudaContext;

/// 4 MiB of values.
const LEN: usize = 1 << 20;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    // ANCHOR: idea
    lab::fill(&stream, &mut device, 7)?;
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    let copied = ctx.new_event(None)?;

    stream.memcpy_dtoh(&device, &mut host)?;
    // Recorded behind the copy, the event stands for the copy and for all that came before it.
    copied.record(&stream)?;

    // Waiting for an event leaves later work of the stream alone; `stream.synchronize()` would
    // wait for that too.
    copied.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
