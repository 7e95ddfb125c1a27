//! With event tracking on, the first tracked buffer in a capture spoils it.
//! hazard: H23

use anyhow::Result;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, DriverError};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;

    // ANCHOR: idea
    let stream = ctx.new_stream()?;
    let sevens = vec![7; LEN];
    let mut device = stream.clone_htod(&sevens)?;
    stream.synchronize()?;

    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    // cudarc first waits for the slice's event, which was recorded before the capture. CUDA
    // answers 905, cudarc keeps that back, and the memset finds the capture spoiled.
    println!("memset: {}", verdict(stream.memset_zeros(&mut device)));

    // This returns the 905 that was kept back, and does not end the capture.
    let end = || stream.end_capture(CUgraphInstantiate_flags(0));
    println!("end of the capture: {}", verdict(end()));
    // This ends it. There is no graph.
    println!("once more: {}", verdict(end()));
    // ANCHOR_END: idea
    Ok(())
}

fn verdict<T>(result: Result<T, DriverError>) -> String {
    match result {
        Ok(_) => "0".to_owned(),
        Err(DriverError(code)) => format!("{} instead of 0: WRONG", code as u32),
    }
}
