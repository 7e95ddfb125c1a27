//! Of two writes on two streams the later call does not win: one stream has to join the other.
//! hazard: none

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the join below orders the two writes. cudarc would add a wait of its own, which a
    // raw pointer, a library or another language does not get.
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
    first.memcpy_htod(&old, &mut weights)?;

    // The second upload is called later, and it is on another stream: only this join makes it
    // run later, too.
    second.join(&first)?;
    second.memcpy_htod(&new, &mut weights)?;

    // Both uploads are complete when this returns, in whatever order they ran.
    ctx.synchronize()?;
    second.memcpy_dtoh(&weights, &mut arrived)?;
    second.synchronize()?;
    let version = lab::probe(arrived.as_slice()?);
    println!("weights: {}", lab::verdict(version, 2));
    // ANCHOR_END: idea
    Ok(())
}
