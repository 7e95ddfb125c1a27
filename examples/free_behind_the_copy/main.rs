//! A slice is freed in the order of its own stream, so that stream waits for the copy first.
//! hazard: none

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. cudarc would insert the one before the drop, as long
    // as one stream reads the slice; a program that captures graphs runs without its tracking.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = compute.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the copy fills the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    lab::fill(&compute, &mut device, 7)?;
    copy.join(&compute)?;
    copy.memcpy_dtoh(&device, &mut host)?;
    let copied = copy.record_event(None)?;

    // Dropping the slice queues its free on `compute`, where it was allocated. The stream waits for
    // the copy; the host waits for nothing.
    compute.wait(&copied)?;
    drop(device);

    // Has the copy read the memory by the time when it is free? A query waits for nothing.
    let freed = compute.record_event(None)?;
    while !freed.try_is_complete()? {}
    let pending = !copied.try_is_complete()?;
    println!("copies pending: {}", lab::verdict(pending.into(), 0));

    copy.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("the host: {}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
