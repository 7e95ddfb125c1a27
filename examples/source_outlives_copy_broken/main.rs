//! A pool that hands out a pinned block while a copy still reads it sends the wrong values.
//! hazard: H02

use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};
use lab::kernels::Checksum;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

// ANCHOR: idea
/// Pinned memory, and an event that is recorded behind the last copy that uses it.
struct Block {
    values: PinnedHostSlice<u32>,
    last_use: CudaEvent,
}

/// Blocks that nobody holds. A copy may still be reading them.
struct Pool(Vec<Block>);

impl Pool {
    fn take(&mut self) -> Result<Block> {
        let block = self.0.pop().context("every block of the pool is in use")?;
        // The wait for `block.last_use` is missing here.
        Ok(block)
    }

    fn give(&mut self, block: Block) {
        self.0.push(block);
    }
}

/// Queues a copy to the device and returns; the source stays in use until the copy has run.
fn upload(
    pool: &mut Pool,
    stream: &Arc<CudaStream>,
    value: u32,
    device: &mut CudaSlice<u32>,
) -> Result<()> {
    let mut block = pool.take()?;
    block.values.as_mut_slice()?.fill(value);
    stream.memcpy_htod(&block.values, device)?;
    block.last_use.record(stream)?;
    pool.give(block);
    Ok(())
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut first = stream.alloc_zeros::<u32>(LEN)?;
    let mut second = stream.alloc_zeros::<u32>(LEN)?;
    // The kernel that uses what arrives: it adds all values.
    let checksum = Checksum::load(&ctx)?;
    let mut sum = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut result = unsafe { ctx.alloc_pinned_with_flags::<u32>(1, 0) }?;
    // SAFETY: `upload` fills the memory before anything reads it.
    let values = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    // One block only, so that the second upload gets the block of the first.
    let mut pool = Pool(vec![Block {
        values,
        last_use: ctx.new_event(None)?,
    }]);

    // The gate holds the stream, so the copies are certainly late.
    let gate = lab::Gate::close(&stream)?;
    upload(&mut pool, &stream, 1, &mut first)?;
    upload(&mut pool, &stream, 2, &mut second)?;
    gate.open();

    checksum.launch(&stream, &first, &mut sum)?;
    stream.memcpy_dtoh(&sum, &mut result)?;
    stream.synchronize()?;
    let read = lab::probe(result.as_slice()?);
    println!(
        "sum of the first upload: {}",
        lab::verdict(read, LEN as u32)
    );
    Ok(())
}
