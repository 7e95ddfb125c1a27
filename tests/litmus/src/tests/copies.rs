//! Copies between host and device: when they read, when they write.

use crate::cuda::{self, Stream};
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L01",
        "R20",
        "G(s); DtoHAsync(P, D, s); r = P; open",
        &["1"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.gate(s);
            cuda::dtoh(p, d, s).ok();
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01"]),
    test(
        "L02",
        "R7",
        "DtoHAsync(P, D, s); StreamSynchronize(s); r = P",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            cuda::sync(s).ok();
            p.read()
        },
    ),
    test(
        "L13",
        "R22",
        "G(s); HtoDAsync(D, P, s); P := 99; open; sync(s); read D",
        &["99"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.gate(s);
            cuda::htod(d, p, s).ok();
            p.set(99);
            gate.open();
            cuda::sync(s).ok();
            lab.read(d)
        },
    )
    .ungated(&["1", "99", "mix"])
    .eager("1")
    .reports(&["H02"]),
    test(
        "L14",
        "R23",
        "helper gate on s; HtoDAsync(D, H, s); H := 99 after the return; sync(s); read D",
        &["1"],
        |lab| {
            let (h, d, s) = (lab.pageable(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::htod(d, h, s).ok();
            lab.note_wait("cuMemcpyHtoDAsync from pageable memory", &gate);
            h.set(99);
            cuda::sync(s).ok();
            lab.read(d)
        },
    )
    .also_gated(&["1", "99", "mix"])
    .direct("99")
    .soft(),
    test(
        "L15",
        "R21",
        "helper gate on s; DtoHAsync(H, D, s); r = H right after the return",
        &["7"],
        |lab| {
            let (h, s) = (lab.pageable(1), lab.stream());
            let d = lab.device_on(s);
            cuda::fill(d, 7, s).ok();
            cuda::sync(s).ok();
            let gate = lab.helper_gate(s);
            cuda::dtoh(h, d, s).ok();
            lab.note_wait("cuMemcpyDtoHAsync to pageable memory", &gate);
            // A wait after the read would cover the copy, and the model could not tell that it came too late.
            lab.leave_without_waiting();
            h.read()
        },
    )
    .also_gated(&["1", "7", "mix"])
    .direct("1")
    .reports(&["H11"])
    .soft(),
    test(
        "L16",
        "R23",
        "host function on s sets H := 5; HtoDAsync(D, H, s); sync(s); read D",
        &["1"],
        |lab| {
            let (h, d, s) = (lab.pageable(1), lab.device(7), lab.stream());
            lab.host_function(s, move || h.set(5));
            cuda::htod(d, h, s).ok();
            cuda::sync(s).ok();
            lab.read(d)
        },
    )
    .also_gated(&["1", "5", "mix"])
    // A host function runs at one moment of the model, never beside the staging of a copy.
    .incomplete()
    .direct("5")
    .eager("5")
    .reports(&["H12"])
    .soft(),
    test(
        "L17",
        "R22, R55",
        "host function on s sets P := 5; HtoDAsync(D, P, s); sync(s); read D",
        &["5"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            lab.host_function(s, move || p.set(5));
            cuda::htod(d, p, s).ok();
            cuda::sync(s).ok();
            lab.read(d)
        },
    ),
    test(
        "L18",
        "R1, R22",
        "DtoHAsync(P, A, s); HtoDAsync(B, P, s); sync(s); read B",
        &["7"],
        |lab| {
            let (p, a, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let b = lab.device(0);
            cuda::dtoh(p, a, s).ok();
            cuda::htod(b, p, s).ok();
            cuda::sync(s).ok();
            lab.read(b)
        },
    ),
    test(
        "L19",
        "R4",
        "G(s non-blocking); memset(D, 9, s); DtoHAsync(P, D, NULL); sync(NULL); r = P; open",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.gate(s);
            cuda::fill(d, 9, s).ok();
            cuda::dtoh(p, d, Stream::NULL).ok();
            cuda::sync(Stream::NULL).ok();
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["7", "9", "mix"])
    .eager("9")
    .reports(&["H18"]),
];
