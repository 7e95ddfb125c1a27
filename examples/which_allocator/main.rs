//! The allocator decides whether a new block faults again: glibc, mimalloc and jemalloc differ.
//! hazard: none
//! stdout: of the machine

use std::env;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use lab::Faults;

/// What PyTorch asks for; it does not change what the page faults are.
const ALIGNMENT: usize = 64;
/// With pauses between the rounds, one size is enough.
const PAUSED_MIB: usize = 4;
/// A training step that does something else between two copies.
const PAUSE: Duration = Duration::from_millis(200);

/// An allocator as C sees it: `allocate(bytes)` and `release(block)`.
struct Allocator {
    name: &'static str,
    /// Sizes in MiB below and above the one at which it changes its ways.
    sizes: &'static [usize],
    allocate: fn(usize) -> *mut c_void,
    release: unsafe extern "C" fn(*mut c_void),
}

const ALLOCATORS: [Allocator; 3] = [
    Allocator {
        name: "glibc",
        // Below 32 MiB the answer depends on what else lives in the heap at that moment.
        sizes: &[40],
        // SAFETY: aligned_alloc may be asked for any size, and returns null when it has no memory.
        allocate: |bytes| unsafe { libc::aligned_alloc(ALIGNMENT, bytes) },
        release: libc::free,
    },
    Allocator {
        name: "mimalloc",
        sizes: &[4, 40],
        // SAFETY: as above.
        allocate: |bytes| unsafe { libmimalloc_sys::mi_malloc_aligned(bytes, ALIGNMENT) },
        release: libmimalloc_sys::mi_free,
    },
    Allocator {
        name: "jemalloc",
        sizes: &[4, 40],
        // SAFETY: as above.
        allocate: |bytes| unsafe { tikv_jemalloc_sys::aligned_alloc(ALIGNMENT, bytes) },
        release: tikv_jemalloc_sys::free,
    },
];

// ANCHOR: idea
/// Allocates a block, touches each page of it, frees it, and returns the page faults that took.
fn round(allocator: &Allocator, bytes: usize) -> Result<u64> {
    let before = Faults::now()?;
    let block = (allocator.allocate)(bytes);
    ensure!(!block.is_null(), "{} has no {bytes} bytes", allocator.name);
    for page in (0..bytes).step_by(lab::page_size()) {
        // SAFETY: the block has `bytes` bytes. Volatile, because nobody reads what is written.
        unsafe { ptr::write_volatile(block.cast::<u8>().add(page), 1) };
    }
    let faults = Faults::now()?.since(&before).minor;
    // SAFETY: the block is this allocator's, and nothing points to it any more.
    unsafe { (allocator.release)(block) };
    Ok(faults)
}

/// Ten rounds, one after the other: the median of their page faults, for each page of a block.
fn ten_rounds(allocator: &Allocator, mib: usize) -> Result<f64> {
    let bytes = mib << 20;
    let faults: Result<Vec<u64>> = (0..10).map(|_| round(allocator, bytes)).collect();
    let mut faults = faults?;
    eprintln!("{} {mib} MiB: {faults:?}", allocator.name);
    faults.sort_unstable();
    Ok(faults[5] as f64 / (bytes / lab::page_size()) as f64)
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    only_base_pages()?;
    let asked = sizes()?;
    println!("the median of ten rounds, one after the other:");
    for allocator in &ALLOCATORS {
        let sizes = if asked.is_empty() {
            allocator.sizes
        } else {
            &asked
        };
        for &mib in sizes {
            let per_page = ten_rounds(allocator, mib)?;
            println!(
                "{:8} {mib:5} MiB: {per_page:.1} faults per page",
                allocator.name
            );
        }
    }
    println!(
        "the worst of five rounds with {} ms between them:",
        PAUSE.as_millis()
    );
    for (allocator, worst) in worst_after_a_pause()? {
        println!("{allocator:8} {PAUSED_MIB:5} MiB: {worst:.1} faults per page");
    }
    Ok(())
}

/// The allocators that keep small blocks, each with its worst round when the rounds lie apart.
fn worst_after_a_pause() -> Result<Vec<(&'static str, f64)>> {
    let bytes = PAUSED_MIB << 20;
    let mut rounds: Vec<_> = ALLOCATORS[1..].iter().map(|it| (it, Vec::new())).collect();
    for _ in 0..5 {
        for (allocator, faults) in &mut rounds {
            faults.push(round(allocator, bytes)?);
        }
        sleep(PAUSE);
    }
    let worst = |(allocator, faults): (&Allocator, Vec<u64>)| {
        eprintln!("{} with pauses: {faults:?}", allocator.name);
        let worst = faults.into_iter().max().unwrap_or(0);
        (
            allocator.name,
            worst as f64 / (bytes / lab::page_size()) as f64,
        )
    };
    Ok(rounds.into_iter().map(worst).collect())
}

/// The sizes that the command line names, in MiB.
fn sizes() -> Result<Vec<usize>> {
    let size = |text: String| match text.parse() {
        Ok(mib @ 1..=65536) => Ok(mib),
        _ => bail!("{text} is not a size in MiB between 1 and 65536"),
    };
    env::args().skip(1).map(size).collect()
}

/// Has every fault of this process make one base page, so that the counts of the allocators compare.
fn only_base_pages() -> Result<()> {
    // SAFETY: the call changes how later faults are served, and nothing else.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("asking for base pages: PR_SET_THP_DISABLE"),
    }
}
