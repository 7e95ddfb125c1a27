//! Each way in which Linux moves or splits a page has a counter of its own.
//! hazard: none

use std::io;

use anyhow::{ensure, Context, Result};
use lab::{aligned, huge_page_size, Faults, Pageable, VmStat};

// ANCHOR: idea
/// What to watch around a copy that was slower than the last one, by what Linux did.
const COUNTERS: [(&str, &[&str]); 4] = [
    (
        "compacted",
        &[
            "compact_stall",
            "compact_migrate_scanned",
            "pgmigrate_success",
        ],
    ),
    (
        "balanced",
        &[
            "numa_pte_updates",
            "numa_hint_faults",
            "numa_pages_migrated",
        ],
    ),
    ("gathered", &["thp_collapse_alloc"]),
    ("split", &["thp_split_pmd", "thp_split_page"]),
];

/// The counters that have risen since `before`, by what Linux did.
fn risen(before: &VmStat) -> Result<Vec<(&'static str, &'static str, i64)>> {
    let now = VmStat::now()?;
    let mut risen = Vec::new();
    for (what, names) in COUNTERS {
        for name in names {
            if let Some(rise @ 1..) = now.rise(before, name) {
                risen.push((what, *name, rise));
            }
        }
    }
    Ok(risen)
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let huge = huge_page_size().unwrap_or_else(|| lab::waive("this Linux has no huge pages"));
    let mut mapping = Pageable::<u8>::untouched(2 * huge)?;
    let buffer = aligned(&mut mapping, huge).context("the mapping holds a huge page")?;
    buffer.fill(7);

    let before = VmStat::now()?;
    advise(buffer, libc::MADV_HUGEPAGE)?;
    advise(buffer, libc::MADV_COLLAPSE)?;
    report(
        "gathered into a huge page",
        "thp_collapse_alloc",
        &before,
        buffer,
    )?;

    // To protect a part of a huge page differently, Linux splits its mapping.
    let before = VmStat::now()?;
    let page = &mut buffer[..lab::page_size()];
    for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
        // SAFETY: the page is ours, and nobody writes to it while it is read-only.
        let result = unsafe { libc::mprotect(page.as_mut_ptr().cast(), page.len(), protection) };
        ensure!(result == 0, "mprotect: {}", io::Error::last_os_error());
    }
    report("one page of it protected", "thp_split_pmd", &before, buffer)
}

/// Says whether `counter` has risen, and how many pages fault when the buffer is written again.
fn report(what: &str, counter: &str, before: &VmStat, buffer: &mut [u8]) -> Result<()> {
    let risen = risen(before)?;
    eprintln!("{what}: {risen:?}");
    let has_risen = risen.iter().any(|&(_, name, _)| name == counter);
    let start = Faults::now()?;
    buffer.fill(8);
    let faults = Faults::now()?.since(&start).minor;
    println!(
        "{what}: {counter} has risen: {}; faults of the next write: {}",
        if has_risen { "yes" } else { "no" },
        if faults > 8 { "many" } else { "none" },
    );
    Ok(())
}

fn advise(buffer: &mut [u8], advice: i32) -> Result<()> {
    // SAFETY: the range is the buffer, whose contents the advice leaves as they are.
    if unsafe { libc::madvise(buffer.as_mut_ptr().cast(), buffer.len(), advice) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if advice == libc::MADV_COLLAPSE && error.raw_os_error() == Some(libc::EINVAL) {
        lab::waive("MADV_COLLAPSE needs Linux 6.1 with huge pages");
    }
    Err(error).context("advising about huge pages: madvise")
}
