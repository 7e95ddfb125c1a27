//! The host refills a pinned buffer while the copy that reads it is still queued.
//! hazard: H02

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
    // The gate holds the stream, so both copies are certainly late.
    let gate = lab::Gate::close(&stream)?;
    for (value, batch) in (1..).zip(&mut batches) {
        // Round 2 writes over the values that the copy of round 1 has not read yet.
        host.as_mut_slice()?.fill(value);
        stream.memcpy_htod(&host, batch)?;

        // The wait is missing here.
    }
    gate.open();

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
