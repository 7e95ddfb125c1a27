//! Mistakes from the field, each as a small program, with its repair.
//!
//! They retell public reports; the number and the address lead to the report. In the broken form the wrong value or code
//! comes out under `last`, with the hazard that explains it. In the repaired form the right one comes out under every
//! schedule, without a hazard.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;

use cudarc::driver::sys::CUdevice_attribute;

use crate::cuda::{self, Code, Mode};
use crate::host::{Host, POISON};
use crate::lab::Lab;
use crate::litmus::Outcome;
use crate::pool::{Cache, Slab};

/// A mistake and its repair.
#[derive(Clone, Copy)]
pub struct Case {
    /// F01 to F44, with a letter where a report has two forms.
    pub id: &'static str,
    /// What was reported.
    pub title: &'static str,
    /// Where.
    pub source: &'static str,
    /// The mistake.
    pub broken: fn(&mut Lab) -> Outcome,
    /// What it shows.
    pub wrong: &'static str,
    /// The ids of what the model reports about it.
    pub hazards: &'static [&'static str],
    /// The repair.
    pub fixed: fn(&mut Lab) -> Outcome,
    /// What that shows.
    pub right: &'static str,
    /// On some GPUs or drivers the broken form gets away with it, gate or not.
    pub depends_on_machine: bool,
}

/// All cases, by id.
pub const ALL: &[Case] = &[
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
    Case {
        id: "F11",
        title: "pinned memory is freed inside a host function",
        source: "https://github.com/sonots/cumo/pull/176",
        broken: |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let code = Arc::new(AtomicU32::new(0));
            let kept = Arc::clone(&code);
            lab.host_function(s, move || {
                kept.store(cuda::free_host(p).0, Ordering::SeqCst);
            });
            cuda::sync(s).ok();
            let still_pinned = cuda::host_flags(p).0;
            format!("{} {still_pinned}", code.load(Ordering::SeqCst))
        },
        wrong: "800 0",
        hazards: &["H19"],
        fixed: |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let done = Arc::new(AtomicU32::new(0));
            let told = Arc::clone(&done);
            lab.host_function(s, move || told.store(1, Ordering::SeqCst));
            cuda::sync(s).ok();
            assert_eq!(done.load(Ordering::SeqCst), 1, "the host function has run");
            let code = cuda::free_host(p);
            lab.forget_pinned(p);
            let gone = match cuda::host_flags(p).0 {
                Code::SUCCESS => "pinned",
                _ => "gone",
            };
            format!("{code} {gone}")
        },
        right: "0 gone",
        depends_on_machine: true,
    },
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
    Case {
        id: "F30",
        title: "rounding up to a power of two doubles pinned memory",
        source: "https://github.com/pytorch/pytorch/issues/150517",
        broken: |lab| pinned_for_four_requests(lab, true),
        wrong: "2048 KiB for 1040",
        hazards: &[],
        fixed: |lab| pinned_for_four_requests(lab, false),
        right: "1040 KiB for 1040",
        depends_on_machine: false,
    },
    Case {
        id: "F32",
        title: "a cache of pinned memory never gives anything back",
        source: "https://github.com/pytorch/pytorch/issues/169160",
        broken: |lab| cached_after_use(lab, None),
        wrong: "1984 KiB cached, 0 in use",
        hazards: &[],
        fixed: |lab| cached_after_use(lab, Some(1 << 20)),
        right: "960 KiB cached, 0 in use",
        depends_on_machine: false,
    },
    Case {
        id: "F34",
        title: "memory is registered twice, and the second owner unregisters it",
        source: "https://github.com/sgl-project/sglang/pull/38832",
        broken: |lab| {
            lab.context();
            let pages = Pages::new();
            // Two owners that both ignore what the driver answers.
            let codes = [
                cuda::register(pages.all(), 0),
                cuda::register(pages.all(), 0),
                cuda::unregister(pages.all()),
                cuda::unregister(pages.all()),
            ];
            join(&codes)
        },
        wrong: "0 712 0 713",
        hazards: &[],
        fixed: |lab| {
            lab.context();
            let pages = Pages::new();
            let mine = cuda::register(pages.all(), 0);
            // 712 means that the memory has an owner already, who will unregister it.
            let theirs = cuda::register(pages.all(), 0);
            join(&[mine, theirs, cuda::unregister(pages.all())])
        },
        right: "0 712 0",
        depends_on_machine: false,
    },
    Case {
        id: "F36",
        title: "a read-only file mapping is pinned without asking whether that works",
        source: "https://github.com/vllm-project/vllm-omni/pull/6240",
        broken: |lab| {
            lab.context();
            let file = Mapped::new(libc::PROT_READ);
            file.register_and_unregister(READ_ONLY)
        },
        wrong: "801",
        hazards: &[],
        fixed: |lab| {
            lab.context();
            let asked = cuda::attribute(
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
            );
            if asked == 1 {
                Mapped::new(libc::PROT_READ).register_and_unregister(READ_ONLY)
            } else {
                Mapped::new(libc::PROT_READ | libc::PROT_WRITE).register_and_unregister(0)
            }
        },
        right: "0",
        depends_on_machine: true,
    },
    Case {
        id: "F44",
        title: "a helper thread has no current context",
        source: "https://github.com/pytorch/pytorch/issues/58626",
        broken: |lab| {
            lab.context();
            let code = thread::spawn(|| {
                let (code, host) = cuda::allocate_host(4096, 0);
                if code == Code::SUCCESS {
                    cuda::free_host(host).ok();
                }
                code
            });
            code.join().expect("the thread does not panic").to_string()
        },
        wrong: "201",
        hazards: &["H25"],
        fixed: |lab| {
            let context = lab.context();
            let codes = thread::spawn(move || {
                cuda::bind(context).ok();
                let (code, host) = cuda::allocate_host(4096, 0);
                [code, cuda::free_host(host)]
            });
            join(&codes.join().expect("the thread does not panic"))
        },
        right: "0 0",
        depends_on_machine: false,
    },
];

/// The flag of cuMemHostRegister for memory that the device only reads.
const READ_ONLY: u32 = 8;

fn join(codes: &[Code]) -> String {
    let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
    codes.join(" ")
}

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

/// F30: four requests of 260 KiB.
fn pinned_for_four_requests(lab: &mut Lab, rounds_up: bool) -> Outcome {
    const REQUEST: usize = 260 << 10;
    lab.context();
    let mut cache = Cache::new(rounds_up, None);
    let blocks = [(); 4].map(|()| cache.take(REQUEST));
    let obtained = cache.obtained();
    for block in blocks {
        cache.give(block);
    }
    cache.trim();
    format!("{} KiB for {}", obtained >> 10, (4 * REQUEST) >> 10)
}

/// F32: blocks of 64 KiB to 1 MiB, each taken once and given back.
fn cached_after_use(lab: &mut Lab, cap: Option<usize>) -> Outcome {
    lab.context();
    let mut cache = Cache::new(false, cap);
    for size in 16..=20 {
        let block = cache.take(1 << size);
        cache.give(block);
    }
    let cached = cache.cached();
    cache.trim();
    assert_eq!(cache.cached(), 0, "trim gives everything back");
    format!("{} KiB cached, 0 in use", cached >> 10)
}

/// Pages of memory that nobody else uses.
struct Pages(::lab::Pageable<u32>);

impl Pages {
    fn new() -> Pages {
        let words = 4 * ::lab::page_size() / 4;
        Pages(::lab::Pageable::zeroed(words).expect("four pages of memory"))
    }

    fn all(&self) -> Host {
        Host {
            address: self.0.as_ptr() as usize,
            bytes: 4 * self.0.len(),
        }
    }
}

/// One page of a file, mapped privately.
struct Mapped {
    _file: File,
    address: *mut libc::c_void,
    bytes: usize,
}

impl Mapped {
    fn new(protection: i32) -> Mapped {
        let bytes = ::lab::page_size();
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&vec![1; bytes]).expect("one page of a file");
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED, "mapping a file");
        Mapped {
            _file: file,
            address,
            bytes,
        }
    }

    fn register_and_unregister(&self, flags: u32) -> Outcome {
        let host = Host {
            address: self.address as usize,
            bytes: self.bytes,
        };
        let code = cuda::register(host, flags);
        if code == Code::SUCCESS {
            cuda::unregister(host).ok();
        }
        code.to_string()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}
