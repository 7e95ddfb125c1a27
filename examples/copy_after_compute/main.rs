//! A block that is ready in the books of the host is ready on the device after its event.
//! hazard: none

use std::collections::VecDeque;

use anyhow::Result;
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const BLOCKS: u32 = 4;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the waits below order everything. cudarc would insert the one that this listing is about.
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
    // The host's books: which blocks have been handed to compute, and the event behind each.
    let mut ready = VecDeque::new();
    for (value, block) in (1..).zip(&mut blocks) {
        lab::fill(&compute, block, value)?;
        ready.push_back((&*block, compute.record_event(None)?));
    }

    // The offloader takes from the queue, maybe much later, maybe on another thread.
    for host in &mut hosts {
        let Some((block, computed)) = ready.pop_front() else {
            break;
        };
        // That it is in the queue says that the host has called compute, and nothing more.
        copy.wait(&computed)?;
        copy.memcpy_dtoh(block, host)?;
    }

    copy.synchronize()?;
    for (value, host) in (1..).zip(&hosts) {
        let read = lab::probe(host.as_slice()?);
        println!("block {value}: {}", lab::verdict(read, value));
    }
    // ANCHOR_END: idea
    Ok(())
}
