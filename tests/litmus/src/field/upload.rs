//! Sources that change under their own upload.

use crate::cuda;
use crate::field::Case;
use crate::lab::Lab;
use crate::litmus::Outcome;
use crate::pool::Slab;

pub const ALL: &[Case] = &[
    // ANCHOR: f05
    Case {
        id: "F05",
        title: "a pinned source is refilled under its own upload",
        source: "https://github.com/NVIDIA/TensorRT-LLM/pull/15546",
        broken: |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(0), lab.stream(), lab.event());
            let gate = lab.gate(s);
            cuda::htod(d, p, s).ok();
            cuda::record(e, s).ok();
            p.set(2);
            gate.open();
            cuda::sync(s).ok();
            lab.read(d)
        },
        wrong: "2",
        hazards: &["H02"],
        fixed: |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(0), lab.stream(), lab.event());
            cuda::htod(d, p, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.set(2);
            lab.read(d)
        },
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR_END: f05
    Case {
        id: "F07",
        title: "a staging block goes back to its pool before the copy has read it",
        source: "https://github.com/NVIDIA/cudf/issues/22284",
        broken: |lab| pooled_upload(lab, false),
        wrong: "2",
        hazards: &["H02"],
        fixed: |lab| pooled_upload(lab, true),
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR: f08
    Case {
        id: "F08",
        title: "a copy through a raw pointer is invisible to the allocator",
        source: "https://github.com/LMCache/LMCache/pull/4830",
        broken: |lab| {
            let (d, s) = (lab.device(0), lab.stream());
            let mut slab = Slab::new(lab);
            let block = slab.take();
            block.set(1);
            let gate = lab.gate(s);
            cuda::htod(d.part(0, block.bytes), block, s).ok();
            slab.give(block, None);
            slab.take().set(2);
            gate.open();
            cuda::sync(s).ok();
            lab.read(d.part(0, block.bytes))
        },
        wrong: "2",
        hazards: &["H02"],
        fixed: |lab| {
            let (d, s) = (lab.device(0), lab.stream());
            let mut slab = Slab::new(lab);
            let block = slab.take();
            block.set(1);
            cuda::htod(d.part(0, block.bytes), block, s).ok();
            // The temporary ends here, so this is the last place to wait.
            cuda::sync(s).ok();
            slab.give(block, None);
            slab.take().set(2);
            lab.read(d.part(0, block.bytes))
        },
        right: "1",
        depends_on_machine: false,
    },
    // ANCHOR_END: f08
    Case {
        id: "F09",
        title: "Rust: an asynchronous copy does not hold the borrow of its source",
        source: "https://github.com/chelsea0x3b/cudarc/issues/340",
        broken: |lab| {
            let words = lab.words();
            bump_after_upload(lab, words, false)
        },
        wrong: "2",
        hazards: &["H02"],
        fixed: |lab| {
            let words = lab.words();
            let seen: Vec<String> = [10, words / 2, words]
                .map(|n| bump_after_upload(lab, n, true))
                .to_vec();
            seen.join(" ")
        },
        right: "1 1 1",
        depends_on_machine: false,
    },
];

// ANCHOR: f07
/// F07: fill a block, upload it, give it back; then the next user fills a block.
fn pooled_upload(lab: &mut Lab, with_event: bool) -> Outcome {
    let (d, s, e) = (lab.device(0), lab.stream(), lab.event());
    let mut slab = Slab::new(lab);
    let block = slab.take();
    block.set(1);
    let gate = lab.gate(s);
    cuda::htod(d.part(0, block.bytes), block, s).ok();
    if with_event {
        cuda::record(e, s).ok();
    }
    slab.give(block, with_event.then_some(e));
    slab.take().set(2);
    gate.open();
    cuda::sync(s).ok();
    lab.read(d.part(0, block.bytes))
}
// ANCHOR_END: f07

// ANCHOR: f09
/// F09: upload `n` words of 1, add 1 to the last of them, and see which value the device has.
fn bump_after_upload(lab: &mut Lab, n: usize, waits: bool) -> Outcome {
    let (d, s, e) = (lab.device(0), lab.stream(), lab.event());
    let p = lab.pinned(1).part(0, n);
    let gate = lab.gate(s);
    cuda::htod(d, p, s).ok();
    if waits {
        cuda::record(e, s).ok();
        gate.open();
        cuda::event_sync(e).ok();
    }
    p.put(n - 1, p.get(n - 1) + 1);
    gate.open();
    cuda::sync(s).ok();
    lab.read(d.part(4 * (n - 1), 4))
}
// ANCHOR_END: f09
