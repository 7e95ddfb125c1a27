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

/// The same size over and over, without a pause.
fn ten_rounds(allocator: &Allocator, mib: usize) -> Result<()> {
    let faults: Result<Vec<u64>> = (0..10).map(|_| round(allocator, mib << 20)).collect();
    print_rounds(allocator, mib, &faults?);
    Ok(())
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    only_base_pages()?;
    let asked = sizes()?;
    for allocator in &ALLOCATORS {
        let sizes = if asked.is_empty() {
            allocator.sizes
        } else {
            &asked
        };
        for &mib in sizes {
            ten_rounds(allocator, mib)?;
        }
    }
    println!("with {} ms between the rounds:", PAUSE.as_millis());
    let keep_small_blocks = &ALLOCATORS[1..];
    let mut faults = vec![Vec::new(); keep_small_blocks.len()];
    for _ in 0..5 {
        for (allocator, faults) in keep_small_blocks.iter().zip(&mut faults) {
            faults.push(round(allocator, PAUSED_MIB << 20)?);
        }
        sleep(PAUSE);
    }
    for (allocator, faults) in keep_small_blocks.iter().zip(&faults) {
        print_rounds(allocator, PAUSED_MIB, faults);
    }
    Ok(())
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

fn print_rounds(allocator: &Allocator, mib: usize, faults: &[u64]) {
    let pages = (mib << 20) as f64 / lab::page_size() as f64;
    let per_page: Vec<String> = faults
        .iter()
        .map(|&it| format!("{:.1}", it as f64 / pages))
        .collect();
    println!("{:8} {mib:5} MiB: {}", allocator.name, per_page.join(" "));
}
