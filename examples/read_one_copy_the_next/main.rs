//! The host waits for the copy into the buffer that it reads, and for no other.
//! hazard: none

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const CHUNKS: usize = 6;

// ANCHOR: idea
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

fn read_all(
    stream: &Arc<CudaStream>,
    device: &mut CudaSlice<u32>,
    slots: &mut [Slot; 2],
) -> Result<()> {
    download(stream, 0, device, &mut slots[0])?;
    for chunk in 0..CHUNKS {
        // The next copy is queued first, so that the stream has work while the host reads.
        if chunk + 1 < CHUNKS {
            download(stream, chunk + 1, device, &mut slots[(chunk + 1) % 2])?;
        }
        let slot = &slots[chunk % 2];
        // `stream.synchronize()` would wait for the next copy too, and nothing would overlap.
        slot.copied.synchronize()?;
        let read = lab::probe(slot.host.as_slice()?);
        println!("chunk {chunk}: {}", lab::verdict(read, chunk as u32));
    }
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
