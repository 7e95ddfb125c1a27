//! A value that goes to the host and back needs four waits, one for each cell of the two-by-two.
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
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    let (computed, copied, sent) = (
        ctx.new_event(None)?,
        ctx.new_event(None)?,
        ctx.new_event(None)?,
    );

    // ANCHOR: idea
    lab::fill(&compute, &mut device, 7)?;
    computed.record(&compute)?;

    // Device buffer, read after write: the copy begins after compute has written its source.
    copy.wait(&computed)?;
    copy.memcpy_dtoh(&device, &mut host)?;
    copied.record(&copy)?;

    // Device buffer, write after read: compute goes on in the same buffer, after the copy.
    compute.wait(&copied)?;
    lab::fill(&compute, &mut device, 8)?;

    // Host buffer, read after write: a stream's wait does not hold the host, so this one does.
    copied.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("the host: {}", lab::verdict(read, 7));

    // The answer goes back through the same pinned buffer, which nothing uses any more.
    host.as_mut_slice()?.fill(10 * read);
    copy.memcpy_htod(&host, &mut received)?;
    sent.record(&copy)?;

    // Host buffer, write after read: the copy takes the answer out of the buffer when it runs.
    sent.synchronize()?;
    lab::poison(host.as_mut_slice()?);
    // ANCHOR_END: idea

    copy.memcpy_dtoh(&received, &mut host)?;
    copy.synchronize()?;
    println!(
        "the answer on the device: {}",
        lab::verdict(lab::probe(host.as_slice()?), 70)
    );
    compute.memcpy_dtoh(&device, &mut host)?;
    compute.synchronize()?;
    println!(
        "computed meanwhile: {}",
        lab::verdict(lab::probe(host.as_slice()?), 8)
    );
    Ok(())
}
