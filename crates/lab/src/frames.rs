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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pageable;

    #[test]
    fn locked_memory_is_counted_until_it_is_dropped() -> Result<()> {
        let bytes = 3 * page_size();
        let buffer = Pageable::<u8>::zeroed(bytes)?;
        let before = locked_bytes()?;
        buffer.lock()?;
        assert_eq!(locked_bytes()? - before, bytes as u64);
        drop(buffer);
        assert_eq!(locked_bytes()?, before);
        Ok(())
    }

    #[test]
    fn every_page_that_is_there_has_a_frame_of_its_own() -> Result<()> {
        let untouched = Pageable::<u8>::untouched(3 * page_size())?;
        assert_eq!(page_frames(&untouched)?, [0; 3]);

        let buffer = Pageable::<u8>::zeroed(3 * page_size())?;
        let frames = page_frames(&buffer)?;
        let distinct = frames.iter().collect::<std::collections::HashSet<_>>();
        // Only root is shown frame numbers; everybody else is shown three times frame 0.
        assert!(distinct.len() == 3 || frames == [0; 3], "{frames:?}");
        Ok(())
    }
}
