//! What the driver answers to bad arguments.

use std::thread;

use crate::cuda::{self, Code, Context, Device, Event, Stream};
use crate::host::Host;
use crate::lab::Lab;
use crate::litmus::{test, Litmus, ANY_REPORT};

pub const TESTS: &[Litmus] = &[test(
    "L40",
    "2.I",
    "every bad argument that is safe to pass; the codes are in the source",
    &["as listed"],
    |lab| {
        let rows = rows(lab);
        for row in &rows {
            lab.note(format!("{}: {}", row.call, row.code));
        }
        let others: Vec<String> = rows
            .iter()
            .filter(|row| !row.allowed.contains(&row.code.0))
            .map(|row| format!("{}: {}, not {:?}", row.call, row.code, row.allowed))
            .collect();
        if others.is_empty() {
            "as listed".into()
        } else {
            others.join("; ")
        }
    },
)
.reports(&[ANY_REPORT])];

/// One call with a bad argument.
struct Row {
    call: &'static str,
    code: Code,
    /// The documented codes; where the documentation gives none, the plausible ones.
    allowed: &'static [u32],
}

fn rows(lab: &mut Lab) -> Vec<Row> {
    let context = lab.context();
    let (d, h) = (lab.device(7), lab.pageable(1));
    let mut rows = Vec::new();
    let mut row = |call, code, allowed| {
        rows.push(Row {
            call,
            code,
            allowed,
        });
    };

    // Documented.
    row("cuInit(1)", cuda::init(1), &[1]);
    row("cuDeviceGet(4096)", cuda::device(4096).0, &[101, 1]);
    row("cuMemAlloc(0)", cuda::allocate(0).0, &[1]);
    row("cuMemAlloc(1 PiB)", cuda::allocate(1 << 50).0, &[2]);
    row("cuMemAllocManaged(0)", cuda::allocate_managed(0, 1).0, &[1]);
    row(
        "cuMemAllocManaged(flags 64)",
        cuda::allocate_managed(4, 64).0,
        &[1],
    );
    row(
        "cuMemAllocAsync(NULL) without a context",
        without_a_context(),
        &[201],
    );
    row("cuStreamCreate(flags 64)", cuda::stream(64).0, &[1]);
    row(
        "cuStreamWaitEvent(null event)",
        cuda::wait(Stream::NULL, Event(0)),
        &[400],
    );
    let (untimed, start, end) = (lab.event(), lab.timed_event(), lab.timed_event());
    row(
        "cuEventElapsedTime(never recorded)",
        cuda::elapsed(start, end),
        &[400],
    );
    cuda::record(untimed, Stream::NULL).ok();
    cuda::record(start, Stream::NULL).ok();
    row(
        "cuEventElapsedTime(without timing)",
        cuda::elapsed(untimed, start),
        &[400],
    );
    // It may be complete by now, except behind a gate.
    row(
        "cuEventElapsedTime(perhaps pending)",
        cuda::elapsed(start, start),
        &[600, 0],
    );
    cuda::sync(Stream::NULL).ok();
    row(
        "cuEventElapsedTime(complete)",
        cuda::elapsed(start, start),
        &[0],
    );
    let page = Page::new();
    row("cuMemHostRegister", cuda::register(page.host(), 0), &[0]);
    row(
        "cuMemHostRegister again",
        cuda::register(page.host(), 0),
        &[712],
    );
    row(
        "cuMemHostRegister of a part of it",
        cuda::register(page.second(), 0),
        &[712],
    );
    row(
        "cuMemHostUnregister of a part of it",
        cuda::unregister(page.second()),
        &[1, 713],
    );
    row("cuMemHostUnregister", cuda::unregister(page.host()), &[0]);
    row(
        "cuMemHostUnregister again",
        cuda::unregister(page.host()),
        &[713],
    );
    let pinned = lab.pinned(1);
    row(
        "cuMemHostUnregister(cuMemHostAlloc)",
        cuda::unregister(pinned),
        &[1, 713],
    );
    row("cuMemFreeHost(pageable)", cuda::free_host(h), &[1]);
    let unknown = Device {
        address: 0x1000,
        bytes: 4,
    };
    row("cuMemFree(unknown)", cuda::free(unknown), &[1]);
    row(
        "cuMemFree(inside an allocation)",
        cuda::free(d.part(4, 4)),
        &[1],
    );

    // Open: the documentation names no code. What a driver answered is in the notes.
    let (code, empty) = cuda::allocate_async(0, Stream::NULL);
    row("cuMemAllocAsync(0)", code, &[0, 1]);
    if code == Code::SUCCESS && empty.address != 0 {
        cuda::free_async(empty, Stream::NULL).ok();
    }
    let (code, empty) = cuda::allocate_host(0, 0);
    row("cuMemHostAlloc(0)", code, &[0, 1]);
    if code == Code::SUCCESS && empty.address != 0 {
        cuda::free_host(empty).ok();
    }
    let null = Device {
        address: 0,
        bytes: 0,
    };
    row("cuMemFree(0)", cuda::free(null), &[0, 1]);
    row(
        "cuMemFreeAsync(0)",
        cuda::free_async(null, Stream::NULL),
        &[0, 1],
    );
    row(
        "cuMemcpyDtoHAsync of 0 bytes",
        cuda::dtoh(h.part(0, 0), d, Stream::NULL),
        &[0, 1],
    );
    row(
        "cuMemsetD32Async(misaligned)",
        cuda::fill(d.part(1, 4), 0, Stream::NULL),
        &[1, 716],
    );
    let beyond = Device {
        address: d.address + d.bytes as u64 - 4,
        bytes: 8,
    };
    row(
        "cuMemcpyDtoHAsync beyond the end",
        cuda::dtoh(h, beyond, Stream::NULL),
        &[1, 0],
    );
    cuda::bind(context).ok();
    rows
}

/// A thread that has no current context allocates on the default stream.
fn without_a_context() -> Code {
    thread::spawn(|| {
        cuda::bind(Context(0)).ok();
        cuda::allocate_async(4, Stream::NULL).0
    })
    .join()
    .expect("the thread does not panic")
}

/// Two pages of memory that nobody else uses.
struct Page(::lab::Pageable<u32>);

impl Page {
    fn new() -> Page {
        let words = 2 * ::lab::page_size() / 4;
        Page(::lab::Pageable::zeroed(words).expect("two pages of memory"))
    }

    fn host(&self) -> Host {
        Host {
            address: self.0.as_ptr() as usize,
            bytes: 4 * self.0.len(),
        }
    }

    fn second(&self) -> Host {
        let half = self.host().len() / 2;
        self.host().part(half, half)
    }
}
