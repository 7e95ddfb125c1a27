//! The default stream copies before a non-blocking stream has written.
//! hazard: H18

use anyhow::Result;
use cudarc::driver::result::stream::{create, destroy, StreamKind};
use cudarc::driver::CudaContext;

/// 64 KiB of values.
const LEN: usize = 1 << 14;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let ours = ctx.default_stream();
    let mut device = ours.alloc_zeros::<u32>(LEN)?;
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    ours.synchronize()?;

    // ANCHOR: idea
    // A stream that some other library created, as libraries do: non-blocking.
    let handle = create(StreamKind::NonBlocking)?;
    // SAFETY: the handle is a stream of this context, and outlives the wrapper.
    let theirs = unsafe { ctx.wrap_borrowed_stream(handle) };

    // The gate holds the library's stream, so its work is certainly late.
    let gate = lab::Gate::close(&theirs)?;
    lab::fill(&theirs, &mut device, 7)?;

    // The default stream does wait for other streams by itself: for blocking ones, and this one
    // is non-blocking.
    ours.memcpy_dtoh(&device, &mut host)?;
    ours.synchronize()?;
    println!("{}", lab::verdict(lab::probe(host.as_slice()?), 7));
    // ANCHOR_END: idea

    // Too late for the line above, but no buffer may be freed under the fill.
    gate.open();
    theirs.synchronize()?;

    drop(theirs);
    // SAFETY: the stream was created above, and its wrapper is gone.
    unsafe { destroy(handle) }?;
    Ok(())
}
