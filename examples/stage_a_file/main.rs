//! A mapped file goes to the device through two pinned buffers: no copy reads the mapping, and nothing is registered.
//! hazard: none

use std::io::Write;

use anyhow::Result;
use cudarc::driver::CudaContext;
use memmap2::Mmap;
use pinned_pool::Pool;

/// 16 KiB of values a chunk; the last one is shorter.
const CHUNK: usize = 16 << 10;
const FILE: usize = 3 * CHUNK + 1000;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut file = tempfile::tempfile()?;
    let content: Vec<u8> = (0..FILE).map(|at| (at / CHUNK + 1) as u8).collect();
    file.write_all(&content)?;
    // SAFETY: nobody else has this file, so it does not change under the mapping.
    let mapping = unsafe { Mmap::map(&file) }?;
    let mut device = stream.alloc_zeros::<u8>(FILE)?;

    // ANCHOR: idea
    let pool = Pool::<u8>::new(&ctx, 2, CHUNK)?;

    for (number, chunk) in mapping.chunks(CHUNK).enumerate() {
        // Waits until the last copy from this buffer has read it: while one is on its way, the host fills the other.
        let mut lease = pool.acquire()?;
        lease.as_mut_slice()?[..chunk.len()].copy_from_slice(chunk);

        let at = number * CHUNK;
        lease.upload(&stream, &mut device.slice_mut(at..at + chunk.len()))?;
    }

    let arrived = stream.clone_dtoh(&device)?;
    stream.synchronize()?;
    for (number, chunk) in (1..).zip(arrived.chunks(CHUNK)) {
        let right = chunk.iter().filter(|&&byte| byte == number).count();
        println!("chunk {number}: {right} of {} bytes are right", chunk.len());
    }
    println!(
        "{} KiB pinned for {} KiB",
        pool.pinned_bytes() >> 10,
        FILE >> 10
    );
    // ANCHOR_END: idea
    Ok(())
}
