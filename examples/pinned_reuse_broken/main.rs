//! A reused buffer that is read before the wait shows the values of the step before.
//! hazard: H01

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
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);

    for step in 1..=STEPS {
        lab::fill(&stream, &mut device, step)?;
        // The gate holds the stream, so the copy is certainly late.
        let gate = lab::Gate::close(&stream)?;
        stream.memcpy_dtoh(&device, &mut host)?;

        // Read first, wait later: these are the values of the step before.
        let read = lab::probe(host.as_slice()?);
        println!("step {step}: {}", lab::verdict(read, step));
        gate.open();
        stream.synchronize()?;
    }
    // ANCHOR_END: idea
    Ok(())
}
