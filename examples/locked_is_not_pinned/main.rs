//! Locked memory stays in memory, yet the kernel may move it: to lock is not to pin.
//! hazard: none

use std::fs;

use anyhow::Result;
use lab::{locked_bytes, page_frames, Pageable};

/// 64 MiB of values.
const LEN: usize = 16 << 20;
/// Compaction moves what is in the way; a buffer that is not gets another place and another try.
const ATTEMPTS: u32 = 5;

// ANCHOR: idea
/// Locks the buffer, has memory compacted, and counts the pages that lie elsewhere afterwards.
fn pages_moved_while_locked(buffer: &Pageable<u32>) -> Result<usize> {
    // Locked: the pages stay in memory until they are unlocked.
    buffer.lock()?;
    // A frame number says where in physical memory a page lies.
    let before = page_frames(buffer)?;

    // The kernel makes room for large blocks by moving single pages, locked ones included. It
    // does so by itself when memory is fragmented; here it is asked to.
    compact_memory();

    let after = page_frames(buffer)?;
    Ok(before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after)
        .count())
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    for _ in 0..ATTEMPTS {
        let buffer = buffer_below_gaps()?;
        if !page_frames(&buffer).is_ok_and(|frames| frames.iter().any(|&frame| frame != 0)) {
            lab::waive(
                "page frame numbers are shown to root only, where /proc/self/pagemap exists",
            );
        }
        let moved = pages_moved_while_locked(&buffer)?;
        eprintln!("{moved} pages moved");
        if moved > 0 {
            let unchanged = (0..)
                .zip(buffer.iter())
                .all(|(value, &element)| element == value);
            let locked = locked_bytes()? >= size_of_val(&*buffer) as u64;
            println!("page frames moved while locked: yes");
            println!("contents unchanged: {}", yes_or_no(unchanged));
            println!("still locked: {}", yes_or_no(locked));
            return Ok(());
        }
    }
    lab::waive("memory was compacted, but no page of the buffer was in the way")
}

/// A buffer that holds 0, 1, 2, … and lies where compaction has something to do.
fn buffer_below_gaps() -> Result<Pageable<u32>> {
    // Compaction moves pages towards high addresses. Memory that is taken before the buffer and
    // given back after it leaves gaps to move to, and keeps the buffer out of older gaps.
    let gaps = Pageable::<u32>::zeroed(8 * LEN)?;
    let mut buffer = Pageable::zeroed(LEN)?;
    drop(gaps);
    for (value, element) in (0..).zip(buffer.iter_mut()) {
        *element = value;
    }
    Ok(buffer)
}

fn compact_memory() {
    if let Err(error) = fs::write("/proc/sys/vm/compact_memory", "1") {
        lab::waive(&format!(
            "/proc/sys/vm/compact_memory cannot be written: {error}"
        ));
    }
}

fn yes_or_no(answer: bool) -> &'static str {
    if answer {
        "yes"
    } else {
        "no"
    }
}
