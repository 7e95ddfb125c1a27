//! Memory that is mapped twice.
//!
//! The program gets one view and the engine the other.
//! Taking the program's view away makes its loads and stores visible; the engine copies through its own view all the same.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use cumodel::guard::Level;
use range_alloc::RangeAllocator;

use crate::guard::{self, page_size};

/// Reservations start at a multiple of this many bytes, so that page tables of one can be moved to another.
const ALIGNMENT: usize = 1 << 30;

/// Reserves `size` addresses that nobody can access.
pub fn reserve_addresses(size: usize) -> io::Result<Range<usize>> {
    // SAFETY: a new private mapping at an address of the kernel's choice replaces nothing.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size + ALIGNMENT,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = (address as usize).next_multiple_of(ALIGNMENT);
    Ok(start..start + size)
}

/// One kind of memory: a sparse file in memory, reserved as a whole and used piece by piece.
pub struct Arena {
    file: OwnedFd,
    /// First address of the program's view.
    program: usize,
    /// First address of the engine's view.
    engine: usize,
    size: usize,
    /// Sizes are rounded up to this many bytes.
    grain: usize,
    free: RangeAllocator<usize>,
}

impl Arena {
    /// Reserves `size` bytes; the program's view is inaccessible until opened.
    pub fn new(size: usize, grain: usize) -> io::Result<Arena> {
        // SAFETY: the name is a NUL-terminated literal.
        let fd = unsafe { libc::memfd_create(c"cumodel".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a plain call on an open descriptor.
        if unsafe { libc::ftruncate(fd, size as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let map = |protection| {
            let reserved = reserve_addresses(size)?;
            // SAFETY: the new shared mapping replaces the reservation, which nobody knows yet.
            let address = unsafe {
                libc::mmap(
                    reserved.start as *mut libc::c_void,
                    size,
                    protection,
                    libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    file.as_raw_fd(),
                    0,
                )
            };
            if address == libc::MAP_FAILED {
                Err(io::Error::last_os_error())
            } else {
                Ok(address as usize)
            }
        };
        let program = map(libc::PROT_NONE)?;
        let engine = map(libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Arena {
            file,
            program,
            engine,
            size,
            grain,
            free: RangeAllocator::new(0..size),
        })
    }

    /// The addresses of the program's view.
    pub fn program_view(&self) -> Range<usize> {
        self.program..self.program + self.size
    }

    /// The addresses of the engine's view.
    pub fn engine_view(&self) -> Range<usize> {
        self.engine..self.engine + self.size
    }

    /// The engine's address of the byte that the program knows as `address`.
    pub fn engine_address(&self, address: u64) -> usize {
        address as usize - self.program + self.engine
    }

    /// Reserves `bytes` and returns the program's addresses, or nothing when the arena is full.
    pub fn allocate(&mut self, bytes: usize) -> Option<Range<u64>> {
        let length = bytes
            .checked_next_multiple_of(self.grain)
            .filter(|&length| length <= self.size)?;
        let range = self.free.allocate_range(length).ok()?;
        let start = (self.program + range.start) as u64;
        Some(start..start + length as u64)
    }

    /// Takes everything back, whatever is still handed out; the program's view is closed.
    pub fn reset(&mut self) {
        let start = self.program as u64;
        let used: Vec<Range<usize>> = self.free.allocated_ranges().collect();
        self.free.reset();
        let page = page_size();
        for range in used {
            // Everything in the arena is being taken back, so whole pages are.
            let pages = range.start / page * page..range.end.next_multiple_of(page);
            let range = start + pages.start as u64..start + pages.end as u64;
            guard::protect(&range, Level::NoAccess);
            self.discard(&range);
        }
    }

    /// Gives a range from [`Arena::allocate`] back, contents and all.
    pub fn release(&mut self, range: &Range<u64>) {
        let start = range.start as usize - self.program;
        let end = range.end as usize - self.program;
        self.free.free_range(start..end);
        self.discard(range);
    }

    /// Gives the frames of whole pages back to the system.
    fn discard(&self, range: &Range<u64>) {
        let start = range.start as usize - self.program;
        let end = range.end as usize - self.program;
        let page = page_size();
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first < last {
            // Failure only costs memory: the range is written anew before it is used again.
            // SAFETY: a plain call on an open descriptor; no live allocation lies in the range.
            unsafe {
                libc::fallocate(
                    self.file.as_raw_fd(),
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    first as libc::off_t,
                    (last - first) as libc::off_t,
                );
            }
        }
    }

    /// Gives every page of `range` its frame now, in both views, so that no later copy pays for it.
    ///
    /// The program's view must be open.
    pub fn populate(&self, range: &Range<u64>) {
        for start in [range.start as usize, self.engine_address(range.start)] {
            let length = (range.end - range.start) as usize;
            // SAFETY: the range is mapped readable and writable in this view; populating changes no contents.
            let done = unsafe {
                libc::madvise(
                    start as *mut libc::c_void,
                    length,
                    libc::MADV_POPULATE_WRITE,
                )
            };
            if done != 0 {
                // Kernels before 5.14 do not know the advice: touch each page.
                for offset in (0..length).step_by(page_size()) {
                    let byte = (start + offset) as *mut u8;
                    // SAFETY: inside the mapping, as above; the byte keeps its value.
                    unsafe { byte.write_volatile(byte.read_volatile()) };
                }
            }
        }
    }

    /// Fills `range` with a byte, by the engine's view.
    pub fn fill(&self, range: &Range<u64>, byte: u8) {
        let start = self.engine_address(range.start) as *mut u8;
        // SAFETY: the range lies in the engine's view, which is always writable.
        unsafe { ptr::write_bytes(start, byte, (range.end - range.start) as usize) };
    }
}
