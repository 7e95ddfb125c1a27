//! A slice is freed in the order of its own stream, under a copy on another one.
//! hazard: H05

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host reads nothing that is copied from freed memory. cudarc would insert the wait
    // that is missing below.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = compute.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the copy fills the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    lab::fill(&compute, &mut device, 7)?;
    copy.join(&compute)?;
    // The gate holds the copy, so it is certainly late.
    let gate = lab::Gate::close(&copy)?;
    copy.memcpy_dtoh(&device, &mut host)?;
    let copied = copy.record_event(None)?;

    // The wait is missing here: dropping the slice queues its free on `compute`, which knows
    // nothing of the copy.
    drop(device);

    // Has the copy read the memory by the time when it is free? A query waits for nothing.
    let freed = compute.record_event(None)?;
    while !freed.try_is_complete()? {}
    let pending = !copied.try_is_complete()?;
    println!("copies pending: {}", lab::verdict(pending.into(), 0));

    // What the copy reads now belongs to nobody, or to somebody else.
    gate.open();
    copy.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
