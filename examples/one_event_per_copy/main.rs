//! An event stands for one point of one stream: two copies on two streams need two.
//! hazard: none

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. With its tracking on, cudarc would wait for each
    // buffer when it is read.
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
    let mut copied = Vec::new();
    for (stream, host) in streams.iter().zip(&mut hosts) {
        stream.memcpy_dtoh(&device, host)?;
        copied.push(stream.record_event(None)?);
    }

    for event in &copied {
        event.synchronize()?;
    }
    for (number, host) in (1..).zip(&hosts) {
        let read = lab::probe(host.as_slice()?);
        println!("copy {number}: {}", lab::verdict(read, 7));
    }
    // ANCHOR_END: idea
    Ok(())
}
