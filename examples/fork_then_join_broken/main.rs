//! A stream that joins only the worker that was called last reads what the other has yet to write.
//! hazard: H08

use cudarc::driver::CudaContext;

/// 64 KiB of values, half of it for each worker.
const LEN: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the host reads and drops nothing before it has waited. What is in the buffers
    // meanwhile is the point: cudarc would add the wait that is missing below.
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
    // The gate holds the first worker, so its copy is certainly late.
    let gate = lab::Gate::close(&workers[0])?;
    for (half, worker) in workers.iter().enumerate() {
        let part = half * LEN / 2..(half + 1) * LEN / 2;
        worker.memcpy_dtod(&input.slice(part.clone()), &mut output.slice_mut(part))?;
    }

    // The last call came from the second worker; that says nothing about the first.
    main.join(&workers[1])?;
    main.memcpy_dtoh(&output, &mut host)?;

    main.synchronize()?;
    for (half, values) in host.as_slice()?.chunks(LEN / 2).enumerate() {
        println!("half {half}: {}", lab::verdict(lab::probe(values), 7));
    }
    // ANCHOR_END: idea

    // Too late for the lines above, but no buffer may be freed under a copy.
    gate.open();
    workers[0].synchronize()?;
    Ok(())
}
