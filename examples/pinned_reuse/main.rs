//! One pinned buffer, allocated once, takes every step's copy: no page faults, and one wait a step.
//! hazard: none

use cudarc::driver::CudaContext;

/// 4 MiB of values.
const LEN: usize = 1 << 20;
const STEPS: u32 = 10;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    // ANCHOR: idea
    // Allocate once, outside the loop. Flag 0: `alloc_pinned` would give write-combined memory,
    // which the CPU reads slowly.
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);

    let before = lab::Faults::now()?;
    for step in 1..=STEPS {
        lab::fill(&stream, &mut device, step)?;
        stream.memcpy_dtoh(&device, &mut host)?;

        // The buffer still holds the values of the step before: wait, then read.
        stream.synchronize()?;
        let read = lab::probe(host.as_slice()?);
        println!("step {step}: {}", lab::verdict(read, step));
    }
    let faults = lab::Faults::now()?.since(&before);
    // ANCHOR_END: idea

    let pages = host.num_bytes() / lab::page_size() * STEPS as usize;
    println!("{:.2} faults per page", faults.minor as f64 / pages as f64);
    Ok(())
}
