//! Results leave through two buffers: with both on their way the producer stands still, and memory does not grow.
//! hazard: none

use std::collections::VecDeque;

use anyhow::Result;
use cudarc::driver::CudaContext;
use lab::kernels::FillPattern;
use pinned_pool::{Lease, Pool};

/// 64 KiB of values a result.
const LEN: usize = 16 << 10;
const RESULTS: u32 = 8;

/// Stands for a disk or a network, which takes as long as it takes.
fn write_out((number, lease): (u32, Lease<u32>)) -> Result<()> {
    // Waits for the copy of this result, and for no later one.
    let read = lab::probe(lease.as_slice()?);
    println!("result {number}: {}", lab::verdict(read, number));
    Ok(())
    // The lease ends here, and its buffer can be lent again.
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    let kernel = FillPattern::load(&ctx)?;

    // ANCHOR: idea
    let pool = Pool::<u32>::new(&ctx, 2, LEN)?;
    let mut on_their_way = VecDeque::new();

    for number in 1..=RESULTS {
        kernel.launch(&stream, &mut device, number, 0)?;
        // This is where the producer stands still. With a writer in a thread of its own it would
        // stand in `acquire`.
        if pool.lent() == pool.buffers() {
            on_their_way.pop_front().map_or(Ok(()), write_out)?;
        }
        let mut lease = pool.acquire()?;
        lease.download(&stream, &device)?;
        // The queue has no bound of its own: the pool is the bound.
        on_their_way.push_back((number, lease));
    }
    on_their_way.into_iter().try_for_each(write_out)?;
    // ANCHOR_END: idea
    println!("{} KiB pinned", pool.pinned_bytes() >> 10);
    Ok(())
}
