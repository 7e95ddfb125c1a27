//! Only a write before the copy takes the page faults out of the copy; a read does not.
//! hazard: none

use std::io;
use std::ptr;

use anyhow::{Context, Result};
use cudarc::driver::CudaContext;
use lab::{Faults, Pageable};

/// 4 MiB of values.
const LEN: usize = 1 << 20;

// ANCHOR: idea
/// Reads one value of each page, as a checksum over a new buffer would.
fn read_each_page(buffer: &[u32]) {
    for page in buffer.chunks(lab::page_size() / size_of::<u32>()) {
        // SAFETY: the reference is valid. Volatile, because nobody uses the value.
        unsafe { ptr::read_volatile(&page[0]) };
    }
}

/// Writes one value of each page.
fn write_each_page(buffer: &mut [u32]) {
    for page in buffer.chunks_mut(lab::page_size() / size_of::<u32>()) {
        page[0] = 0;
    }
}

/// Has Linux make all pages in one call, ready to be written.
fn populate(buffer: &mut [u32]) -> Result<()> {
    let bytes = size_of_val(buffer);
    // SAFETY: the range is the buffer, whose contents the advice leaves as they are.
    match unsafe { libc::madvise(buffer.as_mut_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("MADV_POPULATE_WRITE needs Linux 5.14"),
    }
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    stream.memcpy_dtoh(&device, &mut *Pageable::zeroed(LEN)?)?;
    stream.synchronize()?;

    for before in ["nothing", "a read", "a write", "populated"] {
        let mut host = Pageable::<u32>::untouched(LEN)?;
        let start = Faults::now()?;
        match before {
            "a read" => read_each_page(&host),
            "a write" => write_each_page(&mut host),
            "populated" => populate(&mut host)?,
            _ => {}
        }
        let touched = Faults::now()?;
        stream.memcpy_dtoh(&device, &mut *host)?;
        stream.synchronize()?;
        let copied = Faults::now()?;
        println!(
            "{before:9} before the copy: {:.2} faults per page, then {:.2} in the copy",
            per_page(touched.since(&start)),
            per_page(copied.since(&touched)),
        );
    }
    Ok(())
}

fn per_page(faults: Faults) -> f64 {
    let pages = LEN * size_of::<u32>() / lab::page_size();
    faults.minor as f64 / pages as f64
}
