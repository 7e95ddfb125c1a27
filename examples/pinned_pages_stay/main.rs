//! Linux moves locked pages as it moves all others; pages that it has pinned it leaves alone.
//! hazard: none

use std::io;

use anyhow::{bail, ensure, Context, Result};
use lab::{aligned, huge_page_size, page_frames, LinuxPin, Pageable, VmStat};

fn main() -> Result<()> {
    lab::announce()?;
    let huge = huge_page_size().unwrap_or_else(|| lab::waive("this Linux has no huge pages"));
    for kept in ["touched", "locked", "pinned"] {
        let mut mapping = Pageable::<u8>::untouched(2 * huge)?;
        // Base pages, because the advice against huge ones still holds.
        let buffer = aligned(&mut mapping, huge).context("the mapping holds a huge page")?;
        buffer.fill(7);
        let counters = VmStat::now()?;

        // ANCHOR: idea
        // Locked: the pages stay in memory. Pinned: Linux also promises whoever writes to
        // the frames directly, here an io_uring, that each page stays in its frame.
        let _lock = (kept == "locked").then(|| lock(buffer)).transpose()?;
        let _pin = (kept == "pinned").then(|| pin(buffer));

        // Linux gathers base pages into a huge page by copying them into other frames. It
        // does so by itself where huge pages are allowed; here it is asked to.
        let before = page_frames(buffer)?;
        let gathered = gather_into_a_huge_page(buffer)?;
        let after = page_frames(buffer)?;
        let elsewhere = before.iter().zip(&after).filter(|(a, b)| a != b).count();

        println!(
            "{kept}: gathered {}, contents unchanged {}",
            yes_or_no(gathered),
            yes_or_no(buffer.iter().all(|&byte| byte == 7)),
        );
        // ANCHOR_END: idea

        // Frame numbers are shown to root only; everybody else is shown zeros.
        let shown = after.iter().any(|&frame| frame != 0);
        eprintln!(
            "{kept}: first frame {:#x}, then {:#x}; {elsewhere} of {} pages elsewhere; \
             thp_collapse_alloc +{}, nr_foll_pin_acquired +{}",
            before[0],
            after[0],
            before.len(),
            risen(&counters, "thp_collapse_alloc")?,
            risen(&counters, "nr_foll_pin_acquired")?,
        );
        ensure!(
            !shown || (elsewhere > before.len() / 2) == gathered,
            "{kept}: gathered {gathered}, but {elsewhere} pages lie elsewhere"
        );
    }
    Ok(())
}

/// Keeps the pages in memory for as long as the result lives.
fn lock(buffer: &[u8]) -> Result<()> {
    // SAFETY: the range is the buffer. Unmapping it ends the lock.
    match unsafe { libc::mlock(buffer.as_ptr().cast(), buffer.len()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("locking: see `ulimit -l`"),
    }
}

/// Has Linux pin the pages for as long as the result lives.
fn pin(buffer: &[u8]) -> LinuxPin {
    LinuxPin::of(buffer).unwrap_or_else(|error| lab::waive(&format!("{error:#}")))
}

/// Asks for one huge page in place of the base pages; returns whether Linux could do it.
fn gather_into_a_huge_page(buffer: &mut [u8]) -> Result<bool> {
    let range = buffer.as_mut_ptr().cast();
    // SAFETY: the range is the buffer, whose contents both kinds of advice leave as they are.
    let result = unsafe {
        libc::madvise(range, buffer.len(), libc::MADV_HUGEPAGE);
        libc::madvise(range, buffer.len(), libc::MADV_COLLAPSE)
    };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if result == 0 => Ok(true),
        // Somebody holds a page.
        Some(libc::EAGAIN) => Ok(false),
        Some(libc::EINVAL) => lab::waive("MADV_COLLAPSE needs Linux 6.1 with huge pages"),
        _ => bail!("MADV_COLLAPSE: {error}"),
    }
}

fn risen(earlier: &VmStat, name: &str) -> Result<i64> {
    Ok(VmStat::now()?.rise(earlier, name).unwrap_or(0))
}

fn yes_or_no(answer: bool) -> &'static str {
    if answer {
        "yes"
    } else {
        "no"
    }
}
