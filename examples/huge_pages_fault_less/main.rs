//! A huge page faults once for many base pages, if it was asked for before the first touch.
//! hazard: none
//! stdout: of the machine

use std::io;

use anyhow::{Context, Result};
use cudarc::driver::CudaContext;
use lab::{huge_page_size, Faults, Pageable};

// ANCHOR: idea
/// What is done with a fresh buffer before the copy into it.
#[derive(Clone, Copy, Debug)]
enum Buffer {
    /// Nothing: base pages.
    AsItIs,
    /// Huge pages are asked for, then the copy touches it first.
    AskedFor,
    /// Every page is touched, then huge pages are asked for.
    AskedForTooLate,
}

fn prepare(buffer: &mut [u8], what: Buffer) -> Result<()> {
    match what {
        Buffer::AsItIs => Ok(()),
        Buffer::AskedFor => ask_for_huge_pages(buffer),
        Buffer::AskedForTooLate => {
            buffer.fill(0);
            ask_for_huge_pages(buffer)
        }
    }
}

fn ask_for_huge_pages(buffer: &mut [u8]) -> Result<()> {
    // SAFETY: the range is the buffer, whose contents the advice leaves as they are.
    let result = unsafe {
        libc::madvise(
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MADV_HUGEPAGE,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("asking for huge pages: madvise"),
    }
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let huge = huge_page_size().unwrap_or_else(|| lab::waive("this Linux has no huge pages"));
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    // Two huge pages for the buffer, and room to align them.
    let bytes = 2 * huge;
    let device = stream.alloc_zeros::<u8>(bytes)?;
    // The driver's own first faults must not be counted, so it copies something beforehand.
    stream.memcpy_dtoh(&device, &mut *Pageable::zeroed(bytes)?)?;
    stream.synchronize()?;

    println!(
        "base pages of {} KiB, huge pages of {} KiB",
        lab::page_size() >> 10,
        huge >> 10
    );
    for what in [Buffer::AsItIs, Buffer::AskedFor, Buffer::AskedForTooLate] {
        let mut mapping = Pageable::<u8>::untouched(2 * bytes)?;
        let host = lab::aligned(&mut mapping, bytes).context("the mapping holds the buffer")?;
        let before = Faults::now()?;
        prepare(host, what)?;
        stream.memcpy_dtoh(&device, host)?;
        stream.synchronize()?;
        let faults = Faults::now()?.since(&before).minor;
        println!(
            "{what:?}: one fault for {} KiB",
            kib_per_fault(bytes, faults)
        );
    }
    Ok(())
}

/// Rounded down to a power of two, because a fault or two of the program itself are among them.
fn kib_per_fault(bytes: usize, faults: u64) -> usize {
    let kib = (bytes >> 10) / faults.max(1) as usize;
    (kib + 1).next_power_of_two() >> 1
}
