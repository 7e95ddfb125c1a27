//! A pool that keeps no event lends a buffer while its last copy is still to read it.
//! hazard: H02

use std::collections::VecDeque;

use anyhow::Context;
use cudarc::driver::{CudaContext, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const UPLOADS: u32 = 8;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let devices = (0..UPLOADS).map(|_| stream.alloc_zeros::<u32>(LEN));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;

    // ANCHOR: idea
    // Two buffers; one that nobody holds counts as free.
    // SAFETY: each buffer is filled before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let mut pool: VecDeque<PinnedHostSlice<u32>> = [pinned()?, pinned()?].into();

    // The gate holds the copies, so the host is certainly ahead of them.
    let gate = lab::Gate::close(&stream)?;
    for (value, device) in (0..).zip(&mut devices) {
        let mut buffer = pool.pop_front().context("both buffers are held")?;
        buffer.as_mut_slice()?.fill(value);
        stream.memcpy_htod(&buffer, device)?;
        // Nobody holds it any more; that its copy is to come, nobody remembers.
        pool.push_back(buffer);
    }
    gate.open();
    stream.synchronize()?;

    let mut buffer = pool.pop_front().context("both buffers are held")?;
    for (value, device) in (0..).zip(&devices) {
        stream.memcpy_dtoh(device, &mut buffer)?;
        stream.synchronize()?;
        let read = lab::probe(buffer.as_slice()?);
        println!("upload {value}: {}", lab::verdict(read, value));
    }
    // ANCHOR_END: idea
    Ok(())
}
