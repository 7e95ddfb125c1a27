//! Linux moves locked pages as it moves all others; pages that it has pinned it leaves alone.
//! hazard: none
//! stdout: of the machine

use std::io;

use anyhow::{bail, ensure, Context, Result};
use lab::{
    aligned, huge_page_size, locked_bytes, page_frames, pinned_bytes, LinuxPin, Pageable, VmStat,
};

fn main() -> Result<()> {
    lab::announce()?;
    let huge = huge_page_size().unwrap_or_else(|| lab::waive("this Linux has no huge pages"));
    for kept in ["touched", "locked", "locked on fault", "pinned"] {
        let mut mapping = Pageable::<u8>::untouched(2 * huge)?;
        // Base pages, because the advice against huge ones still holds.
        let buffer = aligned(&mut mapping, huge).context("the mapping holds a huge page")?;
        buffer.fill(7);
        let counters = VmStat::now()?;

        // ANCHOR: idea
        // Locked: the pages stay in memory. Pinned: Linux also promises whoever writes to the
        // frames directly, here an io_uring, that each page stays in its frame.
        let charged = [locked_bytes()?, pinned_bytes()?];
        match kept {
            "locked" => lock(buffer, 0),
            "locked on fault" => lock(buffer, libc::MLOCK_ONFAULT),
            _ => {}
        }
        let _pin = (kept == "pinned").then(|| pin(buffer));
        let locked = (locked_bytes()? - charged[0]) >> 10;
        let pinned = (pinned_bytes()? - charged[1]) >> 10;

        // Linux gathers base pages into a huge page by copying them into other frames. It does so
        // by itself where huge pages are allowed; here it is asked to.
        let before = page_frames(buffer)?;
        let gathered = gather_into_a_huge_page(buffer)?;
        let after = page_frames(buffer)?;
        let elsewhere = before.iter().zip(&after).filter(|(a, b)| a != b).count();

        println!("{kept}: VmLck +{locked} KiB, VmPin +{pinned} KiB");
        println!("    gathered into a huge page: {}", yes_or_no(gathered));
        let unchanged = buffer.iter().all(|&byte| byte == 7);
        println!("    contents unchanged: {}", yes_or_no(unchanged));
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

/// Keeps the pages in memory until the buffer is unmapped.
fn lock(buffer: &[u8], flags: u32) {
    // SAFETY: the range is the buffer, and locking it changes nothing that the program sees.
    if unsafe { libc::mlock2(buffer.as_ptr().cast(), buffer.len(), flags) } != 0 {
        let error = io::Error::last_os_error();
        lab::waive(&format!(
            "mlock2 of {} bytes: {error}; see `ulimit -l`",
            buffer.len()
        ));
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
