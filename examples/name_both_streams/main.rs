//! "The current stream" is another one inside of a scope: name the producer before you enter it.
//! hazard: none

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::{CudaContext, CudaStream};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

thread_local! {
    static CURRENT: RefCell<Option<Arc<CudaStream>>> = const { RefCell::new(None) };
}

/// `torch.cuda.current_stream()`
fn current_stream() -> Result<Arc<CudaStream>> {
    let stream = CURRENT.with_borrow(Clone::clone);
    stream.context("no stream is current on this thread")
}

/// `with torch.cuda.stream(stream): body()`
fn with_stream<T>(stream: &Arc<CudaStream>, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = CURRENT.replace(Some(Arc::clone(stream)));
    let result = body();
    CURRENT.set(outer);
    result
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the join below orders everything. cudarc would find the right stream by itself; a
    // program that keeps a current stream, as PyTorch does, has to name it.
    unsafe { ctx.disable_event_tracking() };
    let compute = ctx.new_stream()?;
    let copy = ctx.new_stream()?;
    let mut device = compute.alloc_zeros::<u32>(LEN)?;
    // SAFETY: a copy has filled the memory before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    compute.synchronize()?;

    // ANCHOR: idea
    with_stream(&compute, || {
        lab::fill(&*current_stream()?, &mut device, 7)?;

        // Asked for here, it is the stream that computes.
        let producer = current_stream()?;
        with_stream(&copy, || {
            let consumer = current_stream()?;
            consumer.join(&producer)?;
            consumer.memcpy_dtoh(&device, &mut host)?;
            Ok(())
        })
    })?;

    copy.synchronize()?;
    println!("{}", lab::verdict(lab::probe(host.as_slice()?), 7));
    // ANCHOR_END: idea
    Ok(())
}
