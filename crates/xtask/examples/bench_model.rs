//! Measures the model itself; `cargo xtask bench-model` runs it in release mode on the model.
//!
//! Method, copies: one pinned buffer and one device buffer of 1 GiB, both memory of the model, and one pageable
//! destination of 1 GiB that is touched beforehand.
//! In turn, the device buffer is copied into the destination through the driver and waited for, and the pinned buffer
//! is copied into the same destination by memcpy.
//! The figure is the ratio of the two medians.
//!
//! Method, operations: 4-byte memsets and 4-byte copies to pinned memory are enqueued on one stream in turn, then one
//! synchronize; the clock covers both.

use std::time::{Duration, Instant};

use anyhow::Result;
use cudarc::driver::{sys, CudaContext};
use serde::Serialize;

/// Bytes of each of the three buffers.
const BYTES: usize = 1 << 30;
/// How often each of the two copies is timed.
const REPEATS: usize = 9;
/// How many operations are enqueued before the one synchronize.
const OPERATIONS: u32 = 100_000;

/// Times in milliseconds.
#[derive(Serialize)]
struct Spread {
    median_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

#[derive(Serialize)]
struct Results {
    repeats: usize,
    bytes: usize,
    model: Spread,
    memcpy: Spread,
    ratio_of_medians: f64,
    operations: u32,
    operations_ms: f64,
    us_per_operation: f64,
}

fn main() -> Result<()> {
    let json = std::env::args().any(|argument| argument == "--json");
    let (model, memcpy) = copies()?;
    let operations = operations()?;
    let results = Results {
        repeats: REPEATS,
        bytes: BYTES,
        ratio_of_medians: model.median_ms / memcpy.median_ms,
        model,
        memcpy,
        operations: OPERATIONS,
        operations_ms: milliseconds(operations),
        us_per_operation: operations.as_secs_f64() * 1e6 / f64::from(OPERATIONS),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print(&results);
    }
    Ok(())
}

fn print(results: &Results) {
    let line = |name, spread: &Spread| {
        println!(
            "  {name:22} {:7.1} ms  ({:.1} to {:.1})",
            spread.median_ms, spread.min_ms, spread.max_ms
        );
    };
    println!(
        "1 GiB into one touched pageable buffer, {} times each in turn, medians (min to max):",
        results.repeats
    );
    line("device, by the model", &results.model);
    line("pinned, by memcpy", &results.memcpy);
    println!("  ratio of medians       {:7.3}", results.ratio_of_medians);
    println!(
        "{} memsets and copies of 4 bytes on one stream, then one synchronize, once:",
        results.operations
    );
    println!(
        "  all                    {:7.1} ms  ({:.2} µs each)",
        results.operations_ms, results.us_per_operation
    );
}

/// Times the copy through the model and the plain one.
fn copies() -> Result<(Spread, Spread)> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let device = stream.alloc_zeros::<u8>(BYTES)?;
    // SAFETY: the next line fills the memory before anything reads it.
    let mut pinned = unsafe { context.alloc_pinned_with_flags::<u8>(BYTES, 0) }?;
    pinned.as_mut_slice()?.fill(1);
    let mut destination = vec![2u8; BYTES];

    let (mut model, mut memcpy) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let start = Instant::now();
        stream.memcpy_dtoh(&device, &mut destination)?;
        stream.synchronize()?;
        model.push(start.elapsed());

        let start = Instant::now();
        destination.copy_from_slice(pinned.as_slice()?);
        std::hint::black_box(&mut destination);
        memcpy.push(start.elapsed());
    }
    Ok((spread(model), spread(memcpy)))
}

/// Times small operations, from the first call to the end of the synchronize.
fn operations() -> Result<Duration> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let device = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: nothing reads the memory.
    let mut pinned = unsafe { context.alloc_pinned_with_flags::<u32>(1, 0) }?;
    let destination = pinned.as_mut_slice()?.as_mut_ptr();
    let address = {
        use cudarc::driver::DevicePtr;
        device.device_ptr(&stream).0
    };
    stream.synchronize()?;

    let start = Instant::now();
    for operation in 0..OPERATIONS {
        // SAFETY: both addresses stay valid until the synchronize below.
        unsafe {
            if operation % 2 == 0 {
                sys::cuMemsetD32Async(address, operation, 1, stream.cu_stream()).result()?;
            } else {
                sys::cuMemcpyDtoHAsync_v2(destination.cast(), address, 4, stream.cu_stream())
                    .result()?;
            }
        }
    }
    stream.synchronize()?;
    Ok(start.elapsed())
}

fn spread(mut times: Vec<Duration>) -> Spread {
    times.sort();
    Spread {
        median_ms: milliseconds(times[times.len() / 2]),
        min_ms: milliseconds(times[0]),
        max_ms: milliseconds(times[times.len() - 1]),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
