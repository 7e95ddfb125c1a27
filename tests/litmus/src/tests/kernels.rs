//! Kernels: ordered like everything else.

use crate::cuda;
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L59",
        "R2",
        "G(A); kernel D := 9 on A; DtoHAsync(P, D, B); sync(B); r = P; open",
        &["7"],
        |lab| {
            let (p, d, a, b) = (lab.pinned(1), lab.device(7), lab.stream(), lab.stream());
            lab.kernel("fill_pattern");
            let gate = lab.gate(a);
            lab.fill_by_kernel(d, 9, a);
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
        "L60",
        "R13",
        "kernel D := 9 on A; record e on A; wait(B, e); DtoHAsync(P, D, B); sync(B); r = P",
        &["9"],
        |lab| {
            let (p, d, e) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            lab.fill_by_kernel(d, 9, a);
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::sync(b).ok();
            p.read()
        },
    ),
    test(
        "L61",
        "R2",
        "G(A); kernel D := 5 on A; kernel D := 6 on B; sync(B); open; context sync; read D",
        &["5"],
        |lab| {
            let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
            lab.kernel("fill_pattern");
            let gate = lab.gate(a);
            lab.fill_by_kernel(d, 5, a);
            lab.fill_by_kernel(d, 6, b);
            cuda::sync(b).ok();
            gate.open();
            lab.read(d)
        },
    )
    .ungated(&["5", "6", "mix"])
    .incomplete()
    .eager("6")
    .reports(&["H10"]),
    test(
        "L62",
        "R20",
        "G(s); kernel P := 9 on s, P mapped; r = P; open",
        &["1"],
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let mapped = lab.mapped(p);
            lab.kernel("fill_pattern");
            let gate = lab.gate(s);
            lab.fill_by_kernel(mapped, 9, s);
            let r = p.read();
            gate.open();
            r
        },
    )
    .ungated(&["1", "9", "mix"])
    .incomplete()
    .eager("9")
    .reports(&["H01"]),
    test(
        "L63",
        "R7",
        "kernel P := 9 on s, P mapped; sync(s); r = P",
        &["9"],
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let mapped = lab.mapped(p);
            lab.fill_by_kernel(mapped, 9, s);
            cuda::sync(s).ok();
            p.read()
        },
    ),
];
