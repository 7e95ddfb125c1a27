//! A raw free comes after a wait for everything that uses the memory.
//! hazard: none

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

    stream.memcpy_dtoh(&device, &mut host)?;
    let copied = stream.record_event(None)?;

    // `cuMemFree` knows no stream, so nothing but the host can order it.
    copied.synchronize()?;
    let pending = !copied.try_is_complete()?;
    println!("copies pending: {}", lab::verdict(pending.into(), 0));
    let address = device.leak();
    // SAFETY: the memory comes from `malloc_sync`, and its last user has been waited for.
    unsafe { result::free_sync(address) }?;
    let read = lab::probe(host.as_slice()?);
    println!("the host: {}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
