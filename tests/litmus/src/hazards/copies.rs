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
