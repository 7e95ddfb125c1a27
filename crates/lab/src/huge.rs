//! Huge pages: how large they are here, and memory that one of them can back.

use std::fs;

/// The size of a transparent huge page, in bytes; `None` where Linux has none.
///
/// It is 2 MiB with base pages of 4 KiB, and 512 MiB with base pages of 64 KiB.
pub fn huge_page_size() -> Option<usize> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
    text.trim().parse().ok()
}

/// The first `bytes` of `buffer` that start at a multiple of `bytes`, so that one huge page of this
/// size can back them; `None` when the buffer is too small.
pub fn aligned(buffer: &mut [u8], bytes: usize) -> Option<&mut [u8]> {
    let start = buffer.as_ptr().align_offset(bytes);
    buffer.get_mut(start..)?.get_mut(..bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page_size, Pageable};

    #[test]
    fn a_buffer_of_twice_the_size_has_an_aligned_part() -> anyhow::Result<()> {
        let bytes = 8 * page_size();
        let mut buffer = Pageable::<u8>::untouched(2 * bytes)?;
        let part = aligned(&mut buffer, bytes).map(|it| (it.as_ptr() as usize % bytes, it.len()));
        assert_eq!(part, Some((0, bytes)));
        assert!(aligned(&mut buffer[..bytes - 1], bytes).is_none());
        Ok(())
    }
}
