//! Device memory that is used again too early, and events that cover the wrong work.

use crate::cuda;
use crate::field::Case;
use crate::host::POISON;
use crate::lab::Lab;
use crate::litmus::Outcome;

pub const ALL: &[Case] = &[
    Case {
        id: "F12",
        title: "a device buffer is reused before another stream has read it",
        source: "https://github.com/meta-pytorch/torchtune/issues/1867",
        broken: |lab| reuse_after_offload(lab, false),
        wrong: "9",
        hazards: &["H09"],
        fixed: |lab| reuse_after_offload(lab, true),
        right: "1",
        depends_on_machine: false,
    },
    Case {
        id: "F13",
        title: "the same through a stream-ordered allocator",
        source: "https://github.com/NVIDIA/nvalchemi-toolkit/issues/171",
        broken: |lab| free_after_offload(lab, false),
        wrong: "9",
        hazards: &["H05", "H09"],
        fixed: |lab| free_after_offload(lab, true),
        right: "1",
        depends_on_machine: true,
    },
    Case {
        id: "F19",
        title: "the event is recorded after the first use and not after the last",
        source: "https://github.com/Nerogar/OneTrainer/issues/1306",
        broken: |lab| two_uses(lab, false),
        wrong: "9",
        hazards: &["H09"],
        fixed: |lab| two_uses(lab, true),
        right: "1",
        depends_on_machine: false,
    },
    Case {
        id: "F21a",
        title: "one event for successive steps: a waiter sees the later step",
        source: "https://github.com/vllm-project/vllm/pull/39115",
        broken: |lab| successive_steps(lab, false),
        wrong: "600",
        // A late answer, and nothing that is read too early.
        hazards: &[],
        fixed: |lab| successive_steps(lab, true),
        right: "0",
        depends_on_machine: false,
    },
    Case {
        id: "F21b",
        title: "one event recorded on two streams: only the last counts",
        source: "https://github.com/vllm-project/vllm/pull/39115",
        broken: |lab| join_two(lab, false),
        wrong: "0",
        hazards: &["H08"],
        fixed: |lab| join_two(lab, true),
        right: "1",
        depends_on_machine: false,
    },
];

// ANCHOR: f12
/// F12: compute on C, offload on X, compute into the same buffer on C.
fn reuse_after_offload(lab: &mut Lab, waits: bool) -> Outcome {
    let (p, d) = (lab.pinned(POISON), lab.device(0));
    let (c, x) = (lab.stream(), lab.stream());
    let (computed, copied) = (lab.event(), lab.event());
    cuda::fill(d, 1, c).ok();
    cuda::record(computed, c).ok();
    cuda::wait(x, computed).ok();
    let gate = lab.gate(x);
    cuda::dtoh(p, d, x).ok();
    if waits {
        cuda::record(copied, x).ok();
        cuda::wait(c, copied).ok();
        gate.open();
    }
    cuda::fill(d, 9, c).ok();
    cuda::sync(c).ok();
    gate.open();
    cuda::sync(x).ok();
    p.read()
}
// ANCHOR_END: f12

// ANCHOR: f13
/// F13: as F12, with memory that C frees and allocates in its own order.
fn free_after_offload(lab: &mut Lab, waits: bool) -> Outcome {
    let (p, c, x) = (lab.pinned(POISON), lab.stream(), lab.stream());
    let (computed, copied) = (lab.event(), lab.event());
    let d = lab.device_on(c);
    cuda::fill(d, 1, c).ok();
    cuda::record(computed, c).ok();
    cuda::wait(x, computed).ok();
    cuda::sync(c).ok();
    let gate = lab.gate(x);
    cuda::dtoh(p, d, x).ok();
    if waits {
        cuda::record(copied, x).ok();
        cuda::wait(c, copied).ok();
        gate.open();
    }
    cuda::free_async(d, c).ok();
    lab.forget_device(d);
    let next = lab.device_on(c);
    if next.address != d.address {
        lab.note("the block was not handed out again");
    }
    cuda::fill(next, 9, c).ok();
    cuda::sync(c).ok();
    gate.open();
    cuda::sync(x).ok();
    p.read()
}
// ANCHOR_END: f13

// ANCHOR: f19
/// F19: C uses W twice; X overwrites it after an event.
fn two_uses(lab: &mut Lab, records_again: bool) -> Outcome {
    let (w, forward, backward) = (lab.device(1), lab.pinned(POISON), lab.pinned(POISON));
    let (c, x, e) = (lab.stream(), lab.stream(), lab.event());
    cuda::dtoh(forward, w, c).ok();
    cuda::record(e, c).ok();
    let gate = lab.gate(c);
    cuda::dtoh(backward, w, c).ok();
    if records_again {
        cuda::record(e, c).ok();
        gate.open();
    }
    cuda::wait(x, e).ok();
    cuda::fill(w, 9, x).ok();
    cuda::sync(x).ok();
    gate.open();
    cuda::sync(c).ok();
    backward.read()
}
// ANCHOR_END: f19

// ANCHOR: f21a
/// F21: two steps of one stream; then: is the first one done?
fn successive_steps(lab: &mut Lab, one_event_each: bool) -> Outcome {
    let (p, q, d, s) = (
        lab.pinned(POISON),
        lab.pinned(POISON),
        lab.device(7),
        lab.stream(),
    );
    let first = lab.event();
    let second = if one_event_each { lab.event() } else { first };
    cuda::dtoh(p, d, s).ok();
    cuda::record(first, s).ok();
    cuda::sync(s).ok();
    let gate = lab.gate(s);
    cuda::dtoh(q, d, s).ok();
    cuda::record(second, s).ok();
    let code = cuda::event_query(first);
    gate.open();
    cuda::sync(s).ok();
    code.to_string()
}
// ANCHOR_END: f21a

// ANCHOR: f21b
/// F21: X joins two streams through events, then copies what the first wrote.
fn join_two(lab: &mut Lab, one_event_each: bool) -> Outcome {
    let (p, d1, d2) = (lab.pinned(POISON), lab.device(0), lab.device(0));
    let (c, s, x) = (lab.stream(), lab.stream(), lab.stream());
    let first = lab.event();
    let second = if one_event_each { lab.event() } else { first };
    let gate = lab.gate(c);
    cuda::fill(d1, 1, c).ok();
    cuda::record(first, c).ok();
    cuda::fill(d2, 2, s).ok();
    cuda::record(second, s).ok();
    cuda::wait(x, first).ok();
    if one_event_each {
        cuda::wait(x, second).ok();
        gate.open();
    }
    cuda::dtoh(p, d1, x).ok();
    cuda::sync(x).ok();
    let r = p.read();
    gate.open();
    r
}
// ANCHOR_END: f21b
