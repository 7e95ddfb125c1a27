//! A raw free under a pending copy leans on a wait that the manual does not promise.
//! hazard: H04

use cudarc::driver::{result, CudaContext};

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.new_stream()?;
    // SAFETY: the fill below writes the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    // SAFETY: the allocation is as long as the slice, and nothing else uses it.
    let mut device = unsafe {
        let address = result::malloc_sync(LEN * size_of::<u32>())?;
        stream.upgrade_device_ptr::<u32>(address, LEN)
    };
    lab::fill(&stream, &mut device, 7)?;
    stream.synchronize()?;

    // The gate holds the stream, so the copy is certainly late.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut host)?;
    let copied = stream.record_event(None)?;

    // The wait is missing here.
    let pending = !copied.try_is_complete()?;
    println!("copies pending: {}", lab::verdict(pending.into(), 0));
    // Open, because the driver may wait for the stream now.
    gate.open();
    let address = device.leak();
    // SAFETY: the memory comes from `malloc_sync`. That nobody uses it any more is not true, and is
    // the point.
    unsafe { result::free_sync(address) }?;
    stream.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
