//! Memory: when it exists, when it may be reused, and what a free waits for.

use crate::cuda::{self, Code};
use crate::litmus::{test, Litmus, ANYTHING};

pub const TESTS: &[Litmus] = &[
    test(
        "L29",
        "R44",
        "x = AllocAsync(s); memset(x, 7, s); DtoHAsync(P, x, s); FreeAsync(x, s); y = AllocAsync(s); memset(y, 9, s); sync(s); r = P; y = x?",
        &["7 yes"],
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::dtoh(p, x, s).ok();
            cuda::free_async(x, s).ok();
            lab.forget_device(x);
            let y = lab.device_on(s);
            cuda::fill(y, 9, s).ok();
            cuda::sync(s).ok();
            let same = if y.address == x.address { "yes" } else { "no" };
            format!("{} {same}", p.read())
        },
    )
    .also_gated(&["7 yes", "7 no"])
    .incomplete(),
    test(
        "L30",
        "R43",
        "x = AllocAsync(A); record e on A; wait(B, e); memset(x, 9, B); DtoHAsync(P, x, B); sync(B); record f on B; wait(A, f); FreeAsync(x, A); r = P",
        &["9"],
        |lab| {
            let (p, a, b) = (lab.pinned(1), lab.stream(), lab.stream());
            let (e, f) = (lab.event(), lab.event());
            let x = lab.device_on(a);
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::fill(x, 9, b).ok();
            cuda::dtoh(p, x, b).ok();
            cuda::sync(b).ok();
            cuda::record(f, b).ok();
            cuda::wait(a, f).ok();
            cuda::free_async(x, a).ok();
            lab.forget_device(x);
            p.read()
        },
    ),
    test(
        "L31",
        "R41",
        "x = cuMemAlloc, holds 7; helper gate on s; DtoHAsync(P, x, s); cuMemFree(x); did it wait?; sync(s); r = P",
        &["7"],
        |lab| {
            let (p, x, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::dtoh(p, x, s).ok();
            cuda::free(x).ok();
            lab.forget_device(x);
            lab.note_wait("cuMemFree", &gate);
            cuda::sync(s).ok();
            p.read()
        },
    )
    .also_gated(&["7", ANYTHING])
    .incomplete()
    .reports(&["H04"])
    .soft(),
    test(
        "L32",
        "R46",
        "helper gate on s; DtoHAsync(P, D, s); cuMemFreeHost(P); did it wait?",
        &["0"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::dtoh(p, d, s).ok();
            let code = cuda::free_host(p);
            if code == Code::SUCCESS {
                lab.forget_pinned(p);
            }
            lab.note_wait("cuMemFreeHost", &gate);
            code.to_string()
        },
    )
    .reports(&["H03"])
    .soft(),
    test(
        "L33",
        "R46",
        "helper gate on s; DtoHAsync(P, D, s); cuMemHostAlloc; did it wait?",
        &["0"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::dtoh(p, d, s).ok();
            let (code, host) = cuda::allocate_host(lab.bytes, 0);
            lab.note_wait("cuMemHostAlloc", &gate);
            cuda::sync(s).ok();
            if code == Code::SUCCESS {
                cuda::free_host(host).ok();
            }
            code.to_string()
        },
    )
    .reports(&["H31"])
    .soft(),
];
