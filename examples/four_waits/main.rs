//! A value that goes to the host and is answered needs four waits, one for each cell.
//! hazard: none

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. cudarc would insert some of them, and this listing
    // is about the waits that a program needs.
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
    copy.memcpy_dtoh(&device, &mut down)?;
    copied.record(&copy)?;

    // Device buffer, write after read: compute goes on in the same buffer, after the copy.
    compute.wait(&copied)?;
    lab::fill(&compute, &mut device, 9)?;

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
