//! Work that was forked onto several streams is joined from each of them before anybody reads it.
//! hazard: none

use cudarc::driver::CudaContext;

/// 64 KiB of values, half of it for each worker.
const LEN: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the forks and joins below order everything. cudarc takes the two halves for one
    // buffer, and its own waits would put the second worker behind the first.
    unsafe { ctx.disable_event_tracking() };
    let main = ctx.new_stream()?;
    let mut input = main.alloc_zeros::<u32>(LEN)?;
    let mut output = main.alloc_zeros::<u32>(LEN)?;
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;

    // ANCHOR: idea
    lab::fill(&main, &mut input, 7)?;

    // Fork: each worker starts behind what `main` holds at this moment, the fill included.
    let workers = [main.fork()?, main.fork()?];
    for (half, worker) in workers.iter().enumerate() {
        let part = half * LEN / 2..(half + 1) * LEN / 2;
        worker.memcpy_dtod(&input.slice(part.clone()), &mut output.slice_mut(part))?;
    }

    // Join: `main` goes on behind both workers. The two are in no order with each other, so to
    // wait for the one that was called last says nothing about the first.
    for worker in &workers {
        main.join(worker)?;
    }
    main.memcpy_dtoh(&output, &mut host)?;

    // The host waits for `main` only; `main` has waited for the workers.
    main.synchronize()?;
    for (half, values) in host.as_slice()?.chunks(LEN / 2).enumerate() {
        println!("half {half}: {}", lab::verdict(lab::probe(values), 7));
    }
    // ANCHOR_END: idea
    Ok(())
}
