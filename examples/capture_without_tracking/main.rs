//! cudarc's event tracking spoils a capture, so it is off before the first buffer is allocated.
//! hazard: none

use anyhow::{Context, Result};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;

    // ANCHOR: idea
    // A slice that is allocated with tracking carries an event, and each use waits for it. In a
    // capture, that would be a wait for something outside of the capture: error 905.
    // SAFETY: one stream does everything, and the host waits for it before it reads.
    unsafe { ctx.disable_event_tracking() };
    let stream = ctx.new_stream()?;
    let sevens = vec![7; LEN];
    let mut device = stream.clone_htod(&sevens)?;
    stream.synchronize()?;

    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memset_zeros(&mut device)?;
    let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;

    // Captured is not run: the slice holds 7 until the graph is launched.
    let graph = graph.context("the capture holds no operation")?;
    let mut host = vec![lab::POISON; LEN];
    for (when, right) in [("captured", 7), ("launched", 0)] {
        if when == "launched" {
            graph.launch()?;
        }
        stream.memcpy_dtoh(&device, &mut host)?;
        stream.synchronize()?;
        println!("{when}: {}", lab::verdict(lab::probe(&host), right));
    }
    // ANCHOR_END: idea
    Ok(())
}
