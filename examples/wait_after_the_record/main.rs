//! A wait covers what the event stands for when the wait is called: record first, then wait.
//! hazard: none

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. cudarc would insert the one that this listing is
    // about.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = compute.alloc_zeros::<u32>(LEN)?;
    let mut snapshot = copy.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the copy fills the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    // From here on the memory exists for every stream, and holds zeros.
    ctx.synchronize()?;

    // ANCHOR: idea
    let computed = ctx.new_event(None)?;

    lab::fill(&compute, &mut device, 7)?;
    computed.record(&compute)?;

    // The event stands for the fill now, and the wait takes over what it stands for.
    copy.wait(&computed)?;
    copy.memcpy_dtod(&device, &mut snapshot)?;
    copy.memcpy_dtoh(&snapshot, &mut host)?;

    copy.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
