//! Two uploads to one buffer on two streams: the old values arrive last, and stay.
//! hazard: H10

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host reads and drops nothing before it has waited. What is in the buffer
    // meanwhile is the point: cudarc would add the wait that is missing below.
    unsafe { ctx.disable_event_tracking() };
    let first = ctx.new_stream()?;
    let second = ctx.new_stream()?;
    let mut weights = first.alloc_zeros::<u32>(LEN)?;
    first.synchronize()?;
    // SAFETY: each buffer is filled in the loop, and the copy fills `arrived`, before it is read.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (mut old, mut new, mut arrived) = (pinned()?, pinned()?, pinned()?);
    for (version, source) in [(1, &mut old), (2, &mut new)] {
        source.as_mut_slice()?.fill(version);
    }

    // ANCHOR: idea
    // The gate holds the first stream, so its upload is certainly late.
    let gate = lab::Gate::close(&first)?;
    first.memcpy_htod(&old, &mut weights)?;

    // The join is missing here: the later call runs first.
    second.memcpy_htod(&new, &mut weights)?;
    second.synchronize()?;
    gate.open();

    // Both uploads are complete when this returns, in whatever order they ran.
    ctx.synchronize()?;
    second.memcpy_dtoh(&weights, &mut arrived)?;
    second.synchronize()?;
    let version = lab::probe(arrived.as_slice()?);
    println!("weights: {}", lab::verdict(version, 2));
    // ANCHOR_END: idea
    Ok(())
}
