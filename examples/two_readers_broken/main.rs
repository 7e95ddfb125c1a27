//! When two streams read a slice, cudarc lets a writer overwrite it under the first.
//! hazard: H09

use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let (one, two) = (ctx.new_stream()?, ctx.new_stream()?);
    let mut device = two.alloc_zeros::<u32>(LEN)?;
    // SAFETY: a copy has filled each buffer before anything reads it.
    let pinned = || unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) };
    let (mut first, mut second) = (pinned()?, pinned()?);
    lab::fill(&two, &mut device, 7)?;
    two.synchronize()?;

    // ANCHOR: idea
    // The gate holds the first reader, so its copy is certainly late.
    let gate = lab::Gate::close(&one)?;
    one.memcpy_dtoh(&device, &mut first)?;
    two.memcpy_dtoh(&device, &mut second)?;

    // cudarc makes the writer wait for the slice's last reader: its own copy, just above.
    lab::fill(&two, &mut device, 9)?;

    two.synchronize()?;
    gate.open();
    one.synchronize()?;
    for (name, host) in [("one", &first), ("two", &second)] {
        let read = lab::probe(host.as_slice()?);
        println!("{name}: {}", lab::verdict(read, 7));
    }
    // ANCHOR_END: idea
    Ok(())
}
