//! Memory that Linux itself has pinned: what `mlock` does not do.

use anyhow::{Context, Result};
use io_uring::IoUring;

/// Holds the pages of a buffer in their frames until it is dropped.
///
/// The buffer is registered with an io_uring, for which Linux takes a long-term pin on every
/// page, as for a device that writes to the memory. It shows what a pin does without any device.
pub struct LinuxPin {
    _ring: IoUring,
}

impl LinuxPin {
    /// Pins every page of `buffer`; pages that do not exist yet are made.
    ///
    /// # Errors
    /// When Linux offers no io_uring, as in many containers, or the process may not pin this
    /// much memory.
    pub fn of<T>(buffer: &[T]) -> Result<Self> {
        let bytes = size_of_val(buffer);
        let ring = IoUring::new(1).context("pinning memory: Linux offers no io_uring")?;
        let pages = libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: bytes,
        };
        // SAFETY: nothing is ever submitted to the ring, so Linux only holds the pages.
        unsafe { ring.submitter().register_buffers(&[pages]) }.with_context(|| {
            format!("pinning {bytes} bytes: see `ulimit -l` for what this user may pin")
        })?;
        Ok(Self { _ring: ring })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page_size, pinned_bytes, Pageable};

    #[test]
    fn pinned_memory_is_counted() -> Result<()> {
        let bytes = 3 * page_size();
        let buffer = Pageable::<u8>::untouched(bytes)?;
        let before = pinned_bytes()?;
        let Ok(_pin) = LinuxPin::of(&buffer) else {
            // Without io_uring there is nothing to count.
            return Ok(());
        };
        assert_eq!(pinned_bytes()? - before, bytes as u64);
        Ok(())
    }
}
