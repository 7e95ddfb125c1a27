//! Another thread synchronizes a per-thread default stream, and waits for its own.
//! hazard: H01

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
    // The gate holds this thread's stream, so the copy is certainly late.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut host)?;

    // The value is `Send`, and in the other thread it means that thread's stream. That one is
    // empty, so the wait returns at once.
    let theirs = stream.clone();
    let consumer = thread::spawn(move || -> Result<_> {
        theirs.synchronize()?;
        Ok((lab::probe(host.as_slice()?), host))
    });
    let Ok(read) = consumer.join() else {
        bail!("the consumer panicked");
    };
    let (read, host) = read?;
    println!("{}", lab::verdict(read, 7));

    // Too late for the line above, but no buffer may be freed under a copy.
    gate.open();
    stream.synchronize()?;
    drop(host);
    // ANCHOR_END: idea
    Ok(())
}
