//! Without the wait the next chunk overwrites the one before, which its copy has not read yet.
//! hazard: H02

use std::io::Write;

use anyhow::Result;
use cudarc::driver::CudaContext;
use memmap2::Mmap;

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
    // SAFETY: each buffer is filled before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u8>(CHUNK, 0) };
    let mut buffers = [pinned()?, pinned()?];
    buffers[0].as_mut_slice()?.fill(0);
    buffers[1].as_mut_slice()?.fill(0);

    // The gate holds the copies, so the host is certainly ahead of them.
    let gate = lab::Gate::close(&stream)?;
    for (number, chunk) in mapping.chunks(CHUNK).enumerate() {
        // The buffers take turns, and nobody asks whether the copy from this one has read it.
        let buffer = buffers[number % 2].as_mut_slice()?;
        buffer[..chunk.len()].copy_from_slice(chunk);

        let at = number * CHUNK;
        stream.memcpy_htod(
            &buffer[..chunk.len()],
            &mut device.slice_mut(at..at + chunk.len()),
        )?;
    }
    gate.open();

    let arrived = stream.clone_dtoh(&device)?;
    stream.synchronize()?;
    for (number, chunk) in (1..).zip(arrived.chunks(CHUNK)) {
        let right = chunk.iter().filter(|&&byte| byte == number).count();
        let wrong = if right == chunk.len() { "" } else { ": WRONG" };
        println!(
            "chunk {number}: {right} of {} bytes are right{wrong}",
            chunk.len()
        );
    }
    // ANCHOR_END: idea
    Ok(())
}
