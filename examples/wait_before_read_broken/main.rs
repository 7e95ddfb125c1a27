//! The host reads a pinned buffer while the copy into it is still queued.
//! hazard: H01

use cudarc::driver::CudaContext;

/// 4 MiB of values.
const LEN: usize = 1 << 20;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;

    // ANCHOR: idea
    lab::fill(&stream, &mut device, 7)?;
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);

    // The gate holds the stream, so the copy is certainly late. Without the gate this program
    // goes wrong only when the copy happens to be slower than the CPU.
    let gate = lab::Gate::close(&stream)?;
    stream.memcpy_dtoh(&device, &mut host)?;

    // The wait is missing here. `as_slice` compiles, returns at once, and shows old bytes.
    let read = lab::probe(host.as_slice()?);
    println!("{}", lab::verdict(read, 7));

    // Too late for the line above, but no buffer may be freed under a copy.
    gate.open();
    stream.synchronize()?;
    // ANCHOR_END: idea
    Ok(())
}
