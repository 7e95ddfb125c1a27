//! For each hazard of the model the smallest program that has it, and a twin that has none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use crate::cuda::{self, Code, Context, Mode, Stream};
use crate::host::Host;
use crate::lab::Lab;

/// A hazard, a program that has it, and one that has none.
#[derive(Clone, Copy)]
pub struct Hazard {
    /// H01 to H33.
    pub id: &'static str,
    /// The whole report list of the broken program.
    pub report: &'static str,
    /// What the broken program does wrong.
    pub mistake: &'static str,
    /// The program that has it.
    pub broken: fn(&mut Lab),
    /// The same without the mistake.
    pub twin: fn(&mut Lab),
    /// More settings of the model for the broken program.
    pub settings: &'static str,
    /// The mistake may end the process, so the broken program runs in one of its own.
    pub may_die: bool,
}

const fn hazard(
    id: &'static str,
    mistake: &'static str,
    broken: fn(&mut Lab),
    twin: fn(&mut Lab),
) -> Hazard {
    Hazard {
        id,
        report: id,
        mistake,
        broken,
        twin,
        settings: "",
        may_die: false,
    }
}

impl Hazard {
    /// The race that the useless wait explains.
    const fn reported_as(mut self, report: &'static str) -> Hazard {
        self.report = report;
        self
    }

    const fn with(mut self, settings: &'static str) -> Hazard {
        self.settings = settings;
        self
    }

    const fn may_die(mut self) -> Hazard {
        self.may_die = true;
        self
    }
}

/// All hazards, by id.
pub const ALL: &[Hazard] = &[
    hazard(
        "H01",
        "the host reads pinned memory under a pending copy",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            p.get(0);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            cuda::sync(s).ok();
            p.get(0);
        },
    ),
    hazard(
        "H02",
        "the host refills pinned memory that a pending copy reads",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::htod(d, p, s).ok();
            p.put(0, 99);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::htod(d, p, s).ok();
            cuda::sync(s).ok();
            p.put(0, 99);
        },
    ),
    hazard(
        "H03",
        "pinned memory is freed under a pending copy",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::htod(d, p, s).ok();
            cuda::free_host(p).ok();
            lab.forget_pinned(p);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::htod(d, p, s).ok();
            cuda::sync(s).ok();
            cuda::free_host(p).ok();
            lab.forget_pinned(p);
        },
    ),
    hazard(
        "H04",
        "device memory is freed under a pending copy",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            cuda::free(d).ok();
            lab.forget_device(d);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            cuda::sync(s).ok();
            cuda::free(d).ok();
            lab.forget_device(d);
        },
    ),
    hazard(
        "H05",
        "a stream frees what another stream still reads",
        |lab| free_async_after_use_elsewhere(lab, false),
        |lab| free_async_after_use_elsewhere(lab, true),
    ),
    hazard(
        "H06",
        "a stream reads what it has freed",
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::free_async(x, s).ok();
            lab.forget_device(x);
            let _ = cuda::dtoh(p, x, s);
        },
        |lab| {
            let (p, s) = (lab.pinned(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::dtoh(p, x, s).ok();
            cuda::free_async(x, s).ok();
            lab.forget_device(x);
        },
    ),
    hazard(
        "H07",
        "a stream uses what another stream has not allocated yet",
        |lab| {
            let (a, b) = (lab.stream(), lab.stream());
            let x = lab.device_on(a);
            cuda::fill(x, 9, b).ok();
        },
        |lab| {
            let (a, b, e) = (lab.stream(), lab.stream(), lab.event());
            let x = lab.device_on(a);
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::fill(x, 9, b).ok();
        },
    ),
    hazard(
        "H08",
        "a stream reads what another stream writes",
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::fill(d, 9, a).ok();
            cuda::dtoh(p, d, b).ok();
        },
        |lab| {
            let (p, d, e) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::fill(d, 9, a).ok();
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::dtoh(p, d, b).ok();
        },
    ),
    hazard(
        "H09",
        "a stream overwrites what another stream reads",
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, b).ok();
            cuda::fill(d, 9, a).ok();
        },
        |lab| {
            let (p, d, e) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, b).ok();
            cuda::record(e, b).ok();
            cuda::wait(a, e).ok();
            cuda::fill(d, 9, a).ok();
        },
    ),
    hazard(
        "H10",
        "two streams write the same memory",
        |lab| {
            let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
            cuda::fill(d, 5, a).ok();
            cuda::fill(d, 6, b).ok();
        },
        |lab| {
            let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
            let e = lab.event();
            cuda::fill(d, 5, a).ok();
            cuda::record(e, a).ok();
            cuda::wait(b, e).ok();
            cuda::fill(d, 6, b).ok();
        },
    ),
    hazard(
        "H11",
        "nothing waits for a copy to pageable memory",
        |lab| {
            let (h, s) = (lab.pageable(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::dtoh(h, x, s).ok();
            lab.leave_without_waiting();
        },
        |lab| {
            let (h, s) = (lab.pageable(1), lab.stream());
            let x = lab.device_on(s);
            cuda::fill(x, 7, s).ok();
            cuda::dtoh(h, x, s).ok();
            cuda::sync(s).ok();
            lab.leave_without_waiting();
        },
    ),
    hazard(
        "H12",
        "a copy from pageable memory relies on an earlier one of its stream to fill it",
        |lab| {
            let (h, a, b) = (lab.pageable(1), lab.device(7), lab.device(0));
            let s = lab.stream();
            cuda::dtoh(h, a, s).ok();
            cuda::htod(b, h, s).ok();
        },
        |lab| {
            let (h, a, b) = (lab.pageable(1), lab.device(7), lab.device(0));
            let s = lab.stream();
            cuda::dtoh(h, a, s).ok();
            cuda::sync(s).ok();
            cuda::htod(b, h, s).ok();
        },
    ),
    hazard(
        "H13",
        "the host waits for an event that was never recorded",
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::dtoh(p, d, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::event_sync(e).ok();
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H13"),
    hazard(
        "H14",
        "the host waits for an event that was recorded before the copy",
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::record(e, s).ok();
            cuda::dtoh(p, d, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d, s, e) = (lab.pinned(1), lab.device(7), lab.stream(), lab.event());
            cuda::dtoh(p, d, s).ok();
            cuda::record(e, s).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H14"),
    hazard(
        "H15",
        "the event that covered the copy was recorded again elsewhere",
        |lab| {
            let (p, d, e) = (lab.pinned(1), lab.device(7), lab.event());
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::record(e, a).ok();
            cuda::record(e, b).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b, e, f) = (lab.stream(), lab.stream(), lab.event(), lab.event());
            cuda::dtoh(p, d, a).ok();
            cuda::record(e, a).ok();
            cuda::record(f, b).ok();
            cuda::event_sync(e).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H15"),
    hazard(
        "H16",
        "the host waits for another stream",
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::sync(b).ok();
            p.get(0);
        },
        |lab| {
            let (p, d) = (lab.pinned(1), lab.device(7));
            let (a, b) = (lab.stream(), lab.stream());
            cuda::dtoh(p, d, a).ok();
            cuda::sync(b).ok();
            cuda::sync(a).ok();
            p.get(0);
        },
    )
    .reported_as("H01/H16"),
    hazard(
        "H17",
        "another thread waits for its own per-thread stream",
        |lab| per_thread_copy(lab, false),
        |lab| per_thread_copy(lab, true),
    )
    .reported_as("H01/H17"),
    hazard(
        "H18",
        "the default stream reads what a non-blocking stream writes",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::fill(d, 9, s).ok();
            cuda::dtoh(p, d, Stream::NULL).ok();
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.blocking_stream());
            cuda::fill(d, 9, s).ok();
            cuda::dtoh(p, d, Stream::NULL).ok();
        },
    ),
    hazard(
        "H19",
        "a host function calls the driver",
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || {
                let _ = cuda::context_sync();
            });
            cuda::sync(s).ok();
        },
        |lab| {
            let s = lab.stream();
            let called = AtomicBool::new(false);
            lab.host_function(s, move || called.store(true, Ordering::SeqCst));
            cuda::sync(s).ok();
        },
    ),
    hazard(
        "H20",
        "a host function waits for work that is not ordered before it",
        |lab| host_function_waits(lab, false),
        |lab| host_function_waits(lab, true),
    ),
    hazard(
        "H21",
        "an event is used after it was destroyed",
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::destroy_event(e).ok();
            lab.forget_event(e);
            assert_ne!(cuda::record(e, s), Code::SUCCESS);
        },
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::record(e, s).ok();
            cuda::destroy_event(e).ok();
            lab.forget_event(e);
        },
    ),
    hazard(
        "H22",
        "nothing waits for a host function before the context ends",
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || ());
            lab.leave_without_waiting();
        },
        |lab| {
            let s = lab.stream();
            lab.host_function(s, || ());
            cuda::sync(s).ok();
            lab.leave_without_waiting();
        },
    ),
    hazard(
        "H23",
        "a capturing stream is synchronized",
        |lab| {
            let s = lab.stream();
            cuda::begin_capture(s, Mode::Global).ok();
            assert_ne!(cuda::sync(s), Code::SUCCESS);
            let _ = lab.abandon_capture(s);
        },
        |lab| {
            let (s, d) = (lab.stream(), lab.device(7));
            cuda::begin_capture(s, Mode::Global).ok();
            cuda::fill(d, 0, s).ok();
            let (code, _) = lab.abandon_capture(s);
            code.ok();
            cuda::sync(s).ok();
        },
    ),
    hazard(
        "H24",
        "a graph is launched after the memory that it copies from was freed",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let exec = lab.capture(s, |_| cuda::htod(d, p, s).ok());
            cuda::free_host(p).ok();
            lab.forget_pinned(p);
            let _ = cuda::launch(exec, s);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            let exec = lab.capture(s, |_| cuda::htod(d, p, s).ok());
            cuda::launch(exec, s).ok();
            cuda::sync(s).ok();
            cuda::free_host(p).ok();
            lab.forget_pinned(p);
        },
    ),
    hazard(
        "H25",
        "a thread without a current context allocates",
        |lab| {
            lab.context();
            allocate_elsewhere(None);
        },
        |lab| {
            let context = lab.context();
            allocate_elsewhere(Some(context));
        },
    ),
    hazard(
        "H26",
        "memory is read that nobody has written",
        |lab| {
            let (p, x, s) = (lab.pinned(1), lab.unwritten_device(), lab.stream());
            cuda::dtoh(p, x, s).ok();
        },
        |lab| {
            let (p, x, s) = (lab.pinned(1), lab.unwritten_device(), lab.stream());
            cuda::fill(x, 0, s).ok();
            cuda::dtoh(p, x, s).ok();
        },
    ),
    hazard(
        "H27",
        "device memory is never freed",
        |lab| {
            let d = lab.device(7);
            lab.forget_device(d);
        },
        |lab| {
            lab.device(7);
        },
    ),
    hazard(
        "H28",
        "a call inside a destructor fails",
        |_| drop_an_event(),
        |_| drop_an_event(),
    )
    .with("fail=cuEventDestroy_v2:1:400"),
    hazard(
        "H29",
        "source and destination of a copy overlap",
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            let half = d.bytes / 2;
            cuda::dtod(d.part(half / 2, half), d.part(0, half), s).ok();
        },
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            let half = d.bytes / 2;
            cuda::dtod(d.part(half, half), d.part(0, half), s).ok();
        },
    ),
    hazard(
        "H30",
        "the host reads write-combined memory",
        |lab| {
            lab.pinned_with_flags(1, WRITE_COMBINED).get(0);
        },
        |lab| {
            lab.pinned_with_flags(1, 0).get(0);
        },
    ),
    hazard(
        "H31",
        "pinned memory is allocated while a copy is pending",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            cuda::dtoh(p, d, s).ok();
            lab.pinned(1);
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            lab.pinned(1);
            cuda::dtoh(p, d, s).ok();
        },
    ),
    hazard(
        "H32",
        "the host reads through a device address",
        |lab| {
            let d = lab.device(7);
            let host = Host {
                address: d.address as usize,
                bytes: d.bytes,
            };
            host.get(0);
        },
        |lab| {
            let d = lab.device(7);
            lab.read(d);
        },
    )
    .may_die(),
    hazard(
        "H33",
        "the program waits for a host function's message and calls nothing more",
        |lab| wait_for_a_message(lab, false),
        |lab| wait_for_a_message(lab, true),
    ),
];

const WRITE_COMBINED: u32 = 4;

/// Memory of `a`, last used by `b`, is freed by `a`.
fn free_async_after_use_elsewhere(lab: &mut Lab, joined: bool) {
    let (p, a, b, e) = (lab.pinned(1), lab.stream(), lab.stream(), lab.event());
    let x = lab.device_on(a);
    cuda::fill(x, 7, a).ok();
    cuda::sync(a).ok();
    cuda::dtoh(p, x, b).ok();
    if joined {
        cuda::record(e, b).ok();
        cuda::wait(a, e).ok();
    }
    cuda::free_async(x, a).ok();
    lab.forget_device(x);
}

/// Another thread copies on its per-thread stream; this thread waits for its own stream, or lets that one wait.
fn per_thread_copy(lab: &mut Lab, waits_itself: bool) {
    let (p, d, context) = (lab.pinned(1), lab.device(7), lab.context());
    let (copied, main_waits) = channel();
    let (done, thread_waits) = channel::<()>();
    let thread = thread::spawn(move || {
        cuda::bind(context).ok();
        cuda::dtoh(p, d, Stream::PER_THREAD).ok();
        if waits_itself {
            cuda::sync(Stream::PER_THREAD).ok();
        }
        copied.send(()).expect("the main thread waits");
        thread_waits.recv().expect("the main thread sends");
    });
    main_waits.recv().expect("the thread sends");
    cuda::sync(Stream::PER_THREAD).ok();
    p.get(0);
    cuda::context_sync().ok();
    done.send(()).expect("the thread waits");
    thread.join().expect("the thread does not panic");
}

/// A host function on one stream waits for one on another stream.
fn host_function_waits(lab: &mut Lab, ordered: bool) {
    const GIVES_UP_AFTER: Duration = Duration::from_secs(3);
    let (a, b, e) = (lab.stream(), lab.stream(), lab.event());
    let go = Arc::new(AtomicBool::new(false));
    let (setter, waiter) = (Arc::clone(&go), go);
    let set = move || setter.store(true, Ordering::SeqCst);
    let wait = move || {
        let start = Instant::now();
        while !waiter.load(Ordering::SeqCst) && start.elapsed() < GIVES_UP_AFTER {
            thread::sleep(Duration::from_millis(1));
        }
    };
    if ordered {
        lab.host_function(b, set);
        cuda::record(e, b).ok();
        cuda::wait(a, e).ok();
        lab.host_function(a, wait);
    } else {
        lab.host_function(a, wait);
        lab.host_function(b, set);
    }
    cuda::sync(a).ok();
    cuda::sync(b).ok();
}

/// Another thread allocates and frees device memory, with this context or with none.
fn allocate_elsewhere(context: Option<Context>) {
    thread::spawn(move || {
        if let Some(context) = context {
            cuda::bind(context).ok();
        }
        let (code, device) = cuda::allocate(4);
        if code == Code::SUCCESS {
            cuda::free(device).ok();
        }
    })
    .join()
    .expect("the thread does not panic");
}

/// Makes an event of cudarc's and drops it.
fn drop_an_event() {
    let context = CudaContext::new(0).expect("there is a device");
    drop(context.new_event(None).expect("the driver makes an event"));
    // What cudarc kept back would hit the next call; there is none.
    let _ = context.check_err();
}

/// A host function sends; the program waits for the message, after a synchronize or without one.
fn wait_for_a_message(lab: &mut Lab, waits: bool) {
    let s = lab.stream();
    let count = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = channel();
    let counted = Arc::clone(&count);
    lab.host_function(s, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        // The receiver is gone only when the program has given up.
        let _ = sender.send(());
    });
    if waits {
        cuda::sync(s).ok();
    }
    receiver
        .recv_timeout(Duration::from_secs(20))
        .expect("the host function runs, whoever waits for it");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
