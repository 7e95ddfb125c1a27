//! Copies that rely on what nobody promises.

use crate::cuda;
use crate::hazards::{hazard, Hazard};

pub const ALL: &[Hazard] = &[
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
        "a host function fills pageable memory for a copy behind it",
        |lab| {
            let (h, d, s) = (lab.pageable(1), lab.device(0), lab.stream());
            lab.host_function(s, move || h.set(5));
            cuda::htod(d, h, s).ok();
            cuda::sync(s).ok();
        },
        |lab| {
            let (p, d, s) = (lab.pinned(1), lab.device(0), lab.stream());
            lab.host_function(s, move || p.set(5));
            cuda::htod(d, p, s).ok();
            cuda::sync(s).ok();
        },
    ),
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
];
