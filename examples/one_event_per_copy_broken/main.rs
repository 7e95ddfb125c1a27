//! Recorded again, an event forgets what it stood for.
//! hazard: H01

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the last wait covers both copies before a buffer is freed. With its tracking on,
    // cudarc would wait for each buffer when it is read.
    unsafe { ctx.disable_event_tracking() };
    let streams = [ctx.new_stream()?, ctx.new_stream()?];
    let mut device = streams[0].alloc_zeros::<u32>(LEN)?;
    lab::fill(&streams[0], &mut device, 7)?;
    // From here on both streams may read the values.
    streams[0].synchronize()?;
    // SAFETY: the memory is poisoned in the next lines, before anything reads it.
    let hosts = (0..2).map(|_| unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) });
    let mut hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    for host in &mut hosts {
        lab::poison(host.as_mut_slice()?);
    }

    // ANCHOR: idea
    // The gate holds the first copy, so it is certainly late.
    let gate = lab::Gate::close(&streams[0])?;
    let copied = ctx.new_event(None)?;
    for (stream, host) in streams.iter().zip(&mut hosts) {
        stream.memcpy_dtoh(&device, host)?;
        // The second record does not add to the first one: it takes its place.
        copied.record(stream)?;
    }

    copied.synchronize()?;
    for (number, host) in (1..).zip(&hosts) {
        let read = lab::probe(host.as_slice()?);
        println!("copy {number}: {}", lab::verdict(read, 7));
    }

    // Too late for the lines above, but no buffer may be freed under a copy.
    gate.open();
    ctx.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
