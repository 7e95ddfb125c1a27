//! A gate holds a stream, so that what is queued behind it has certainly not run.
//!
//! Rules while a gate is shut: one gate at a time; buffers, streams and events exist already; no call that may wait for
//! the gated stream, except behind a helper that opens it after a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cuda::{self, HostFunction, Stream};

/// A gate that nobody opens must not hang the machine.
const GIVES_UP_AFTER: Duration = Duration::from_secs(2);
/// When a helper opens a gate.
pub const HELPER_OPENS_AFTER: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_micros(50);

/// Holds a stream while it is shut; dropping it opens it.
#[derive(Clone)]
pub struct Gate {
    open: Arc<AtomicBool>,
    /// Not all programs run with gates; one that does not hold anything is open from the start.
    holds: bool,
}

impl Gate {
    pub(crate) fn new(holds: bool) -> Gate {
        let open = Arc::new(AtomicBool::new(!holds));
        Gate { open, holds }
    }

    /// Lets the stream go on.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Panics if a call, which must not wait for the gated stream, returned only after the gate had opened.
    #[track_caller]
    pub fn still_shut_after(&self, call: &str) {
        assert!(
            !self.holds || !self.open.load(Ordering::Acquire),
            "{call} waited for the gate"
        );
    }

    /// Did the call before this one wait for the gate? Unknown without a gate.
    pub fn has_opened(&self) -> Option<bool> {
        self.holds.then(|| self.open.load(Ordering::Acquire))
    }

    /// Queues the gate on a stream; the caller keeps what comes back until the stream is idle.
    pub fn queue(&self, stream: Stream) -> Option<HostFunction> {
        if !self.holds {
            return None;
        }
        let held = self.clone();
        let function: HostFunction = Box::new(Box::new(move || held.hold()));
        cuda::host_function(stream, &function).ok();
        Some(function)
    }

    /// The body of the host function. It runs on a thread of the driver, so it only sleeps and looks.
    fn hold(&self) {
        let start = Instant::now();
        while !self.open.load(Ordering::Acquire) && start.elapsed() < GIVES_UP_AFTER {
            thread::sleep(POLL);
        }
        self.open();
    }
}
