//! Device memory: its beginning, its contents, its end.

use crate::cuda;
use crate::hazards::{hazard, Hazard};
use crate::lab::Lab;

pub const ALL: &[Hazard] = &[
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
];

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
