//! Events: what they cover, and for how long.

use crate::cuda::{self, Code};
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L03",
        "R14",
        "DtoHAsync(P, D, s); record e; EventSynchronize(e); r = P",
        &["7"],
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.read()
        },
    ),
    test(
        "L04",
        "R10",
        "record e on s; G(s); DtoHAsync(P, D, s); EventSynchronize(e); r = P; open",
        &["1"],
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::record(e, s).ok();
            let gate = lab.gate(s);
            cuda::dtoh(p, d, s).ok();
            cuda::event_sync(e).ok();
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01/H14"]),
    test(
        "L05",
        "R12",
        "G(s); DtoHAsync(P, D, s); EventQuery and EventSynchronize of a fresh event; r = P; open",
        &["0 0 1"],
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            let gate = lab.gate(s);
            cuda::dtoh(p, d, s).ok();
            let codes = [cuda::event_query(e), cuda::event_sync(e)];
            let r = p.read();
            gate.open();
            format!("{} {} {r}", codes[0], codes[1])
        },
    )
    .ungated(&["0 0 1", "0 0 7", "0 0 mix"])
    .eager("0 0 7")
    .reports(&["H01/H13"]),
    test(
        "L06",
        "R11",
        "record e on A; wait(B, e); G(A); memset(D2) on A; record e on A; DtoHAsync(P, D, B); sync(B) returns while closed; r = P; open",
        &["7"],
        |lab| {
            let (p, d, d2, e) = (lab.pinned(1), lab.device(7), lab.device(0), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            let gate = lab.gate(a);
            cuda::fill(d2, 5, a).ok();
            cuda::record(e, a).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            gate.still_shut_after("cuStreamSynchronize(B)");
            let r = p.read();
            gate.open();
            r
        },
    ),
    test(
        "L07",
        "R13",
        "wait(B, e fresh); G(A); HtoDAsync(D, P9, A); record e on A; DtoHAsync(P, D, B); sync(B); r = P; open",
        &["7"],
        |lab| {
            let (p, nine, d, e) = (lab.pinned(1), lab.pinned(9), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::wait(b, e).ok();
            let gate = lab.gate(a);
            cuda::htod(d, nine, a).ok();
            cuda::record(e, a).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["7", "9", "mix"])
    .eager("9")
    .reports(&["H08/H13"]),
    test(
        "L09",
        "R13",
        "HtoDAsync(D, P9, A); record e on A; wait(B, e); DtoHAsync(P, D, B); sync(B); r = P",
        &["9"],
        |lab| {
            let (p, nine, d, e) = (lab.pinned(1), lab.pinned(9), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::htod(d, nine, a).ok();
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            p.read()
        },
    ),
    test(
        "L25",
        "R15",
        "helper gate on A; HtoDAsync(D, P9, A); record e on A; wait(B, e); EventDestroy(e); DtoHAsync(P, D, B); sync(B); r = P",
        &["9"],
        |lab| {
            let (p, nine, d, e) = (lab.pinned(1), lab.pinned(9), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            let _gate = lab.helper_gate(a);
            cuda::htod(d, nine, a).ok();
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::destroy_event(e).ok();
            lab.forget_event(e);
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            p.read()
        },
    ),
    test(
        "L28",
        "R9, R17",
        "G(s); DtoHAsync(P, D, s); record e; EventQuery(e) = 600; open; EventQuery(e) until 0; r = P",
        &["7"],
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            let gate = lab.gate(s);
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            let first = cuda::event_query(e);
            if gate.has_opened() == Some(false) {
                assert_eq!(first, Code::NOT_READY, "the first query, behind a gate");
            }
            gate.open();
            loop {
                match cuda::event_query(e) {
                    Code::NOT_READY => continue,
                    code => break code.ok(),
                }
            }
            p.read()
        },
    ),
];
