//! A block of device memory changes hands with one event for each stream that still reads it.
//! hazard: none

use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;

// ANCHOR: idea
/// Device memory, and one event for each stream that has used it since it left the pool.
struct Block {
    values: CudaSlice<u32>,
    last_uses: Vec<CudaEvent>,
}

struct Pool(Vec<Block>);

impl Pool {
    /// Takes a block for work on `stream`, which waits for its users. The host does not.
    fn take(&mut self, stream: &CudaStream) -> Result<Block> {
        let mut block = self.0.pop().context("every block of the pool is in use")?;
        for last_use in block.last_uses.drain(..) {
            stream.wait(&last_use)?;
        }
        Ok(block)
    }

    /// Takes a block back as soon as its last work is queued on `users`.
    fn give(&mut self, mut block: Block, users: &[&CudaStream]) -> Result<()> {
        for user in users {
            block.last_uses.push(user.record_event(None)?);
        }
        self.0.push(block);
        Ok(())
    }
}

/// Computes into a block, offloads it on two streams, and computes on in the same block.
fn offload(
    pool: &mut Pool,
    compute: &CudaStream,
    copies: &[Arc<CudaStream>; 2],
    hosts: &mut [PinnedHostSlice<u32>; 2],
) -> Result<()> {
    let mut block = pool.take(compute)?;
    lab::fill(compute, &mut block.values, 7)?;
    for (copy, host) in copies.iter().zip(hosts) {
        copy.join(compute)?;
        copy.memcpy_dtoh(&block.values, host)?;
    }
    // Both copies may still be pending. The block leaves anyway, with an event of each.
    pool.give(block, &[&copies[0], &copies[1]])?;

    // The next layer gets the same block: it is the only one.
    let mut block = pool.take(compute)?;
    lab::fill(compute, &mut block.values, 9)?;
    pool.give(block, &[compute])
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the events of the pool order everything. cudarc's own tracking keeps one event for
    // the readers of a slice, and remembers the last of them.
    unsafe { ctx.disable_event_tracking() };
    let compute = ctx.new_stream()?;
    let copies = [ctx.new_stream()?, ctx.new_stream()?];
    let mut pool = Pool(vec![Block {
        values: compute.alloc_zeros(LEN)?,
        last_uses: Vec::new(),
    }]);
    let mut hosts = [pinned(&ctx)?, pinned(&ctx)?];

    offload(&mut pool, &compute, &copies, &mut hosts)?;
    ctx.synchronize()?;
    for (number, host) in (1..).zip(&hosts) {
        let read = lab::probe(host.as_slice()?);
        println!("copy {number}: {}", lab::verdict(read, 7));
    }
    Ok(())
}

fn pinned(ctx: &Arc<CudaContext>) -> Result<PinnedHostSlice<u32>> {
    // SAFETY: a copy has filled the memory before anything reads it.
    Ok(unsafe { ctx.alloc_pinned_with_flags(LEN, 0) }?)
}
