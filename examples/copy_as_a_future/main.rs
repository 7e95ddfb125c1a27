//! A future owns the buffer of a copy until a host function behind the copy completes it.
//! hazard: none

use std::ffi::c_void;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use anyhow::Result;
use cudarc::driver::result::stream::launch_host_function;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, PinnedHostSlice};

/// 64 KiB of values.
const LEN: usize = 1 << 14;

type Pinned = PinnedHostSlice<u32>;

// ANCHOR: idea
/// A copy to the host in flight. It owns the buffer, so nobody reads or frees it too early.
struct Download {
    host: Option<Pinned>,
    stream: Arc<CudaStream>,
    signal: Arc<Signal>,
}

fn start(stream: &Arc<CudaStream>, device: &CudaSlice<u32>, mut host: Pinned) -> Result<Download> {
    let signal = Arc::<Signal>::default();
    let argument = Arc::into_raw(signal.clone()).cast_mut().cast();
    stream.memcpy_dtoh(device, &mut host)?;
    let download = Download::new(host, stream, signal);
    // Behind the copy: the stream comes to the host function when the copy is complete.
    // SAFETY: `arrive` takes over the reference that the argument holds.
    unsafe { launch_host_function(stream.cu_stream(), arrive, argument) }?;
    Ok(download)
}

/// Runs on a thread of the driver: it wakes the task, and calls nothing of CUDA.
unsafe extern "C" fn arrive(signal: *mut c_void) {
    // SAFETY: the argument is the reference that `start` gave away.
    unsafe { Arc::from_raw(signal.cast::<Signal>()) }.arrive();
}

impl Future for Download {
    type Output = Option<Pinned>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context) -> Poll<Self::Output> {
        match self.signal.has_arrived(task.waker()) {
            true => Poll::Ready(self.host.take()),
            false => Poll::Pending,
        }
    }
}
// ANCHOR_END: idea

impl Download {
    fn new(host: Pinned, stream: &Arc<CudaStream>, signal: Arc<Signal>) -> Self {
        Self {
            host: Some(host),
            stream: stream.clone(),
            signal,
        }
    }
}

impl Drop for Download {
    /// A future can be dropped before it is done. The copy goes on, so its buffer has to stay.
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            if self.stream.synchronize().is_err() {
                std::mem::forget(host);
            }
        }
    }
}

/// What the host function tells the task, and who is to be woken then.
#[derive(Default)]
struct Signal(Mutex<(bool, Option<Waker>)>);

impl Signal {
    fn arrive(&self) {
        let waker = {
            let mut state = self.state();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Asks and leaves the waker under one lock, so that no signal is lost in between.
    fn has_arrived(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if !state.0 {
            state.1 = Some(waker.clone());
        }
        state.0
    }

    /// The lock is held for a moment and never across a call of CUDA, so the driver's thread does
    /// not wait long for it.
    fn state(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The smallest executor: this thread sleeps until it is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    lab::fill(&stream, &mut device, 7)?;
    stream.synchronize()?;

    let download = start(&stream, &device, host)?;
    if let Some(host) = block_on(download) {
        println!("{}", lab::verdict(lab::probe(host.as_slice()?), 7));
    }
    Ok(())
}
