//! The input of a graph is refilled under its launch, and the graph sends the new values.
//! hazard: H02

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
    /// Sends what the input holds through the graph, and returns what came back. Meanwhile it
    /// prepares the input of the next launch.
    fn run(&mut self, next: u32) -> Result<u32> {
        // The gate holds the stream, so the launch is certainly late.
        let gate = lab::Gate::close(&self.stream)?;
        self.graph.launch()?;
        // The launch has not read the input yet, so it sends the values of the next one.
        self.input.as_mut_slice()?.fill(next);
        gate.open();
        self.stream.synchronize()?;
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
    round_trip.input.as_mut_slice()?.fill(1);
    for value in 1..=3 {
        let back = round_trip.run(value + 1)?;
        println!("launch {value}: {}", lab::verdict(back, value));
    }
    Ok(())
}
