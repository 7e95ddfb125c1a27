//! Driver threads and helper threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;

use crate::cuda::{self, Code};
use crate::field::Case;

pub const ALL: &[Case] = &[
    // ANCHOR: f11
    Case {
        id: "F11",
        title: "pinned memory is freed inside a host function",
        source: "https://github.com/sonots/cumo/pull/176",
        broken: |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let code = Arc::new(AtomicU32::new(0));
            let kept = Arc::clone(&code);
            lab.host_function(s, move || {
                kept.store(cuda::free_host(p).0, Ordering::SeqCst);
            });
            cuda::sync(s).ok();
            let still_pinned = cuda::host_flags(p).0;
            format!("{} {still_pinned}", code.load(Ordering::SeqCst))
        },
        wrong: "800 0",
        hazards: &["H19"],
        fixed: |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let done = Arc::new(AtomicU32::new(0));
            let told = Arc::clone(&done);
            lab.host_function(s, move || told.store(1, Ordering::SeqCst));
            cuda::sync(s).ok();
            assert_eq!(done.load(Ordering::SeqCst), 1, "the host function has run");
            let code = cuda::free_host(p);
            lab.forget_pinned(p);
            let gone = match cuda::host_flags(p).0 {
                Code::SUCCESS => "pinned",
                _ => "gone",
            };
            format!("{code} {gone}")
        },
        right: "0 gone",
        depends_on_machine: true,
    },
    // ANCHOR_END: f11
    // ANCHOR: f44
    Case {
        id: "F44",
        title: "a helper thread has no current context",
        source: "https://github.com/pytorch/pytorch/issues/58626",
        broken: |lab| {
            lab.context();
            let code = thread::spawn(|| {
                let (code, host) = cuda::allocate_host(4096, 0);
                if code == Code::SUCCESS {
                    cuda::free_host(host).ok();
                }
                code
            });
            code.join().expect("the thread does not panic").to_string()
        },
        wrong: "201",
        hazards: &["H25"],
        fixed: |lab| {
            let context = lab.context();
            let codes = thread::spawn(move || {
                cuda::bind(context).ok();
                let (code, host) = cuda::allocate_host(4096, 0);
                [code, cuda::free_host(host)]
            });
            cuda::codes(&codes.join().expect("the thread does not panic"))
        },
        right: "0 0",
        depends_on_machine: false,
    },
    // ANCHOR_END: f44
];
