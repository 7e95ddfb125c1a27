//! An event that is recorded before the copy says nothing about the copy.
//! hazard: H01

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

    // Recorded too early: the event stands for the fill before it, and for nothing else.
    copied.record(&stream)?;
    // The gate holds the stream behind the event, so the copy is certainly late.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut host)?;

    // The wait succeeds, and the copy has not run.
    copied.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));

    // Too late for the line above, but no buffer may be freed under a copy.
    gate.open();
    stream.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
