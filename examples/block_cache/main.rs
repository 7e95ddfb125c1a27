//! A host cache of blocks needs two barriers: a load waits for the store, and the next store for the load.
//! hazard: none

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};
use lab::kernels::FillPattern;

/// 64 KiB of values a block.
const LEN: usize = 16 << 10;
const BLOCKS: u32 = 4;

/// The first value of a block; each block counts up from its own.
fn first(number: u32) -> u32 {
    1_000_000 * number
}

// ANCHOR: idea
/// Room for one block in pinned memory, and what its two streams tell each other about it.
struct Slot {
    values: PinnedHostSlice<u32>,
    stored: CudaEvent,
    loaded: CudaEvent,
}

impl Slot {
    /// Queues a copy of `block` into the slot.
    fn store(&mut self, out: &Arc<CudaStream>, block: &CudaSlice<u32>) -> Result<()> {
        // Barrier 1: the last load from this slot has read it. Without one, there is nothing to
        // wait for.
        out.wait(&self.loaded)?;
        out.memcpy_dtoh(block, &mut self.values)?;
        Ok(self.stored.record(out)?)
    }

    /// Queues a copy of the slot into `block`.
    fn load(&self, back: &Arc<CudaStream>, block: &mut CudaSlice<u32>) -> Result<()> {
        // Barrier 2: the store has written the slot. It belongs in here, and not into the callers:
        // one of them would forget it.
        back.wait(&self.stored)?;
        back.memcpy_htod(&self.values, block)?;
        Ok(self.loaded.record(back)?)
    }
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the events order everything. cudarc would insert waits of its own, and this listing
    // is about the waits that a program needs.
    unsafe { ctx.disable_event_tracking() };
    let (out, back) = (ctx.new_stream()?, ctx.new_stream()?);
    let compute = FillPattern::load(&ctx)?;
    let mut blocks = Vec::new();
    let mut restored = Vec::new();
    for number in 1..=BLOCKS {
        let mut block = out.alloc_zeros::<u32>(LEN)?;
        compute.launch(&out, &mut block, first(number), 1)?;
        blocks.push(block);
        restored.push(back.alloc_zeros::<u32>(LEN)?);
    }
    let slot = || -> Result<Slot> {
        // SAFETY: the memory is poisoned below, before anything reads it.
        let mut values = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
        lab::poison(values.as_mut_slice()?);
        Ok(Slot {
            values,
            stored: ctx.new_event(None)?,
            loaded: ctx.new_event(None)?,
        })
    };
    let mut slots = [slot()?, slot()?];
    ctx.synchronize()?;

    // Two slots for four blocks. The host waits for nothing.
    for (number, (block, restored)) in blocks.iter().zip(&mut restored).enumerate() {
        let slot = &mut slots[number % 2];
        slot.store(&out, block)?;
        slot.load(&back, restored)?;
    }
    out.synchronize()?;
    back.synchronize()?;

    for (number, block) in (1..).zip(&restored) {
        let values = back.clone_dtoh(block)?;
        back.synchronize()?;
        let right = (first(number)..).take(LEN);
        let differ = values
            .iter()
            .zip(right)
            .filter(|(read, right)| *read != right)
            .count();
        let wrong = if differ == 0 { "" } else { ": WRONG" };
        println!("block {number}: {differ} of {LEN} values differ{wrong}");
    }
    Ok(())
}
