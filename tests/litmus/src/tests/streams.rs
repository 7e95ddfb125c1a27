//! Streams: what is ordered with what.

use std::sync::mpsc::channel;
use std::thread;

use crate::cuda::{self, Stream};
use crate::lab::Lab;
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L08",
        "R2",
        "G(A); HtoDAsync(D, P9, A); DtoHAsync(P, D, B); sync(B); r = P; open",
        &["7"],
        |lab| {
            let (p, nine, d) = (lab.pinned(1), lab.pinned(9), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            let gate = lab.gate(a);
            cuda::htod(d, nine, a).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["7", "9", "mix"])
    .eager("9")
    .reports(&["H08"]),
    test(
        "L10",
        "R2",
        "G(B); DtoHAsync(P, D, B); HtoDAsync(D, P9, A); sync(A); open; sync(B); r = P",
        &["9"],
        |lab| {
            let (p, nine, d) = (lab.pinned(1), lab.pinned(9), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            let gate = lab.gate(b);
            cuda::dtoh(p, d, b).ok();
            cuda::htod(d, nine, a).ok();
            cuda::sync(a).ok();
            gate.open();
            cuda::sync(b).ok();
            p.read()
        },
    )
    .ungated(&["7", "9", "mix"])
    .eager("7")
    .reports(&["H09"]),
    test(
        "L11",
        "R13",
        "L10 with record e on B and wait(A, e) before the HtoD; a helper opens the gate",
        &["7"],
        |lab| {
            let (p, nine, d, e) = (lab.pinned(1), lab.pinned(9), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            let _gate = lab.helper_gate(b);
            cuda::dtoh(p, d, b).ok();
            cuda::record(e, b).ok();
            cuda::wait(a, e).ok();
            cuda::htod(d, nine, a).ok();
            cuda::sync(a).ok();
            cuda::sync(b).ok();
            p.read()
        },
    ),
    test(
        "L12",
        "R2",
        "G(A); memset(D, 5, A); memset(D, 6, B); sync(B); open; ctx sync; read D",
        &["5"],
        |lab| {
            let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
            let gate = lab.gate(a);
            cuda::fill(d, 5, a).ok();
            cuda::fill(d, 6, b).ok();
            cuda::sync(b).ok();
            gate.open();
            cuda::context_sync().ok();
            lab.read(d)
        },
    )
    .ungated(&["5", "6", "mix"])
    .eager("6")
    .reports(&["H10"]),
    test(
        "L20",
        "R3",
        "helper gate on a blocking stream s; memset(D, 9, s); DtoHAsync(P, D, NULL); sync(NULL); r = P",
        &["9"],
        |lab| {
            let s = lab.blocking_stream();
            before_the_default_stream(lab, s)
        },
    ),
    test(
        "L21",
        "R5",
        "L20 with s = 0x2, the per-thread default stream",
        &["9"],
        |lab| {
            lab.context();
            before_the_default_stream(lab, Stream::PER_THREAD)
        },
    ),
    test(
        "L22",
        "R5",
        "thread 1: G(0x2); DtoHAsync(P, D, 0x2). Main thread: StreamSynchronize(0x2) returns while closed; r = P; open",
        &["1"],
        |lab| {
            let (p, d, context) = (lab.pinned(1), lab.device(7), lab.context());
            let gate = lab.unqueued_gate();
            let (queued, main_waits) = channel();
            let (done, thread_waits) = channel();
            let thread = thread::spawn({
                let gate = gate.clone();
                move || {
                    cuda::bind(context).ok();
                    let held = gate.queue(Stream::PER_THREAD);
                    cuda::dtoh(p, d, Stream::PER_THREAD).ok();
                    queued.send(()).expect("the main thread waits");
                    thread_waits.recv().expect("the main thread sends");
                    cuda::sync(Stream::PER_THREAD).ok();
                    drop(held);
                }
            });
            main_waits.recv().expect("the thread sends");
            cuda::sync(Stream::PER_THREAD).ok();
            gate.still_shut_after("cuStreamSynchronize of the main thread's stream");
            let r = p.read();
            gate.open();
            done.send(()).expect("the thread waits");
            thread.join().expect("the thread does not panic");
            r
        },
    )
    .ungated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01/H17"]),
    test(
        "L23",
        "R8",
        "DtoHAsync on two non-blocking streams; CtxSynchronize; both read",
        &["7 7"],
        |lab| {
            let (p, q, d) = (lab.pinned(1), lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::dtoh(q, d, b).ok();
            cuda::context_sync().ok();
            format!("{} {}", p.read(), q.read())
        },
    ),
    test(
        "L24",
        "R6",
        "helper gate on s; DtoHAsync(P, D, s); StreamDestroy(s); CtxSynchronize; r = P",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::dtoh(p, d, s).ok();
            cuda::destroy_stream(s).ok();
            lab.forget_stream(s);
            lab.note_wait("cuStreamDestroy", &gate);
            cuda::context_sync().ok();
            p.read()
        },
    )
    .soft(),
];

/// A memset on `s`, then a copy on the legacy default stream: does the copy see it?
fn before_the_default_stream(lab: &mut Lab, s: Stream) -> String {
    let (p, d) = (lab.pinned(1), lab.device(7));
    let _gate = lab.helper_gate(s);
    cuda::fill(d, 9, s).ok();
    cuda::dtoh(p, d, Stream::NULL).ok();
    cuda::sync(Stream::NULL).ok();
    p.read()
}
