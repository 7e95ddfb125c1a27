//! A per-thread default stream means the caller's own: another thread is handed an event instead.
//! hazard: none

use std::thread;

use anyhow::{bail, Result};
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.per_thread_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    lab::fill(&stream, &mut device, 7)?;
    stream.synchronize()?;

    // ANCHOR: idea
    stream.memcpy_dtoh(&device, &mut host)?;

    // The event stands for the copy, whoever waits for it. The stream would not do: in the other
    // thread the same value means that thread's stream, which is empty.
    let copied = stream.record_event(None)?;
    let consumer = thread::spawn(move || -> Result<u32> {
        copied.synchronize()?;
        Ok(lab::probe(host.as_slice()?))
    });
    let Ok(read) = consumer.join() else {
        bail!("the consumer panicked");
    };
    println!("{}", lab::verdict(read?, 7));
    // ANCHOR_END: idea
    Ok(())
}
