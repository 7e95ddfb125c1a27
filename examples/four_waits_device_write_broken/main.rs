//! Without a wait for the copy, compute writes what is not copied yet.
//! hazard: H09

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host waits for every copy before a buffer is freed. cudarc would insert a wait
    // in place of the one that is missing below.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = compute.alloc_zeros::<u32>(LEN)?;
    let mut received = copy.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the memory is poisoned in the next lines, before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (mut down, mut up) = (pinned()?, pinned()?);
    lab::poison(down.as_mut_slice()?);
    lab::poison(up.as_mut_slice()?);
    let event = || ctx.new_event(None);
    let (computed, copied, sent) = (event()?, event()?, event()?);
    // From here on the device memory exists for both streams, and holds zeros.
    ctx.synchronize()?;

    // ANCHOR: idea
    lab::fill(&compute, &mut device, 7)?;
    computed.record(&compute)?;

    // Device buffer, read after write: the copy begins after compute has written its source.
    copy.wait(&computed)?;
    // The gate holds the copy, so it is certainly late.
    let gate = lab::Gate::close(&copy)?;
    copy.memcpy_dtoh(&device, &mut down)?;
    copied.record(&copy)?;

    // Device buffer, write after read: the wait for `copied` is missing.
    lab::fill(&compute, &mut device, 9)?;
    // Compute is done before the copy begins.
    compute.synchronize()?;
    gate.open();

    // Host buffer, read after write: no wait of a stream holds the host, so this one does.
    copied.synchronize()?;
    let read = lab::probe(down.as_slice()?);
    println!("the host: {}", lab::verdict(read, 7));

    // The host answers, through a buffer of its own.
    up.as_mut_slice()?.fill(read + 1);
    copy.memcpy_htod(&up, &mut received)?;
    sent.record(&copy)?;

    // Host buffer, write after read: the copy takes the answer out of the buffer when it runs.
    sent.synchronize()?;
    lab::poison(up.as_mut_slice()?);
    // ANCHOR_END: idea

    copy.memcpy_dtoh(&received, &mut down)?;
    copy.synchronize()?;
    let read = lab::probe(down.as_slice()?);
    println!("the answer on the device: {}", lab::verdict(read, 8));
    copy.join(&compute)?;
    copy.memcpy_dtoh(&device, &mut down)?;
    copy.synchronize()?;
    let read = lab::probe(down.as_slice()?);
    println!("computed meanwhile: {}", lab::verdict(read, 9));
    Ok(())
}
