//! Waits that do not cover the copy, or that nobody makes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::cuda::{self, Stream};
use crate::hazards::{hazard, Hazard};
use crate::lab::Lab;

pub const ALL: &[Hazard] = &[
    hazard(
        "H13",
        "the host waits for an event that was never recorded",
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::dtoh(p, d, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::event_sync(e).ok();
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H13"),
    hazard(
        "H14",
        "the host waits for an event that was recorded before the copy",
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::record(e, s).ok();
            cuda::dtoh(p, d, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H14"),
    hazard(
        "H15",
        "the event that covered the copy was recorded again elsewhere",
        |lab| {
            let (p, d, e) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::record(e, a).ok();
            cuda::record(e, b).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b, e, f) = (lab.stream(), lab.stream(), lab.event(), lab.event());
            cuda::dtoh(p, d, a).ok();
            cuda::record(e, a).ok();
            cuda::record(f, b).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H15"),
    hazard(
        "H16",
        "the host waits for another stream",
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::sync(b).ok();
            p.get(0);
        },
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::sync(b).ok();
            cuda::sync(a).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H16"),
    hazard(
        "H17",
        "another thread waits for its own per-thread stream",
        |lab| per_thread_copy(lab, false),
        |lab| per_thread_copy(lab, true),
    )
    .reported_as("H01/H17"),
    hazard(
        "H22",
        "nothing waits for a host function before the context ends",
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || ());
            lab.leave_without_waiting();
        },
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || ());
            cuda::sync(s).ok();
            lab.leave_without_waiting();
        },
    ),
    hazard(
        "H33",
        "the program waits for a host function's message and calls nothing more",
        |lab| wait_for_a_message(lab, false),
        |lab| wait_for_a_message(lab, true),
    ),
];

/// Another thread copies on its per-thread stream; this thread waits for its own stream, or lets that one wait.
fn per_thread_copy(lab: &mut Lab, waits_itself: bool) {
    let (p, d, context) = (lab.pinned(1), lab.device(7), lab.context());
    let (copied, main_waits) = channel();
    let (done, thread_waits) = channel::<()>();
    let thread = thread::spawn(move || {
        cuda::bind(context).ok();
        cuda::dtoh(p, d, Stream::PER_THREAD).ok();
        if waits_itself {
            cuda::sync(Stream::PER_THREAD).ok();
        }
        copied.send(()).expect("the main thread waits");
        thread_waits.recv().expect("the main thread sends");
    });
    main_waits.recv().expect("the thread sends");
    cuda::sync(Stream::PER_THREAD).ok();
    p.get(0);
    cuda::context_sync().ok();
    done.send(()).expect("the thread waits");
    thread.join().expect("the thread does not panic");
}

/// A host function sends; the program waits for the message, after a synchronize or without one.
fn wait_for_a_message(lab: &mut Lab, waits: bool) {
    let s = lab.stream();
    let count = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = channel();
    let counted = Arc::clone(&count);
    lab.host_function(s, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        // The receiver is gone only when the program has given up.
        let _ = sender.send(());
    });
    if waits {
        cuda::sync(s).ok();
    }
    receiver
        .recv_timeout(Duration::from_secs(20))
        .expect("the host function runs, whoever waits for it");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
