//! Captures, and what a graph remembers.

use crate::cuda::{self, Mode};
use crate::field::Case;
use crate::host::Host;
use crate::lab::Lab;
use crate::litmus::Outcome;

pub const ALL: &[Case] = &[
    Case {
        id: "F25",
        title: "a captured upload reads its host address again at every launch",
        source: "https://github.com/microsoft/onnxruntime/pull/32121",
        broken: |lab| {
            let p = lab.pinned(1);
            relaunch(lab, p, |_| p)
        },
        wrong: "1 2",
        // Feeding a graph through a buffer is also how it is meant to be used: the model cannot know which it is.
        hazards: &[],
        fixed: |lab| {
            let p = lab.pinned(1);
            relaunch(lab, p, |lab| lab.pinned(0))
        },
        right: "1 1",
        depends_on_machine: false,
    },
    Case {
        id: "F26",
        title: "Rust: a temporary vector is captured into a graph",
        source: "https://github.com/huggingface/candle/pull/3352",
        broken: |lab| {
            let m = lab.pageable(1);
            relaunch(lab, m, |_| m)
        },
        wrong: "1 2",
        hazards: &[],
        fixed: |lab| {
            let m = lab.pageable(1);
            relaunch(lab, m, |lab| lab.pageable(0))
        },
        right: "1 1",
        depends_on_machine: false,
    },
    // ANCHOR: f27a
    Case {
        id: "F27a",
        title: "an event is polled during a capture",
        source: "https://github.com/pytorch/pytorch/pull/146924",
        broken: |lab| {
            let (d, s, x, e) = (lab.device(0), lab.stream(), lab.stream(), lab.event());
            cuda::record(e, x).ok();
            cuda::sync(x).ok();
            cuda::begin_capture(s, Mode::Global).ok();
            cuda::fill(d, 1, s).ok();
            let polled = cuda::event_query(e);
            let (end, _) = lab.abandon_capture(s);
            format!("{polled} {end}")
        },
        wrong: "900 901",
        hazards: &["H23"],
        fixed: |lab| {
            let (d, s, x, e) = (lab.device(0), lab.stream(), lab.stream(), lab.event());
            cuda::record(e, x).ok();
            cuda::sync(x).ok();
            let polled = cuda::event_query(e);
            cuda::begin_capture(s, Mode::Global).ok();
            cuda::fill(d, 1, s).ok();
            let (end, _) = lab.abandon_capture(s);
            format!("{polled} {end}")
        },
        right: "0 0",
        depends_on_machine: false,
    },
    // ANCHOR_END: f27a
    Case {
        id: "F27b",
        title: "a tracking event was recorded in a capture whose graph is gone",
        source: "https://github.com/chelsea0x3b/cudarc/issues/590",
        broken: |lab| wait_for_captured_event(lab, false),
        wrong: "1",
        hazards: &["H23"],
        fixed: |lab| wait_for_captured_event(lab, true),
        right: "0",
        depends_on_machine: true,
    },
];

// ANCHOR: f25
/// F25, F26: a graph uploads `source`; between two launches the next request fills a buffer.
fn relaunch(lab: &mut Lab, source: Host, next: impl FnOnce(&mut Lab) -> Host) -> Outcome {
    let (d, s) = (lab.device(0), lab.stream());
    let exec = lab.capture(s, |_| cuda::htod(d, source, s).ok());
    cuda::launch(exec, s).ok();
    cuda::sync(s).ok();
    let first = lab.read(d);
    next(lab).set(2);
    cuda::launch(exec, s).ok();
    cuda::sync(s).ok();
    format!("{first} {}", lab.read(d))
}
// ANCHOR_END: f25

// ANCHOR: f27b
/// F27: an event is recorded inside a capture, and its graph is destroyed; then a stream waits for it.
fn wait_for_captured_event(lab: &mut Lab, records_again: bool) -> Outcome {
    let (d, s, x, e) = (lab.device(0), lab.stream(), lab.stream(), lab.event());
    cuda::begin_capture(s, Mode::ThreadLocal).ok();
    cuda::fill(d, 1, s).ok();
    cuda::record(e, s).ok();
    let (code, graph) = cuda::end_capture(s);
    code.ok();
    cuda::destroy_graph(graph).ok();
    if records_again {
        cuda::record(e, s).ok();
    }
    cuda::wait(x, e).to_string()
}
// ANCHOR_END: f27b
