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
    let pages = (LEN * size_of::<u32>() / lab::page_size()) as f64;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    stream.memcpy_dtoh(&device, &mut *Pageable::zeroed(LEN)?)?;
    stream.synchronize()?;

    // ANCHOR: idea
    let mut reused = Pageable::<u32>::zeroed(LEN)?;
    let mut sums = [0, 0];

    for step in 1..=STEPS {
        lab::fill(&stream, &mut device, step)?;
        stream.synchronize()?;

        // What `.cpu()` does in every step: new memory, one copy, and the memory is gone again.
        let before = Faults::now()?;
        let mut fresh = Pageable::<u32>::untouched(LEN)?;
        stream.memcpy_dtoh(&device, &mut *fresh)?;
        stream.synchronize()?;
        drop(fresh);
        let fresh = Faults::now()?.since(&before).minor;

        // The same copy into the buffer that every step uses.
        let before = Faults::now()?;
        stream.memcpy_dtoh(&device, &mut *reused)?;
        stream.synchronize()?;
        let reused = Faults::now()?.since(&before).minor;

        let per_page = [fresh as f64 / pages, reused as f64 / pages];
        println!(
            "step {step}: fresh {:.2}, reused {:.2} faults per page",
            per_page[0], per_page[1]
        );
        sums = [sums[0] + fresh, sums[1] + reused];
    }
    // ANCHOR_END: idea
    println!(
        "sum: fresh {:.1}, reused {:.1} faults per page",
        sums[0] as f64 / pages,
        sums[1] as f64 / pages
    );
    Ok(())
}
