//! A copy into pinned memory is only queued when the call returns: the host waits, then reads.
//! hazard: none

use cudarc::driver::CudaContext;

/// 4 MiB of values.
const LEN: usize = 1 << 20;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    // ANCHOR: idea
    lab::fill(&stream, &mut device, 7)?;
    // Flag 0: `alloc_pinned` would give write-combined memory, which the CPU reads slowly.
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);

    // The call returns as soon as the copy is queued.
    stream.memcpy_dtoh(&device, &mut host)?;

    // The CPU is not part of the stream: without this wait nothing orders its reads behind the
    // copy. `as_slice` does not wait either: on the default stream, cudarc 0.19.10 does not
    // record which copy a pinned buffer takes part in.
    stream.synchronize()?;
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));
    // ANCHOR_END: idea
    Ok(())
}
