//! Without a wait the memory is unregistered, and on its way back to its owner, under a copy that is still to write it.
//! hazard: H03

use cudarc::driver::{sys, CudaContext};
use lab::Pageable;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    let copied = ctx.new_event(None)?;

    // ANCHOR: idea
    // Memory that somebody else has allocated: whole pages, which belong to nobody but us.
    let mut memory = Pageable::<u32>::zeroed(LEN)?;
    let (start, bytes) = (memory.as_mut_ptr().cast(), LEN * size_of::<u32>());
    // SAFETY: the range is ours, and it stays mapped until the end of the program.
    unsafe { sys::cuMemHostRegister_v2(start, bytes, 0) }.result()?;

    // The gate holds the copy, so it has certainly not run.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut *memory)?;
    copied.record(&stream)?;

    // The call has returned, so it looks as if the copy were over. How many of one copies are?
    let over = u32::from(copied.try_is_complete()?);
    println!("copies over: {}", lab::verdict(over, 1));
    gate.open();
    // No manual says that this waits.
    // SAFETY: the range was registered with this start. The copy under way is the mistake that this shows; the memory
    // itself stays mapped until that copy is over.
    unsafe { sys::cuMemHostUnregister(start) }.result()?;
    // ANCHOR_END: idea

    stream.synchronize()?;
    Ok(())
}
