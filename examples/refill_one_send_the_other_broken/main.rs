//! A second pinned buffer puts the collision off by one round, and does not prevent it.
//! hazard: H02

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
    // The gate holds the stream, so the copies are certainly late.
    let gate = lab::Gate::close(&stream)?;
    for (number, batch) in (0..).zip(&mut batches) {
        let slot = &mut slots[number as usize % 2];

        // The wait is missing here. In round 2 the host is back at the first buffer, and writes
        // over what the copy of round 0 has not read yet.
        slot.host.as_mut_slice()?.fill(number);

        stream.memcpy_htod(&slot.host, batch)?;
        slot.sent.record(&stream)?;
    }
    gate.open();
    // ANCHOR_END: idea

    for (number, batch) in (0..).zip(&batches) {
        stream.memcpy_dtoh(batch, &mut arrived)?;
        stream.synchronize()?;
        let read = lab::probe(arrived.as_slice()?);
        println!("batch {number}: {}", lab::verdict(read, number));
    }
    Ok(())
}
