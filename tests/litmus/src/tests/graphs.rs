//! Stream capture and graphs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use crate::cuda::{self, Code, Mode, Stream};
use crate::lab::Lab;
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "L34",
        "R60",
        "begin capture(s); memset(D, 0, s); end; read D; instantiate; launch; sync; read D",
        &["7 0"],
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            let exec = lab.capture(s, |_| cuda::fill(d, 0, s).ok());
            let before = lab.read(d);
            cuda::launch(exec, s).ok();
            cuda::sync(s).ok();
            format!("{before} {}", lab.read(d))
        },
    ),
    test(
        "L35",
        "R62",
        "record e on s; begin capture(s); wait(s, e); EndCapture",
        &["905 901 null"],
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::record(e, s).ok();
            cuda::begin_capture(s, Mode::Global).ok();
            let code = cuda::wait(s, e);
            let (end, graph) = lab.abandon_capture(s);
            format!("{code} {end} {graph}")
        },
    )
    .reports(&["H23"]),
    test(
        "L36",
        "R62",
        "begin capture(s); record e on s; EventQuery(e); EndCapture",
        &["907 error null"],
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::begin_capture(s, Mode::Global).ok();
            cuda::record(e, s).ok();
            let code = cuda::event_query(e);
            refused(lab, s, code)
        },
    )
    .reports(&["H23"]),
    test(
        "L37",
        "R62",
        "begin capture(s); StreamSynchronize(s); EndCapture",
        &["900 error null"],
        |lab| {
            let s = lab.stream();
            cuda::begin_capture(s, Mode::Global).ok();
            let code = cuda::sync(s);
            refused(lab, s, code)
        },
    )
    .reports(&["H23"]),
    test(
        "L38",
        "R62",
        "while a non-blocking stream captures: memset on NULL; while a blocking stream captures: memset on NULL",
        &["0 906"],
        |lab| {
            let (d, s, b) = (lab.device(7), lab.stream(), lab.blocking_stream());
            let mut codes = Vec::new();
            for stream in [s, b] {
                cuda::begin_capture(stream, Mode::Global).ok();
                codes.push(cuda::fill(d, 9, Stream::NULL));
                let (code, _) = lab.abandon_capture(stream);
                lab.note(format!("cuStreamEndCapture: {code}"));
            }
            format!("{} {}", codes[0], codes[1])
        },
    )
    .reports(&["H23"]),
    test(
        "L39",
        "R64",
        "launch one executable graph on two streams; each run increments by a host function; ctx sync",
        &["2"],
        |lab| {
            let (s, a, b) = (lab.stream(), lab.stream(), lab.stream());
            let count = Arc::new(AtomicU32::new(0));
            let running = Arc::new(AtomicBool::new(false));
            let together = Arc::new(AtomicBool::new(false));
            let body = {
                let (count, together) = (Arc::clone(&count), Arc::clone(&together));
                move || {
                    if running.swap(true, Ordering::SeqCst) {
                        together.store(true, Ordering::SeqCst);
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    running.store(false, Ordering::SeqCst);
                }
            };
            let exec = lab.capture(s, |lab| lab.host_function(s, body));
            cuda::launch(exec, a).ok();
            cuda::launch(exec, b).ok();
            cuda::context_sync().ok();
            let count = count.load(Ordering::SeqCst);
            match together.load(Ordering::SeqCst) {
                true => format!("{count} together"),
                false => count.to_string(),
            }
        },
    ),
    test(
        "L41",
        "R12, R62",
        "begin capture(s); wait(s, e never recorded); EndCapture (open question)",
        &["0 ok"],
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::begin_capture(s, Mode::Global).ok();
            let code = cuda::wait(s, e);
            let (end, _) = lab.abandon_capture(s);
            format!("{code} {}", end.ok_or_error())
        },
    )
    .also_gated(&["0 ok", "905 error"])
    .incomplete(),
    test(
        "L42",
        "R23, R62",
        "begin capture(s); HtoDAsync(D, H, s) from pageable memory; EndCapture (open question)",
        &["0 ok"],
        |lab| {
            let (h, d, s) = (lab.pageable(1), lab.device(7), lab.stream());
            cuda::begin_capture(s, Mode::Global).ok();
            let code = cuda::htod(d, h, s);
            let (end, _) = lab.abandon_capture(s);
            format!("{code} {}", end.ok_or_error())
        },
    )
    .also_gated(&["0 ok", "900 error", "906 error"])
    .incomplete(),
];

/// Ends a capture in which a call was refused; the code of the end is noted, only that it is one is documented.
fn refused(lab: &mut Lab, stream: Stream, code: Code) -> String {
    let (end, graph) = lab.abandon_capture(stream);
    lab.note(format!("cuStreamEndCapture after {code}: {end}"));
    format!("{code} {} {graph}", end.ok_or_error())
}
