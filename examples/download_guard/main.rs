//! A download that owns its buffer waits for its copy before it frees the buffer.
//! hazard: none

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

impl Drop for Download {
    /// Every way out ends here: the last line, a `?`, a panic.
    fn drop(&mut self) {
        // A destructor cannot return an error, so this one says it.
        if let Err(error) = self.copied.synchronize() {
            eprintln!("waiting for a download: {error}");
        }
    }
}

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
    stream.memcpy_dtoh(device, &mut host)?;
    let _witness = Witness {
        copied: stream.record_event(None)?,
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
