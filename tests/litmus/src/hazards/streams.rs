//! Streams without an order between them.

use crate::cuda::{self, Stream};
use crate::hazards::{hazard, Hazard};

pub const ALL: &[Hazard] = &[
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
];
