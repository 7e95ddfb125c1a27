//! Memory from the reserve of huge pages faults once for each of them, and never has to be searched for.
//! hazard: none
//! stdout: of the machine

use std::fs;
use std::io;
use std::ptr;

use anyhow::{ensure, Context, Result};
use cudarc::driver::CudaContext;
use lab::{Faults, Pageable};

const HUGE_PAGES: usize = 8;

fn main() -> Result<()> {
    lab::announce()?;
    let (huge, free) = reserve()?;
    if free < HUGE_PAGES {
        lab::waive(
            "fewer than 8 huge pages are reserved and free: as root, `sysctl vm.nr_hugepages=8`",
        );
    }
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let bytes = HUGE_PAGES * huge;
    let device = stream.alloc_zeros::<u8>(bytes)?;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    stream.memcpy_dtoh(&device, &mut *Pageable::zeroed(bytes)?)?;
    stream.synchronize()?;

    // ANCHOR: idea
    // SAFETY: a private mapping at an address of Linux's choice replaces nothing.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            // MAP_HUGETLB: these pages come from the reserve. When it is too small, the call fails
            // here, at once, instead of at some later touch.
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB,
            -1,
            0,
        )
    };
    ensure!(start != libc::MAP_FAILED, io::Error::last_os_error());
    // SAFETY: the mapping has `bytes` bytes, all zero, and belongs to nobody else.
    let host = unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes) };

    for copy in ["first", "second"] {
        let before = Faults::now()?;
        stream.memcpy_dtoh(&device, host)?;
        stream.synchronize()?;
        let faults = Faults::now()?.since(&before).minor;
        let per_huge_page = faults as f64 / HUGE_PAGES as f64;
        println!(
            "{copy} copy: {per_huge_page:.1} faults for each huge page of {} KiB",
            huge >> 10
        );
    }
    // ANCHOR_END: idea

    // SAFETY: the mapping is ours, and nothing borrows from it any more.
    let unmapped = unsafe { libc::munmap(start, bytes) };
    ensure!(unmapped == 0, io::Error::last_os_error());
    Ok(())
}

/// The size of a reserved huge page in bytes, and how many are free.
fn reserve() -> Result<(usize, usize)> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let number = |name: &str| -> Option<usize> {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse().ok()
    };
    let size = number("Hugepagesize:").unwrap_or(0) << 10;
    Ok((size, number("HugePages_Free:").unwrap_or(0)))
}
