//! A gate holds a stream, so that what is queued behind it has certainly not run.
//!
//! Without a gate a broken program goes wrong only when the copy happens to be late. With one it
//! goes wrong every time, on any GPU.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cudarc::driver::{result, CudaStream};

use crate::driver::{driver, Driver};

const SHUT: u8 = 0;
const OPEN: u8 = 1;
const GAVE_UP: u8 = 2;

/// A gate that nobody opens must not hang the machine.
const GIVES_UP_AFTER: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_micros(50);

/// Holds a stream from [`Gate::close`] until [`Gate::open`], or until it is dropped.
///
/// Keep to these rules while a gate is shut, or the program waits for itself:
/// - shut one gate at a time: the driver may run host functions one after the other;
/// - allocate buffers, streams and events before;
/// - call nothing that may wait for the gated stream.
#[must_use = "a gate that is dropped opens at once"]
pub struct Gate {
    // One byte that is never freed: the driver may run the host function after the gate is gone.
    state: &'static AtomicU8,
}

impl Gate {
    /// Queues a host function on `stream` that does not return before the gate is opened.
    ///
    /// On the model the gate is open from the start. There the schedule decides how late an
    /// operation runs: under `last` nothing runs before something waits for it, which is all that
    /// a gate can achieve, and a host function that really waits would only cost time.
    ///
    /// # Errors
    /// When the driver refuses the host function.
    pub fn close(stream: &CudaStream) -> Result<Self> {
        let state = match driver()? {
            Driver::Model { .. } => OPEN,
            Driver::Nvidia { .. } => SHUT,
        };
        let state: &'static AtomicU8 = Box::leak(Box::new(AtomicU8::new(state)));
        stream
            .context()
            .bind_to_thread()
            .context("closing a gate")?;
        // SAFETY: the stream is alive, and the argument points to a byte that is never freed.
        unsafe {
            let argument = std::ptr::from_ref(state).cast_mut().cast();
            result::stream::launch_host_function(stream.cu_stream(), host_function, argument)
        }
        .context("closing a gate: queueing a host function")?;
        Ok(Self { state })
    }

    /// Lets the stream go on.
    pub fn open(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.state.swap(OPEN, Ordering::Release) == GAVE_UP {
            eprintln!(
                "gate: it gave up before it was opened, so what this program shows is not certain"
            );
        }
    }
}

unsafe extern "C" fn host_function(state: *mut c_void) {
    // SAFETY: `Gate::close` passes a pointer to a byte that is never freed.
    let state = unsafe { &*state.cast::<AtomicU8>() };
    hold(state, GIVES_UP_AFTER);
}

/// Waits until the gate is open. It runs on a thread of the driver, so it only sleeps and looks:
/// a CUDA call, a lock or an allocation in here can stop the driver itself.
fn hold(state: &AtomicU8, limit: Duration) {
    let start = Instant::now();
    while state.load(Ordering::Acquire) == SHUT {
        if start.elapsed() >= limit {
            // An opening that comes in this very moment wins.
            let _ = state.compare_exchange(SHUT, GAVE_UP, Ordering::AcqRel, Ordering::Acquire);
            return;
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_nobody_opens_gives_up() {
        let state = AtomicU8::new(SHUT);
        hold(&state, Duration::ZERO);
        assert_eq!(state.load(Ordering::Acquire), GAVE_UP);
    }

    #[test]
    fn a_gate_holds_until_it_is_opened() {
        let state: &'static AtomicU8 = Box::leak(Box::new(AtomicU8::new(SHUT)));
        let stream = thread::spawn(|| hold(state, Duration::MAX));
        assert!(!stream.is_finished());
        Gate { state }.open();
        assert!(stream.join().is_ok());
        assert_eq!(state.load(Ordering::Acquire), OPEN);
    }
}
