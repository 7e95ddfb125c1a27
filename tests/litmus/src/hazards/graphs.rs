//! Stream capture and graphs.

use crate::cuda::{self, Code, Mode};
use crate::hazards::{hazard, Hazard};

pub const ALL: &[Hazard] = &[
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
];
