//! Bookkeeping on the host is no fence: the copy reads a block that compute has yet to write.
//! hazard: H08

use std::collections::VecDeque;

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const BLOCKS: u32 = 4;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host waits for the copies before it reads or frees their buffers. cudarc would
    // insert the wait that is missing below.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let blocks = (0..BLOCKS).map(|_| compute.alloc_zeros::<u32>(LEN));
    let mut blocks = blocks.collect::<Result<Vec<_>, _>>()?;
    // SAFETY: a copy has filled each buffer before anything reads it.
    let hosts = (0..BLOCKS).map(|_| unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) });
    let mut hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    // From here on the blocks exist for every stream, and hold zeros.
    compute.synchronize()?;

    // ANCHOR: idea
    // The gate holds compute, so the values are certainly late.
    let gate = lab::Gate::close(&compute)?;
    // The host's books: which blocks have been handed to compute.
    let mut ready = VecDeque::new();
    for (value, block) in (1..).zip(&mut blocks) {
        lab::fill(&compute, block, value)?;
        ready.push_back(&*block);
    }

    // The offloader takes from the queue, maybe much later, maybe on another thread.
    for host in &mut hosts {
        let Some(block) = ready.pop_front() else {
            break;
        };
        // The wait is missing here: the queue says that the block is ready.
        copy.memcpy_dtoh(block, host)?;
    }

    copy.synchronize()?;
    for (value, host) in (1..).zip(&hosts) {
        let read = lab::probe(host.as_slice()?);
        println!("block {value}: {}", lab::verdict(read, value));
    }
    gate.open();
    compute.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
