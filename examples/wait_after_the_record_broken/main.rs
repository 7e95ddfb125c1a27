//! A wait for an event that has not been recorded yet waits for nothing, then or later.
//! hazard: H08

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host waits for the copy before it reads or frees the buffer. cudarc would insert
    // a wait that works.
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

    // Too soon: the event stands for nothing yet, and the wait does not look at it again.
    copy.wait(&computed)?;

    // The gate holds compute, so the values are certainly late.
    let gate = lab::Gate::close(&compute)?;
    lab::fill(&compute, &mut device, 7)?;
    computed.record(&compute)?;

    copy.memcpy_dtod(&device, &mut snapshot)?;
    copy.memcpy_dtoh(&snapshot, &mut host)?;

    copy.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));

    gate.open();
    compute.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
