//! The first copy into fresh pageable memory faults on every page; the second copy on none.
//! hazard: none

use anyhow::{ensure, Result};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::CudaContext;
use lab::{Faults, Pageable};

/// 64 MiB of values.
const LEN: usize = 16 << 20;
/// 4 MiB of values.
const WARM_UP: usize = 1 << 20;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    let mut warm_up = Pageable::zeroed(WARM_UP)?;
    stream.memcpy_dtoh(&device.slice(..WARM_UP), &mut *warm_up)?;
    stream.synchronize()?;

    // ANCHOR: idea
    // Like a new CPU tensor: the addresses are there, the pages are not.
    let mut host = Pageable::<u32>::untouched(LEN)?;
    let pages = LEN * size_of::<u32>() / lab::page_size();

    // The same copy twice. Only the first one finds fresh memory.
    let mut counts = Vec::new();
    for destination in ["fresh", "reused"] {
        let before = Faults::now()?;
        stream.memcpy_dtoh(&device, &mut *host)?;
        // Without this wait, faults of the copy could come after the count.
        stream.synchronize()?;
        let faults = Faults::now()?.since(&before).minor;

        let per_page = faults as f64 / pages as f64;
        println!("{destination}: {pages} pages, {per_page:.2} faults per page");
        counts.push(faults as usize);
    }
    // ANCHOR_END: idea

    // Where the GPU can write pageable memory itself, it is unmeasured who takes the faults.
    let direct = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    if ctx.attribute(direct)? == 0 {
        ensure!(
            counts[0] >= pages,
            "{pages} fresh pages were written with {} faults",
            counts[0]
        );
        ensure!(
            counts[1] < pages / 100,
            "{} pages of a reused buffer faulted again",
            counts[1]
        );
    }
    Ok(())
}
