//! Host memory: touched, freed or allocated at the wrong moment.

use crate::cuda;
use crate::hazards::{hazard, Hazard};
use crate::host::Host;
use crate::lab::Lab;

/// Write-combined pinned memory.
const WRITE_COMBINED: u32 = 4;

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
        "H30",
        "the host reads write-combined memory",
        |lab| read_after_download(lab, WRITE_COMBINED),
        |lab| read_after_download(lab, 0),
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
];

/// A download into pinned memory of these flags, waited for and read.
fn read_after_download(lab: &mut Lab, flags: u32) {
    let (p, d, s) = (lab.pinned_with_flags(1, flags), lab.device(7), lab.stream());
    cuda::dtoh(p, d, s).ok();
    cuda::sync(s).ok();
    p.get(0);
}
