//! Host functions: what they must not do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cuda;
use crate::hazards::{hazard, Hazard};
use crate::lab::Lab;

pub const ALL: &[Hazard] = &[
    hazard(
        "H19",
        "a host function calls the driver",
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || {
                let _ = cuda::context_sync();
            });
            cuda::sync(s).ok();
        },
        |lab| {
            let s = lab.stream();
            let called = AtomicBool::new(false);
            lab.host_function(s, move || called.store(true, Ordering::SeqCst));
            cuda::sync(s).ok();
        },
    ),
    hazard(
        "H20",
        "a host function waits for work that is not ordered before it",
        |lab| host_function_waits(lab, false),
        |lab| host_function_waits(lab, true),
    ),
];

/// A host function on one stream waits for one on another stream.
fn host_function_waits(lab: &mut Lab, ordered: bool) {
    const GIVES_UP_AFTER: Duration = Duration::from_secs(3);
    let (a, b, e) = (lab.stream(), lab.stream(), lab.event());
    let go = Arc::new(AtomicBool::new(false));
    let (setter, waiter) = (Arc::clone(&go), go);
    let set = move || setter.store(true, Ordering::SeqCst);
    let wait = move || {
        let start = Instant::now();
        while !waiter.load(Ordering::SeqCst) && start.elapsed() < GIVES_UP_AFTER {
            thread::sleep(Duration::from_millis(1));
        }
    };
    if ordered {
        lab.host_function(b, set);
        cuda::record(e, b).ok();
        cuda::wait(a, e).ok();
        lab.host_function(a, wait);
    } else {
        lab.host_function(a, wait);
        lab.host_function(b, set);
    }
    cuda::sync(a).ok();
    cuda::sync(b).ok();
}
