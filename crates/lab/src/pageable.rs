//! Pageable host memory whose page size is known.
//!
//! A `Vec` would do for a program. It will not do for counting: an allocator may hand out pages
//! that were touched before, and the kernel may back a large buffer with huge pages.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use anyhow::{ensure, Context, Result};
use cudarc::driver::ValidAsZeroBits;

/// The size of a base page, in bytes.
pub fn page_size() -> usize {
    // SAFETY: sysconf only returns a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A fresh anonymous mapping in base pages.
#[derive(Debug)]
pub struct Pageable<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, like the heap memory of a `Vec`.
unsafe impl<T: Send> Send for Pageable<T> {}
// SAFETY: a shared reference gives shared references to the elements and nothing else.
unsafe impl<T: Sync> Sync for Pageable<T> {}

impl<T: ValidAsZeroBits + Copy> Pageable<T> {
    /// Maps room for `len` elements, all zero, without touching a page: every page faults once,
    /// when it is first read or written.
    ///
    /// # Errors
    /// When `len` is 0, or the kernel has no room for the mapping.
    pub fn untouched(len: usize) -> Result<Self> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .context("a pageable buffer larger than any address space")?;
        ensure!(bytes > 0, "a pageable buffer needs at least one byte");
        // SAFETY: a private mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("mapping {bytes} bytes"));
        }
        let start =
            NonNull::new(start.cast()).context("the kernel mapped a buffer at address 0")?;
        let buffer = Self { start, len };
        // SAFETY: the range is the mapping above.
        if unsafe { libc::madvise(buffer.start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) } != 0
        {
            let error = io::Error::last_os_error();
            // A kernel that knows no huge pages refuses the advice, and needs none.
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error).context("asking for base pages: madvise");
            }
        }
        Ok(buffer)
    }

    /// Maps room for `len` elements and writes zeros to all of them, so that every page is there.
    ///
    /// # Errors
    /// As for [`Pageable::untouched`].
    pub fn zeroed(len: usize) -> Result<Self> {
        let buffer = Self::untouched(len)?;
        // SAFETY: the mapping holds `len` elements, and zero is a value of `T`.
        unsafe { ptr::write_bytes(buffer.start.as_ptr(), 0, len) };
        Ok(buffer)
    }
}

impl<T> Pageable<T> {
    /// Locks the pages into memory until the buffer is dropped: they are never written to swap.
    ///
    /// # Errors
    /// When the process may not lock this much memory.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: the range is our own mapping.
        if unsafe { libc::mlock(self.start.as_ptr().cast(), self.bytes()) } != 0 {
            return Err(io::Error::last_os_error()).with_context(|| {
                format!(
                    "locking {} bytes: see `ulimit -l` for what this user may lock",
                    self.bytes()
                )
            });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> Deref for Pageable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` elements, and a fresh page is zero, a value of `T`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Pageable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pageable<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more. It cannot fail for a
        // range that was mapped whole.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_as_zeros_and_keeps_what_is_written() -> Result<()> {
        let mut buffer = Pageable::<u32>::untouched(3 * page_size())?;
        assert!(buffer.iter().all(|&value| value == 0));
        let last = buffer.len() - 1;
        buffer[last] = 7;
        assert_eq!((buffer[0], buffer[last]), (0, 7));
        Ok(())
    }

    #[test]
    fn an_empty_or_impossible_buffer_is_an_error() {
        assert!(Pageable::<u32>::untouched(0).is_err());
        assert!(Pageable::<u32>::untouched(usize::MAX).is_err());
        assert!(Pageable::<u8>::untouched(usize::MAX).is_err());
    }
}
