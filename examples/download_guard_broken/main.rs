//! An early return frees a pinned buffer while the copy into it is queued.
//! hazard: H03

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 16 << 10;

// ANCHOR: idea
/// A copy that may still be under way, and the buffer that it writes.
struct Download {
    copied: CudaEvent,
    // Fields are dropped in this order: the witness looks at the copy just before the buffer goes.
    _witness: Witness,
    host: PinnedHostSlice<u32>,
}

impl Download {
    /// The values, once they have arrived.
    fn values(&self) -> Result<&[u32]> {
        self.copied.synchronize()?;
        Ok(self.host.as_slice()?)
    }
}

// `Download` has no `drop` of its own. That of `PinnedHostSlice` waits for the last copy that
// cudarc knows of; on the default stream it knows of none.

/// Queues a copy, fails, and leaves.
fn offload(stream: &Arc<CudaStream>, device: &CudaSlice<u32>, expected: &str) -> Result<String> {
    let download = start(stream, device)?;
    // "seven" is no number, so the function returns here, with the copy queued.
    let expected = expected.parse()?;
    Ok(lab::verdict(lab::probe(download.values()?), expected))
}
// ANCHOR_END: idea

/// Queues the copy of `device` into a pinned buffer of its own.
fn start(stream: &Arc<CudaStream>, device: &CudaSlice<u32>) -> Result<Download> {
    // SAFETY: `values` waits for the copy, which fills the memory, before anything reads it.
    let mut host = unsafe { stream.context().alloc_pinned_with_flags(LEN, 0) }?;
    // The gate holds the stream, so the copy is certainly late.
    let gate = lab::Gate::close(stream)?;
    stream.memcpy_dtoh(device, &mut host)?;
    let _witness = Witness {
        copied: stream.record_event(None)?,
        _gate: gate,
    };
    Ok(Download {
        copied: stream.record_event(None)?,
        _witness,
        host,
    })
}

/// Says, when it is dropped, whether its copy is pending.
struct Witness {
    copied: CudaEvent,
    // Opened before the buffer is freed: the driver may wait for the stream then.
    _gate: lab::Gate,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let pending = !self.copied.is_complete();
        println!("copies pending: {}", lab::verdict(pending.into(), 0));
    }
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;

    match offload(&stream, &device, "seven") {
        Ok(verdict) => println!("offloaded: {verdict}"),
        Err(error) => println!("given up: {error}"),
    }
    stream.synchronize()?;
    Ok(())
}
