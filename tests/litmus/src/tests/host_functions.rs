//! Host functions: what they see, and that they run at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

use crate::cuda;
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L26",
        "R56",
        "DtoHAsync(P, D, s); host function on s keeps P[0]; sync(s); r = what it kept",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let kept = Arc::new(AtomicU32::new(0));
            cuda::dtoh(p, d, s).ok();
            let keep = Arc::clone(&kept);
            lab.host_function(s, move || keep.store(p.get(0), Ordering::SeqCst));
            cuda::sync(s).ok();
            kept.load(Ordering::SeqCst).to_string()
        },
    ),
    test(
        "L27",
        "R9",
        "DtoHAsync(P, D, s); host function on s sends on a channel; the program waits for the message and calls nothing; r = P",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let (sender, receiver) = channel();
            cuda::dtoh(p, d, s).ok();
            lab.host_function(s, move || {
                // The receiver is gone only when the program has given up.
                let _ = sender.send(());
            });
            match receiver.recv_timeout(Duration::from_secs(20)) {
                Ok(()) => p.read(),
                Err(_) => "no message".into(),
            }
        },
    )
    .reports(&["H33"]),
];
