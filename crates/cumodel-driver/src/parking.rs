//! Takes large pieces of the program's view away without touching each of their pages.
//!
//! Changing the protection of 1 GiB visits 262,144 entries of the page tables, which takes a third of the time of copying it.
//! Moving the tables themselves elsewhere, and back, visits a few.
//! So large pieces that the host must not touch are moved to a parking place; their frames stay where they are, and coming
//! back costs no page fault.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::LazyLock;

use libc::c_void;
use parking_lot::Mutex;
use rangemap::RangeSet;

/// Page tables move as a whole in pieces of this many bytes.
const TABLE: usize = 2 << 20;
/// Below this many bytes the protection of pages is as fast.
const WORTH_MOVING: usize = 8 * TABLE;

/// The program's view that has a parking place.
static VIEW_START: AtomicUsize = AtomicUsize::new(0);
static VIEW_END: AtomicUsize = AtomicUsize::new(0);
/// Where the parking place starts.
static PLACE: AtomicUsize = AtomicUsize::new(0);
/// What is parked, by the addresses of the program's view.
static PARKED: LazyLock<Mutex<RangeSet<usize>>> = LazyLock::new(Mutex::default);

/// Uses `place`, which is reserved and as large as `view`, for pieces of `view`.
pub fn install(view: &Range<usize>, place: Range<usize>) {
    VIEW_START.store(view.start, Ordering::SeqCst);
    VIEW_END.store(view.end, Ordering::SeqCst);
    PLACE.store(place.start, Ordering::SeqCst);
}

fn place_of(address: usize) -> usize {
    address - VIEW_START.load(Ordering::SeqCst) + PLACE.load(Ordering::SeqCst)
}

/// Parks what of `range` is large enough, and returns the rest, which is still to be closed.
pub fn park(range: &Range<usize>) -> Vec<Range<usize>> {
    let inner = range.start.next_multiple_of(TABLE)..range.end / TABLE * TABLE;
    let in_view = VIEW_START.load(Ordering::SeqCst) <= range.start
        && range.end <= VIEW_END.load(Ordering::SeqCst);
    if !in_view || inner.start >= inner.end || inner.len() < WORTH_MOVING {
        let parked = PARKED.lock();
        return parked.gaps(range).collect();
    }
    let mut parked = PARKED.lock();
    let missing: Vec<Range<usize>> = parked.gaps(&inner).collect();
    for piece in missing {
        if move_tables(piece.start, place_of(piece.start), piece.len()) {
            parked.insert(piece);
        }
    }
    parked.gaps(range).collect()
}

/// Brings back what of `range` is parked; it can be read and written then.
pub fn bring_back(range: &Range<usize>) {
    let mut parked = PARKED.lock();
    let pieces: Vec<Range<usize>> = parked
        .overlapping(range)
        .map(|piece| piece.start.max(range.start)..piece.end.min(range.end))
        .collect();
    for piece in pieces {
        if !move_tables(place_of(piece.start), piece.start, piece.len()) {
            eprintln!(
                "model: {} bytes of pinned memory cannot be brought back: {}",
                piece.len(),
                std::io::Error::last_os_error()
            );
            std::process::abort();
        }
        parked.remove(piece);
    }
}

/// Moves the pages of a shared mapping to other addresses; the old ones stay mapped and inaccessible.
fn move_tables(from: usize, to: usize, length: usize) -> bool {
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: both ranges are the model's: the program's view and its parking place. With DONTUNMAP nothing is ever
    // unmapped, so nobody else's mapping can come to lie there. Whole pages move between two views of the same bytes,
    // so an access of another thread meanwhile finds those bytes, or faults and is looked at.
    unsafe {
        // One mapping with one protection is what the kernel can move; that of most pieces is this one already.
        if libc::mprotect(from as *mut c_void, length, read_write) != 0 {
            return false;
        }
        let moved = libc::mremap(
            from as *mut c_void,
            length,
            length,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP,
            ptr::without_provenance_mut::<c_void>(to),
        );
        moved != libc::MAP_FAILED
            && libc::mprotect(from as *mut c_void, length, libc::PROT_NONE) == 0
    }
}
