//! Offloading into a fresh buffer pays for every page in every step; a reused buffer pays once.
//! hazard: none

use anyhow::Result;
use cudarc::driver::CudaContext;
use lab::{Faults, Pageable};

/// 16 MiB of values: the activations of one step.
const LEN: usize = 4 << 20;
const STEPS: u32 = 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    let mut warm_up = Pageable::zeroed(LEN)?;
    stream.memcpy_dtoh(&device, &mut *warm_up)?;
    stream.synchronize()?;

    // ANCHOR: idea
    // Every page of this buffer is touched here, once, before the loop.
    let mut reused = Pageable::<u32>::zeroed(LEN)?;
    let mut sum = [0.0, 0.0];

    for step in 1..=STEPS {
        lab::fill(&stream, &mut device, step)?;
        stream.synchronize()?;

        // As `.cpu()` does, with an allocator that gives memory back to the kernel: new pages in
        // every step, one copy into them, and they are gone again.
        let before = Faults::now()?;
        let mut fresh = Pageable::<u32>::untouched(LEN)?;
        stream.memcpy_dtoh(&device, &mut *fresh)?;
        stream.synchronize()?;
        drop(fresh);
        let into_fresh = faults_per_page(&before)?;

        // The same copy into the same pages in every step.
        let before = Faults::now()?;
        stream.memcpy_dtoh(&device, &mut *reused)?;
        stream.synchronize()?;
        let into_reused = faults_per_page(&before)?;

        println!("step {step}: fresh {into_fresh:.2}, reused {into_reused:.2} faults per page");
        sum = [sum[0] + into_fresh, sum[1] + into_reused];
    }
    println!(
        "sum: fresh {:.1}, reused {:.1} faults per page",
        sum[0], sum[1]
    );
    // ANCHOR_END: idea
    Ok(())
}

/// Page faults since `before`, per page of a step's activations.
fn faults_per_page(before: &Faults) -> Result<f64> {
    let pages = LEN * size_of::<u32>() / lab::page_size();
    Ok(Faults::now()?.since(before).minor as f64 / pages as f64)
}
