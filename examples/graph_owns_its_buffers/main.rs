//! A graph is kept together with the buffers that it names, and its input is refilled after a wait.
//! hazard: none

use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

// ANCHOR: idea
/// A captured round trip, and the memory whose addresses it repeats at each launch. Fields are
/// dropped in this order: the graph goes before its buffers.
struct RoundTrip {
    graph: CudaGraph,
    input: PinnedHostSlice<u32>,
    output: PinnedHostSlice<u32>,
    _device: CudaSlice<u32>,
    stream: Arc<CudaStream>,
}

impl RoundTrip {
    /// Sends `value` through the graph, and returns what came back.
    fn run(&mut self, value: u32) -> Result<u32> {
        // The graph reads the input when it runs, so nobody may refill it under a launch: `run`
        // returns only when its launch is complete.
        self.input.as_mut_slice()?.fill(value);
        self.graph.launch()?;
        self.stream.synchronize()?;
        // The next launch overwrites the output: the result leaves the buffer before that.
        Ok(lab::probe(self.output.as_slice()?))
    }
}

fn capture(ctx: &Arc<CudaContext>, stream: &Arc<CudaStream>) -> Result<RoundTrip> {
    // What the graph names is allocated before the capture begins.
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // SAFETY: `run` and the first launch fill them before anything reads them.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (input, mut output) = (pinned()?, pinned()?);
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memcpy_htod(&input, &mut device)?;
    stream.memcpy_dtoh(&device, &mut output)?;
    let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
    let graph = graph.context("the capture holds no operation")?;
    Ok(RoundTrip {
        graph,
        input,
        output,
        _device: device,
        stream: stream.clone(),
    })
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: one stream does everything. A wait on an event from before the capture, which
    // cudarc's tracking would add, spoils the capture.
    unsafe { ctx.disable_event_tracking() };
    let stream = ctx.new_stream()?;
    let mut round_trip = capture(&ctx, &stream)?;
    for value in 1..=3 {
        let back = round_trip.run(value)?;
        println!("launch {value}: {}", lab::verdict(back, value));
    }
    Ok(())
}
