//! A copy reads its pinned source when it runs: the host waits before it refills the buffer.
//! hazard: none

use cudarc::driver::CudaContext;

/// 4 MiB of values.
const LEN: usize = 1 << 20;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut batches = [
        stream.alloc_zeros::<u32>(LEN)?,
        stream.alloc_zeros::<u32>(LEN)?,
    ];
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut arrived = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    // SAFETY: each round of the loop fills the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    for (value, batch) in (1..).zip(&mut batches) {
        // Round 1 fills the buffer with 1, round 2 refills it with 2.
        host.as_mut_slice()?.fill(value);
        stream.memcpy_htod(&host, batch)?;

        // The copy takes the values out of the buffer when it runs, not when it is queued.
        // Streams order copies among themselves; they do not order the CPU.
        stream.synchronize()?;
    }

    // What the device received.
    for (value, batch) in (1..).zip(&batches) {
        stream.memcpy_dtoh(batch, &mut arrived)?;
        stream.synchronize()?;
        let read = lab::probe(arrived.as_slice()?);
        println!("batch {value}: {}", lab::verdict(read, value));
    }
    // ANCHOR_END: idea
    Ok(())
}
