//! When two streams read a slice, whoever writes it joins both: cudarc remembers the second only.
//! hazard: none

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
    // cudarc tracks this slice: a stream is alive that it created. Each copy records the slice's
    // event for reads, and there is one such event.
    one.memcpy_dtoh(&device, &mut first)?;
    two.memcpy_dtoh(&device, &mut second)?;

    // cudarc makes the next writer wait for that event, which now stands for the copy of `two`.
    // The copy of `one` has to be waited for by name.
    two.join(&one)?;
    lab::fill(&two, &mut device, 9)?;

    one.synchronize()?;
    two.synchronize()?;
    for (name, host) in [("one", &first), ("two", &second)] {
        let read = lab::probe(host.as_slice()?);
        println!("{name}: {}", lab::verdict(read, 7));
    }
    // ANCHOR_END: idea
    Ok(())
}
