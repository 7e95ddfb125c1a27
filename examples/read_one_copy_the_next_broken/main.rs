//! A stream that waits for an event does not make the host wait for it.
//! hazard: H01

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const CHUNKS: usize = 6;

/// A pinned buffer, and an event that is recorded behind the last copy into it.
struct Slot {
    host: PinnedHostSlice<u32>,
    copied: CudaEvent,
}

/// Queues the work that makes chunk `value`, and the copy of it; waits for nothing.
fn download(
    stream: &Arc<CudaStream>,
    value: usize,
    device: &mut CudaSlice<u32>,
    slot: &mut Slot,
) -> Result<()> {
    lab::fill(stream, device, value as u32)?;
    stream.memcpy_dtoh(device, &mut slot.host)?;
    slot.copied.record(stream)?;
    Ok(())
}

// ANCHOR: idea
fn read_all(
    stream: &Arc<CudaStream>,
    device: &mut CudaSlice<u32>,
    slots: &mut [Slot; 2],
) -> Result<()> {
    // The gate holds the stream, so the copies are certainly late.
    let gate = lab::Gate::close(stream)?;
    download(stream, 0, device, &mut slots[0])?;
    for chunk in 0..CHUNKS {
        if chunk + 1 < CHUNKS {
            download(stream, chunk + 1, device, &mut slots[(chunk + 1) % 2])?;
        }
        let slot = &slots[chunk % 2];
        // The stream waits for its own copy, which changes nothing, and the host goes on.
        stream.wait(&slot.copied)?;
        let read = lab::probe(slot.host.as_slice()?);
        println!("chunk {chunk}: {}", lab::verdict(read, chunk as u32));
    }
    // Too late for the lines above, but no buffer may be freed under a copy.
    gate.open();
    stream.synchronize()?;
    Ok(())
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros(LEN)?;
    let mut slots = [slot(&ctx)?, slot(&ctx)?];
    read_all(&stream, &mut device, &mut slots)
}

fn slot(ctx: &Arc<CudaContext>) -> Result<Slot> {
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    let copied = ctx.new_event(None)?;
    Ok(Slot { host, copied })
}
