//! Kernels on one side of a race, or on both: what they touch is known only when they have run.

use crate::cuda::{self, Code, Device, Stream};
use crate::hazards::{hazard, Hazard};
use crate::host::Host;
use crate::lab::Lab;

/// A hazard whose id has a letter, because a copy has it as well.
const fn kernel(
    id: &'static str,
    report: &'static str,
    mistake: &'static str,
    broken: fn(&mut Lab),
    twin: fn(&mut Lab),
) -> Hazard {
    hazard(id, mistake, broken, twin).reported_as(report)
}

pub const ALL: &[Hazard] = &[
    kernel(
        "H01k",
        "H01",
        "the host reads pinned memory that a pending kernel writes",
        |lab| host_reads_what_a_kernel_writes(lab, false),
        |lab| host_reads_what_a_kernel_writes(lab, true),
    ),
    kernel(
        "H01m",
        "H01",
        "the host reads managed memory that a pending kernel writes",
        |lab| {
            let ((host, device), s) = (lab.managed(1), lab.stream());
            lab.fill_by_kernel(device, 9, s);
            host.get(0);
        },
        |lab| {
            let ((host, device), s) = (lab.managed(1), lab.stream());
            lab.fill_by_kernel(device, 9, s);
            cuda::sync(s).ok();
            host.get(0);
        },
    ),
    kernel(
        "H01n",
        "H01",
        "the host reads registered memory that a pending kernel writes; the twin reads what the kernel only reads",
        |lab| {
            let (h, s) = (lab.registered(1), lab.stream());
            let mapped = lab.mapped(h);
            lab.fill_by_kernel(mapped, 9, s);
            h.get(0);
        },
        |lab| {
            let (h, sum, s) = (lab.registered(1), lab.device(0), lab.stream());
            let mapped = lab.mapped(h);
            lab.sum_by_kernel(sum, mapped, s);
            h.get(0);
        },
    ),
    kernel(
        "H02k",
        "H02",
        "the host refills pinned memory that a pending kernel reads",
        |lab| host_refills_what_a_kernel_reads(lab, false),
        |lab| host_refills_what_a_kernel_reads(lab, true),
    ),
    kernel(
        "H03k",
        "H03",
        "pinned memory is freed under a pending kernel",
        |lab| free_pinned_under_a_kernel(lab, false),
        |lab| free_pinned_under_a_kernel(lab, true),
    ),
    kernel(
        "H04k",
        "H04",
        "device memory is freed under a pending kernel; the twin frees what the kernel does not use",
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            lab.fill_by_kernel(d, 9, s);
            cuda::free(d).ok();
            lab.forget_device(d);
        },
        |lab| {
            let (d, other, s) = (lab.device(7), lab.device(8), lab.stream());
            lab.fill_by_kernel(d, 9, s);
            cuda::free(other).ok();
            lab.forget_device(other);
        },
    ),
    kernel(
        "H05k",
        "H05",
        "a stream frees what a kernel of another stream still writes",
        |lab| free_async_under_a_kernel(lab, false),
        |lab| free_async_under_a_kernel(lab, true),
    ),
    kernel(
        "H06k",
        "H06",
        "a kernel uses memory that was freed before its launch; the error stays",
        |lab| {
            let s = lab.stream();
            let x = lab.device_on(s);
            cuda::free_async(x, s).ok();
            lab.forget_device(x);
            lab.fill_by_kernel(x, 9, s);
            assert_eq!(cuda::sync(s), Code(700));
        },
        |lab| {
            let s = lab.stream();
            let x = lab.device_on(s);
            lab.fill_by_kernel(x, 9, s);
            cuda::free_async(x, s).ok();
            lab.forget_device(x);
        },
    )
    .may_die(),
    kernel(
        "H07k",
        "H07",
        "a kernel uses what another stream has not allocated yet",
        |lab| use_before_allocation(lab, false),
        |lab| use_before_allocation(lab, true),
    ),
    kernel(
        "H08k",
        "H08",
        "a copy reads what a kernel of another stream writes",
        |lab| write_then_read(lab, Lab::fill_by_kernel, copy_out, false),
        |lab| write_then_read(lab, Lab::fill_by_kernel, copy_out, true),
    ),
    kernel(
        "H08l",
        "H08",
        "a kernel reads what a memset of another stream writes",
        |lab| write_then_read(lab, fill, sum_out, false),
        |lab| write_then_read(lab, fill, sum_out, true),
    ),
    kernel(
        "H08m",
        "H08",
        "a kernel reads what a kernel of another stream writes",
        |lab| write_then_read(lab, Lab::fill_by_kernel, sum_out, false),
        |lab| write_then_read(lab, Lab::fill_by_kernel, sum_out, true),
    ),
    kernel(
        "H09k",
        "H09",
        "a memset overwrites what a kernel of another stream reads",
        |lab| read_then_write(lab, sum_out, fill, false),
        |lab| read_then_write(lab, sum_out, fill, true),
    ),
    kernel(
        "H09l",
        "H09",
        "a kernel overwrites what a copy of another stream reads",
        |lab| read_then_write(lab, copy_out, Lab::fill_by_kernel, false),
        |lab| read_then_write(lab, copy_out, Lab::fill_by_kernel, true),
    ),
    kernel(
        "H10k",
        "H10",
        "a kernel and a memset of two streams write the same memory",
        |lab| write_twice(lab, fill, false),
        |lab| write_twice(lab, fill, true),
    ),
    kernel(
        "H10l",
        "H10",
        "two kernels of two streams write the same memory; the twin's write halves of it",
        |lab| write_twice(lab, Lab::fill_by_kernel, false),
        |lab| {
            let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
            let half = d.bytes / 2;
            lab.fill_by_kernel(d.part(0, half), 5, a);
            lab.fill_by_kernel(d.part(half, half), 6, b);
        },
    ),
    kernel(
        "H18k",
        "H18",
        "the default stream reads what a kernel of a non-blocking stream writes",
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.stream());
            lab.fill_by_kernel(d, 9, s);
            cuda::dtoh(p, d, Stream::NULL).ok();
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(7), lab.blocking_stream());
            lab.fill_by_kernel(d, 9, s);
            cuda::dtoh(p, d, Stream::NULL).ok();
        },
    ),
    kernel(
        "H21k",
        "H21",
        "a kernel is launched after its module was unloaded",
        |lab| {
            let (d, s, kernel) = (lab.device(7), lab.stream(), lab.kernel("fill_pattern"));
            lab.unload(kernel);
            let mut arguments = [d.address, 1, 9, 0];
            let code = cuda::launch_kernel(kernel, 1, &mut arguments, s);
            assert_eq!(code, Code(400));
        },
        |lab| {
            let (d, s, kernel) = (lab.device(7), lab.stream(), lab.kernel("fill_pattern"));
            lab.fill_by_kernel(d, 9, s);
            // What was launched still runs.
            lab.unload(kernel);
        },
    ),
    kernel(
        "H24k",
        "H24",
        "a graph launches a kernel whose memory has been freed since the capture; the error stays",
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            lab.kernel("fill_pattern");
            let exec = lab.capture(s, |lab| lab.fill_by_kernel(d, 9, s));
            cuda::free(d).ok();
            lab.forget_device(d);
            cuda::launch(exec, s).ok();
            assert_eq!(cuda::sync(s), Code(700));
        },
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            lab.kernel("fill_pattern");
            let exec = lab.capture(s, |lab| lab.fill_by_kernel(d, 9, s));
            cuda::launch(exec, s).ok();
            cuda::sync(s).ok();
            cuda::free(d).ok();
            lab.forget_device(d);
        },
    )
    .may_die(),
    kernel(
        "H26k",
        "H26",
        "a kernel reads memory that nobody has written; the twin's is written by a kernel before it",
        |lab| {
            let (x, sum, s) = (lab.unwritten_device(), lab.device(0), lab.stream());
            lab.sum_by_kernel(sum, x, s);
        },
        |lab| {
            let (x, sum, s) = (lab.unwritten_device(), lab.device(0), lab.stream());
            let p = lab.pinned(1);
            lab.fill_by_kernel(x, 1, s);
            lab.sum_by_kernel(sum, x, s);
            cuda::dtoh(p, x, s).ok();
        },
    ),
    hazard(
        "H34",
        "a kernel writes beyond the end of its memory; the error stays",
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            let beyond = Device {
                bytes: d.bytes + 4,
                ..d
            };
            lab.fill_by_kernel(beyond, 9, s);
            assert_eq!(cuda::sync(s), Code(700));
            assert_eq!(cuda::sync(s), Code(700));
        },
        |lab| {
            let (d, s) = (lab.device(7), lab.stream());
            lab.fill_by_kernel(d, 9, s);
        },
    )
    .may_die(),
];

/// What the programs here use. It is made first, because making it may wait.
struct Buffers {
    device: Device,
    sum: Device,
    pinned: Host,
}

impl Buffers {
    fn new(lab: &mut Lab) -> Buffers {
        lab.kernel("fill_pattern");
        lab.kernel("checksum");
        Buffers {
            device: lab.device(7),
            sum: lab.device(0),
            pinned: lab.pinned(1),
        }
    }
}

type Write = fn(&mut Lab, Device, u32, Stream);
type Read = fn(&mut Lab, &Buffers, Stream);

fn fill(_: &mut Lab, to: Device, value: u32, stream: Stream) {
    cuda::fill(to, value, stream).ok();
}

fn copy_out(_: &mut Lab, buffers: &Buffers, stream: Stream) {
    cuda::dtoh(buffers.pinned, buffers.device, stream).ok();
}

fn sum_out(lab: &mut Lab, buffers: &Buffers, stream: Stream) {
    lab.sum_by_kernel(buffers.sum, buffers.device, stream);
}

/// Orders the later work of `b` after the present work of `a`.
fn join(lab: &mut Lab, a: Stream, b: Stream) {
    let e = lab.event();
    cuda::record(e, a).ok();
    cuda::wait(b, e).ok();
}

fn write_then_read(lab: &mut Lab, write: Write, read: Read, joined: bool) {
    let (buffers, a, b) = (Buffers::new(lab), lab.stream(), lab.stream());
    write(lab, buffers.device, 9, a);
    if joined {
        join(lab, a, b);
    }
    read(lab, &buffers, b);
}

fn read_then_write(lab: &mut Lab, read: Read, write: Write, joined: bool) {
    let (buffers, a, b) = (Buffers::new(lab), lab.stream(), lab.stream());
    read(lab, &buffers, b);
    if joined {
        join(lab, b, a);
    }
    write(lab, buffers.device, 9, a);
}

fn write_twice(lab: &mut Lab, second: Write, joined: bool) {
    let (d, a, b) = (lab.device(7), lab.stream(), lab.stream());
    lab.fill_by_kernel(d, 5, a);
    if joined {
        join(lab, a, b);
    }
    second(lab, d, 6, b);
}

fn host_reads_what_a_kernel_writes(lab: &mut Lab, waits: bool) {
    let (p, s) = (lab.pinned(1), lab.stream());
    let mapped = lab.mapped(p);
    lab.fill_by_kernel(mapped, 9, s);
    if waits {
        cuda::sync(s).ok();
    }
    p.get(0);
}

fn host_refills_what_a_kernel_reads(lab: &mut Lab, waits: bool) {
    let (p, sum, s) = (lab.pinned(1), lab.device(0), lab.stream());
    let mapped = lab.mapped(p);
    lab.sum_by_kernel(sum, mapped, s);
    if waits {
        cuda::sync(s).ok();
    }
    p.put(0, 99);
}

fn free_pinned_under_a_kernel(lab: &mut Lab, waits: bool) {
    let (p, s) = (lab.pinned(1), lab.stream());
    let mapped = lab.mapped(p);
    lab.fill_by_kernel(mapped, 9, s);
    if waits {
        cuda::sync(s).ok();
    }
    cuda::free_host(p).ok();
    lab.forget_pinned(p);
}

fn free_async_under_a_kernel(lab: &mut Lab, joined: bool) {
    let (a, b) = (lab.stream(), lab.stream());
    let x = lab.device_on(a);
    cuda::fill(x, 7, a).ok();
    cuda::sync(a).ok();
    lab.fill_by_kernel(x, 9, b);
    if joined {
        join(lab, b, a);
    }
    cuda::free_async(x, a).ok();
    lab.forget_device(x);
}

fn use_before_allocation(lab: &mut Lab, joined: bool) {
    let (a, b) = (lab.stream(), lab.stream());
    lab.kernel("fill_pattern");
    let x = lab.device_on(a);
    if joined {
        join(lab, a, b);
    }
    lab.fill_by_kernel(x, 9, b);
}
