//! Rules that the tests L01 to L42 do not reach.

use std::thread;

use crate::cuda::{self, Code, Mode, Stream};
use crate::lab::Lab;
use crate::litmus::{test, Litmus, ANYTHING};

/// Write-combined pinned memory.
const WRITE_COMBINED: u32 = 4;

pub const TESTS: &[Litmus] = &[
    test(
        "L43",
        "R1",
        "memset(D, 9, s); DtoHAsync(P, D, s); sync(s); r = P",
        &["9"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::fill(d, 9, s).ok();
            cuda::dtoh(p, d, s).ok();
            cuda::sync(s).ok();
            p.read()
        },
    ),
    test(
        "L44",
        "R24",
        "helper gate on s; cuMemcpyAsync(P, P9, s) from host to host; r = P right after the return",
        &["9"],
        |lab| {
            let (p, nine, s) = (lab.pinned(1), lab.pinned(9), lab.stream());
            let _gate = lab.helper_gate(s);
            cuda::htoh(p, nine, s).ok();
            p.read()
        },
    ),
    test(
        "L45",
        "R25",
        "E holds 1; helper gate on NULL; memset(D, 9, NULL); cuMemcpyDtoD(E, D); DtoHAsync(P, E, s non-blocking); sync(s); r = P",
        &["1"],
        |lab| {
            let (p, d, e, s) = (lab.pinned(0), lab.device(7), lab.device(1), lab.stream());
            let gate = lab.helper_gate(Stream::NULL);
            cuda::fill(d, 9, Stream::NULL).ok();
            cuda::dtod_sync(e, d).ok();
            lab.note_wait("cuMemcpyDtoD", &gate);
            cuda::dtoh(p, e, s).ok();
            cuda::sync(s).ok();
            p.read()
        },
    )
    .also_gated(&["1", "9", "mix"])
    .eager("9")
    .reports(&["H18"])
    .soft(),
    test(
        "L46",
        "R26",
        "G(s non-blocking); memset(D, 9, s); cuMemcpyDtoH(H, D); r = H; open",
        &["7"],
        |lab| {
            let (h, d, s) = (lab.pageable(1), lab.device(7), lab.stream());
            let gate = lab.gate(s);
            cuda::fill(d, 9, s).ok();
            cuda::dtoh_sync(h, d).ok();
            let r = h.read();
            gate.open();
            r
        },
    )
    .ungated(&["7", "9", "mix"])
    .eager("9")
    .reports(&["H18"]),
    test(
        "L47",
        "R27",
        "register ordinary memory R that holds 1; helper gate on s; DtoHAsync(R, D, s); r = R; sync(s)",
        &["1"],
        |lab| {
            let (registered, d, s) = (lab.registered(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(s);
            cuda::dtoh(registered, d, s).ok();
            lab.note_wait("cuMemcpyDtoHAsync to registered memory", &gate);
            let r = registered.read();
            cuda::sync(s).ok();
            r
        },
    )
    .also_gated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01"])
    .soft(),
    test(
        "L48",
        "R28",
        "managed memory M holds 1; DtoHAsync(M, D, s); r = M; sync(s)",
        &["1"],
        |lab| {
            let ((m, _), d, s) = (lab.managed(1), lab.device(7), lab.stream());
            cuda::dtoh(m, d, s).ok();
            let r = m.read();
            cuda::sync(s).ok();
            r
        },
    )
    .also_gated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01"]),
    test(
        "L49",
        "R29",
        "write-combined W; x = cuMemHostGetDevicePointer(W); memset(x, 5, s); sync(s); r = W",
        &["5"],
        |lab| {
            let (w, s) = (lab.pinned_with_flags(1, WRITE_COMBINED), lab.stream());
            let (code, x) = cuda::device_pointer(w);
            code.ok();
            cuda::fill(x, 5, s).ok();
            cuda::sync(s).ok();
            w.read()
        },
    )
    .reports(&["H30"]),
    test(
        "L50",
        "R35",
        "helper gate on NULL; cuMemsetD8(D, 0); DtoHAsync(P, D, s non-blocking); sync(s); r = P",
        &["7"],
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let gate = lab.helper_gate(Stream::NULL);
            cuda::clear_sync(d).ok();
            lab.note_wait("cuMemsetD8", &gate);
            cuda::dtoh(p, d, s).ok();
            cuda::sync(s).ok();
            p.read()
        },
    )
    .also_gated(&["7", "0", "mix"])
    .eager("0")
    .reports(&["H18"])
    .soft(),
    test(
        "L51",
        "R40",
        "x = cuMemAlloc; DtoHAsync(P, x, s); sync(s); r = P",
        // Not zeros: the model's pattern for what nobody has written.
        &["0xa5a5a5a5"],
        |lab| {
            let (p, x, s) = (lab.pinned(1), lab.unwritten_device(), lab.stream());
            cuda::dtoh(p, x, s).ok();
            cuda::sync(s).ok();
            p.read()
        },
    )
    .also_gated(&["0xa5a5a5a5", ANYTHING])
    .incomplete()
    .reports(&["H26"]),
    test(
        "L52",
        "R42",
        "x = AllocAsync(s), holds 7; helper gate on s; DtoHAsync(P, x, s); cuMemFree(x); did it wait?; sync(s); r = P",
        &["7"],
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::sync(s).ok();
            let gate = lab.helper_gate(s);
            cuda::dtoh(p, x, s).ok();
            cuda::free(x).ok();
            lab.forget_device(x);
            lab.note_wait("cuMemFree of stream-ordered memory", &gate);
            cuda::sync(s).ok();
            p.read()
        },
    )
    .also_gated(&["7", ANYTHING])
    .incomplete()
    .reports(&["H04"])
    .soft(),
    test(
        "L53",
        "R61",
        "begin capture(A); record e on A; wait(B, e); EndCapture(A)",
        &["904 null"],
        |lab| {
            let (a, _) = capture_of_two(lab);
            let (code, graph) = lab.abandon_capture(a);
            format!("{code} {graph}")
        },
    )
    .reports(&["H23"]),
    test(
        "L54",
        "R61",
        "begin capture(A); record e on A; wait(B, e); EndCapture(B); EndCapture(A)",
        &["903 null error"],
        |lab| {
            let (a, b) = capture_of_two(lab);
            let (code, graph) = lab.abandon_capture(b);
            let (end, _) = lab.abandon_capture(a);
            lab.note(format!("cuStreamEndCapture(A) after 903 on B: {end}"));
            format!("{code} {graph} {}", end.ok_or_error())
        },
    )
    .reports(&["H23"]),
    test(
        "L55",
        "R61",
        "begin capture(A); begin capture(B); record e on A; wait(B, e)",
        &["902"],
        |lab| {
            let (a, b, e) = (lab.stream(), lab.stream(), lab.event());
            cuda::begin_capture(a, Mode::ThreadLocal).ok();
            cuda::begin_capture(b, Mode::ThreadLocal).ok();
            cuda::record(e, a).ok();
            let code = cuda::wait(b, e);
            for stream in [a, b] {
                let (end, _) = lab.abandon_capture(stream);
                lab.note(format!("cuStreamEndCapture after 902: {end}"));
            }
            code.to_string()
        },
    )
    .reports(&["H23"]),
    test(
        "L56",
        "R61",
        "begin capture(s), not relaxed; another thread: EndCapture(s); then this thread",
        &["908 0"],
        |lab| {
            let (s, context) = (lab.stream(), lab.context());
            cuda::begin_capture(s, Mode::Global).ok();
            let elsewhere = thread::spawn(move || {
                cuda::bind(context).ok();
                cuda::end_capture(s).0
            })
            .join()
            .expect("the thread does not panic");
            let (end, _) = lab.abandon_capture(s);
            format!("{elsewhere} {end}")
        },
    )
    .also_gated(&["908 0", "908 901"])
    .incomplete()
    .reports(&["H23"]),
    test(
        "L57",
        "R63",
        "begin capture(s), global; cuMemAlloc; EndCapture",
        &["900 error null"],
        |lab| {
            let s = lab.stream();
            cuda::begin_capture(s, Mode::Global).ok();
            let (code, device) = cuda::allocate(lab.bytes);
            let (end, graph) = lab.abandon_capture(s);
            if code == Code::SUCCESS {
                cuda::free(device).ok();
            }
            format!("{code} {} {graph}", end.ok_or_error())
        },
    )
    .reports(&["H23"]),
    test(
        "L58",
        "R61",
        "begin capture(A); memset on A; record e on A; wait(B, e); DtoHAsync on B; record f on B; wait(A, f); EndCapture(A); launch; sync",
        &["9"],
        |lab| {
            let (p, d, f) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b, e) = (lab.stream(), lab.stream(), lab.event());
            cuda::begin_capture(a, Mode::ThreadLocal).ok();
            cuda::fill(d, 9, a).ok();
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::dtoh(p, d, b).ok();
            cuda::record(f, b).ok();
            cuda::wait(a, f).ok();
            let exec = lab.finish_capture(a);
            cuda::launch(exec, a).ok();
            cuda::sync(a).ok();
            p.read()
        },
    ),
];

/// A capture of A that has pulled B in and that nothing joins again.
fn capture_of_two(lab: &mut Lab) -> (Stream, Stream) {
    let (d, e) = (lab.device(7), lab.event());
    let (a, b) = (lab.stream(), lab.stream());
    cuda::begin_capture(a, Mode::ThreadLocal).ok();
    cuda::record(e, a).ok();
    cuda::wait(b, e).ok();
    cuda::fill(d, 9, b).ok();
    (a, b)
}
