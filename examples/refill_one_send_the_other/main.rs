//! Two pinned buffers let the host fill one while the other is sent; each waits for its own event.
//! hazard: none

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const BATCHES: u32 = 6;

/// A pinned buffer, and an event that is recorded behind the last copy out of it.
struct Slot {
    host: PinnedHostSlice<u32>,
    sent: CudaEvent,
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let batches = (0..BATCHES).map(|_| stream.alloc_zeros::<u32>(LEN));
    let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
    let slot = || -> Result<Slot> {
        Ok(Slot {
            // SAFETY: the loop fills the memory before anything reads it.
            host: unsafe { ctx.alloc_pinned_with_flags(LEN, 0) }?,
            sent: ctx.new_event(None)?,
        })
    };
    let mut slots = [slot()?, slot()?];
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut arrived = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    for (number, batch) in (0..).zip(&mut batches) {
        let slot = &mut slots[number as usize % 2];

        // The copy of two rounds ago read this buffer; the copy of the last round reads the other
        // one, and goes on. In the first two rounds the event was never recorded, so there is
        // nothing to wait for.
        slot.sent.synchronize()?;
        slot.host.as_mut_slice()?.fill(number);

        stream.memcpy_htod(&slot.host, batch)?;
        slot.sent.record(&stream)?;
    }
    // ANCHOR_END: idea

    for (number, batch) in (0..).zip(&batches) {
        stream.memcpy_dtoh(batch, &mut arrived)?;
        stream.synchronize()?;
        let read = lab::probe(arrived.as_slice()?);
        println!("batch {number}: {}", lab::verdict(read, number));
    }
    Ok(())
}
