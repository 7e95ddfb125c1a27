//! Results that are read, or sent on, before their copy is done.

use crate::cuda;
use crate::field::Case;
use crate::host::POISON;
use crate::lab::Lab;
use crate::litmus::Outcome;

pub const ALL: &[Case] = &[
    // ANCHOR: f01
    Case {
        id: "F01",
        title: "a result is read before its copy is done",
        source: "https://github.com/pytorch/pytorch/issues/140296",
        broken: |lab| {
            let (p, d, s) = (lab.pinned(POISON), lab.device(7), lab.stream());
            let e = lab.event();
            let gate = lab.gate(s);
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            let r = p.read();
            gate.open();
            cuda::event_sync(e).ok();
            r
        },
        wrong: "poison",
        hazards: &["H01"],
        fixed: |lab| {
            let (p, d, s) = (lab.pinned(POISON), lab.device(7), lab.stream());
            let e = lab.event();
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.read()
        },
        right: "7",
        depends_on_machine: false,
    },
    // ANCHOR_END: f01
    // ANCHOR: f03
    Case {
        id: "F03",
        title: "code that relied on the wait of a pageable copy moves to pinned memory",
        source: "https://github.com/lupinemachines/lupine/pull/631",
        broken: |lab| {
            let (q, d, s) = (lab.pinned(POISON), lab.device(7), lab.stream());
            let gate = lab.gate(s);
            cuda::dtoh(q, d, s).ok();
            let r = q.read();
            gate.open();
            cuda::sync(s).ok();
            r
        },
        wrong: "poison",
        hazards: &["H01"],
        fixed: |lab| {
            let (q, m) = (lab.pinned(POISON), lab.pageable(POISON));
            let (d, s) = (lab.device(7), lab.stream());
            cuda::dtoh(q, d, s).ok();
            cuda::dtoh(m, d, s).ok();
            cuda::sync(s).ok();
            format!("{} {}", q.read(), m.read())
        },
        right: "7 7",
        depends_on_machine: false,
    },
    // ANCHOR_END: f03
    // ANCHOR: f15
    Case {
        id: "F15",
        title: "an offload starts before the computation has finished",
        source: "https://github.com/vllm-project/vllm/issues/45704",
        broken: |lab| {
            let (p, d) = (lab.pinned(POISON), lab.device(0));
            let (c, x) = (lab.stream(), lab.stream());
            let gate = lab.gate(c);
            cuda::fill(d, 1, c).ok();
            cuda::dtoh(p, d, x).ok();
            cuda::sync(x).ok();
            let r = p.read();
            gate.open();
            r
        },
        wrong: "0",
        hazards: &["H08"],
        fixed: |lab| {
            let (p, d, e) = (lab.pinned(POISON), lab.device(0), lab.event());
            let (c, x) = (lab.stream(), lab.stream());
            cuda::fill(d, 1, c).ok();
            cuda::record(e, c).ok();
            cuda::wait(x, e).ok();
            cuda::dtoh(p, d, x).ok();
            cuda::sync(x).ok();
            p.read()
        },
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR_END: f15
    Case {
        id: "F17",
        title: "a reload reads the pinned buffer that its own offload still fills",
        source: "https://github.com/NVIDIA/Megatron-LM/issues/7398",
        broken: |lab| reload(lab, false),
        wrong: "poison",
        hazards: &["H08"],
        fixed: |lab| reload(lab, true),
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR: f18
    Case {
        id: "F18",
        title: "the transfer stream waits for \"the current stream\", which is itself",
        source: "https://github.com/huggingface/diffusers/pull/12721",
        broken: |lab| {
            let (p, d, e) = (lab.pinned(POISON), lab.device(0), lab.event());
            let (c, x) = (lab.stream(), lab.stream());
            let gate = lab.gate(c);
            cuda::fill(d, 1, c).ok();
            cuda::record(e, x).ok();
            cuda::wait(x, e).ok();
            cuda::dtoh(p, d, x).ok();
            cuda::sync(x).ok();
            let r = p.read();
            gate.open();
            r
        },
        wrong: "0",
        hazards: &["H08"],
        fixed: |lab| {
            let (p, d, e) = (lab.pinned(POISON), lab.device(0), lab.event());
            let (c, x) = (lab.stream(), lab.stream());
            cuda::fill(d, 1, c).ok();
            cuda::record(e, c).ok();
            cuda::wait(x, e).ok();
            cuda::dtoh(p, d, x).ok();
            cuda::sync(x).ok();
            p.read()
        },
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR_END: f18
];

// ANCHOR: f17
/// F17: offload D1 to P on X, reload P to D2 on C.
fn reload(lab: &mut Lab, waits: bool) -> Outcome {
    let (p, d1, d2) = (lab.pinned(POISON), lab.device(1), lab.device(0));
    let (c, x, e) = (lab.stream(), lab.stream(), lab.event());
    let gate = lab.gate(x);
    cuda::dtoh(p, d1, x).ok();
    cuda::record(e, x).ok();
    if waits {
        cuda::wait(c, e).ok();
        gate.open();
    }
    cuda::htod(d2, p, c).ok();
    cuda::sync(c).ok();
    gate.open();
    cuda::sync(x).ok();
    lab.read(d2)
}
// ANCHOR_END: f17
