//! One compaction moves the touched and the locked pages in its way, and none that Linux has pinned.
//! hazard: none

use std::fs;

use anyhow::Result;
use lab::{page_frames, LinuxPin, Pageable, VmStat};

/// 16 MiB for each buffer.
const BYTES: usize = 16 << 20;
/// So many pages of the touched and of the locked buffer must have moved: that no pinned page did
/// says little when hardly any other did.
const ENOUGH: usize = 16;
/// Compaction moves what is in its way; buffers that are not get another place and another try.
const ATTEMPTS: u32 = 10;

// ANCHOR: idea
/// Compacts memory, and returns how many pages of each buffer lie elsewhere afterwards.
fn compact<const N: usize>(buffers: [&Pageable<u8>; N]) -> Result<[usize; N]> {
    let mut moved = [0; N];
    let mut before = Vec::new();
    for buffer in buffers {
        before.push(page_frames(buffer)?);
    }
    let counters = VmStat::now()?;

    // Linux makes room for large blocks by moving single pages. It does so by itself when
    // somebody needs a large block and memory is fragmented; here it is asked to.
    if let Err(error) = fs::write("/proc/sys/vm/compact_memory", "1") {
        lab::waive(&format!(
            "/proc/sys/vm/compact_memory cannot be written: {error}"
        ));
    }

    let now = VmStat::now()?;
    for name in ["pgmigrate_success", "pgmigrate_fail", "compact_isolated"] {
        eprintln!("{name} +{}", now.rise(&counters, name).unwrap_or(0));
    }
    for ((buffer, before), moved) in buffers.into_iter().zip(&before).zip(&mut moved) {
        let after = page_frames(buffer)?;
        *moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    }
    Ok(moved)
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    for _ in 0..ATTEMPTS {
        let [touched, locked, pinned] = buffers_below_gaps()?;
        if page_frames(&touched)?.iter().all(|&frame| frame == 0) {
            lab::waive("page frame numbers are shown to root only");
        }
        locked.lock()?;
        let pin = LinuxPin::of(&pinned).unwrap_or_else(|error| lab::waive(&format!("{error:#}")));
        let moved = compact([&touched, &locked, &pinned])?;
        drop(pin);
        eprintln!(
            "moved: touched {}, locked {}, pinned {}",
            moved[0], moved[1], moved[2]
        );
        if moved[..2].iter().all(|&pages| pages >= ENOUGH) {
            for (kept, moved) in ["touched", "locked", "pinned"].iter().zip(moved) {
                println!(
                    "{kept}: {}",
                    if moved > 0 {
                        "pages moved"
                    } else {
                        "no page moved"
                    }
                );
            }
            return Ok(());
        }
    }
    lab::waive("memory was compacted, but too few pages of the buffers were in the way")
}

/// Three buffers whose pages take turns in physical memory, so that compaction meets all three or
/// none.
fn buffers_below_gaps() -> Result<[Pageable<u8>; 3]> {
    // Compaction moves pages towards high addresses. Memory that is taken before the buffers and
    // given back after them leaves gaps to move to, and keeps the buffers out of older gaps.
    let gaps = Pageable::<u8>::zeroed(24 * BYTES)?;
    let mut buffers = [
        Pageable::untouched(BYTES)?,
        Pageable::untouched(BYTES)?,
        Pageable::untouched(BYTES)?,
    ];
    // A page gets its frame when it is touched, so pages that are touched in turn lie in turn.
    for page in (0..BYTES).step_by(lab::page_size()) {
        for buffer in &mut buffers {
            buffer[page] = 7;
        }
    }
    drop(gaps);
    Ok(buffers)
}
