//! Where in physical memory a buffer lies, and how much memory is locked.

use anyhow::{Context, Result};
use procfs::process::{PageInfo, Process};

use crate::pageable::page_size;

/// The page frame numbers of a buffer's pages, in the order of the buffer.
///
/// A page that is not in memory has frame 0. Without the right CAP_SYS_ADMIN the kernel shows
/// frame 0 for every page.
///
/// # Errors
/// When the kernel does not show `/proc/self/pagemap`.
pub fn page_frames<T>(buffer: &[T]) -> Result<Vec<u64>> {
    let bytes = buffer.as_ptr_range();
    let first = bytes.start as usize / page_size();
    let end = (bytes.end as usize).div_ceil(page_size());
    let mut pagemap = Process::myself()
        .and_then(|process| process.pagemap())
        .context("looking up page frames: /proc/self/pagemap")?;
    let pages = pagemap
        .get_range_info(first..end)
        .context("looking up page frames: /proc/self/pagemap")?;
    let frame = |page: PageInfo| match page {
        PageInfo::MemoryPage(page) => page.get_page_frame_number().0,
        PageInfo::SwapPage(_) => 0,
    };
    Ok(pages.into_iter().map(frame).collect())
}

/// How many bytes of this process are locked into memory (`VmLck`).
///
/// # Errors
/// When the kernel does not show `/proc/self/status`.
pub fn locked_bytes() -> Result<u64> {
    let status = Process::myself()
        .and_then(|process| process.status())
        .context("looking up locked memory: /proc/self/status")?;
    Ok(status.vmlck.unwrap_or(0) * 1024)
}
