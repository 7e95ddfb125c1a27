//! Host memory of every kind that a copy can meet, allocated and freed one call at a time.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use anyhow::{bail, Context, Result};
use cudarc::driver::{result, sys};

use crate::numa;

/// All memory of this module starts at a multiple of this many bytes, as PyTorch's CPU tensors do.
const ALIGNMENT: usize = 64;

/// Which calls give memory, and take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// `mmap`, as the machine is set up.
    Mmap,
    /// `mmap` with `MADV_HUGEPAGE`: transparent huge pages where the kernel permits them.
    HugePages,
    /// `mmap` with `MADV_NOHUGEPAGE`: base pages.
    BasePages,
    /// `mmap` with `MAP_HUGETLB`: pages from the pool of reserved huge pages.
    Hugetlb,
    /// `mmap` with `mbind` to this NUMA node.
    Node(u32),
    /// The C library's `aligned_alloc`.
    Glibc,
    /// `mi_malloc_aligned`.
    Mimalloc,
    /// jemalloc's `aligned_alloc`.
    Jemalloc,
    /// `cuMemHostAlloc` with flags 0.
    Pinned,
    /// `cuMemHostAlloc`, write-combined.
    WriteCombined,
    /// `cuMemAllocManaged`.
    Managed,
}

/// A piece of host memory, not initialized unless its backing zeroes it.
#[derive(Debug)]
pub struct Memory {
    backing: Backing,
    start: NonNull<u8>,
    bytes: usize,
    registered: bool,
}

// SAFETY: the memory belongs to this value alone, like the heap memory of a `Vec`.
unsafe impl Send for Memory {}
// SAFETY: a shared reference only gives the address, or shared words.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates `bytes`, a multiple of 4 KiB, and touches none of them itself.
    ///
    /// The CUDA kinds need a current context.
    ///
    /// # Errors
    /// When the machine does not have such memory, or not as much.
    pub fn allocate(backing: Backing, bytes: usize) -> Result<Self> {
        let start = match backing {
            Backing::Mmap => map(bytes, 0)?,
            Backing::HugePages => advised(bytes, libc::MADV_HUGEPAGE)?,
            Backing::BasePages => advised(bytes, libc::MADV_NOHUGEPAGE)?,
            // The kernel's own words would be "cannot allocate memory".
            Backing::Hugetlb => map(bytes, libc::MAP_HUGETLB).ok().context(
                "too few huge pages of the default size are reserved and free (vm.nr_hugepages)",
            )?,
            Backing::Node(node) => {
                let start = map(bytes, 0)?;
                let memory = Self::new(backing, start, bytes)?;
                numa::bind(memory.start, bytes, node)?;
                return Ok(memory);
            }
            // SAFETY: the alignment is a power of two, and `bytes` a multiple of it.
            Backing::Glibc => unsafe { libc::aligned_alloc(ALIGNMENT, bytes) },
            // SAFETY: the alignment is a power of two.
            Backing::Mimalloc => unsafe { libmimalloc_sys::mi_malloc_aligned(bytes, ALIGNMENT) },
            // SAFETY: as for glibc.
            Backing::Jemalloc => unsafe { tikv_jemalloc_sys::aligned_alloc(ALIGNMENT, bytes) },
            Backing::Pinned => pinned(bytes, 0)?,
            Backing::WriteCombined => pinned(bytes, sys::CU_MEMHOSTALLOC_WRITECOMBINED)?,
            // SAFETY: `drop` gives the memory back; with unified addressing the host has the same
            // address.
            Backing::Managed => unsafe {
                result::malloc_managed(bytes, sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL)
            }
            .with_context(|| format!("allocating {bytes} managed bytes"))?
                as *mut c_void,
        };
        Self::new(backing, start, bytes)
    }

    fn new(backing: Backing, start: *mut c_void, bytes: usize) -> Result<Self> {
        let start = NonNull::new(start.cast())
            .with_context(|| format!("no room for {bytes} bytes ({backing:?})"))?;
        Ok(Self {
            backing,
            start,
            bytes,
            registered: false,
        })
    }

    /// Registers the memory with CUDA until it is freed.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn register(&mut self) -> Result<()> {
        // SAFETY: the range is ours, and it stays mapped until `drop` has unregistered it.
        unsafe { sys::cuMemHostRegister_v2(self.start.as_ptr().cast(), self.bytes, 0) }
            .result()
            .with_context(|| format!("registering {} bytes with CUDA", self.bytes))?;
        self.registered = true;
        Ok(())
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The content.
    ///
    /// # Safety
    /// Every byte has been written since the memory was allocated, and nothing writes it meanwhile.
    pub unsafe fn words(&self) -> &[u64] {
        // SAFETY: as promised by the caller; the start is aligned to 64 bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// The room for words, written or not.
    pub fn room(&mut self) -> &mut [MaybeUninit<u64>] {
        // SAFETY: the memory is ours and borrowed exclusively, its start is aligned to 64 bytes,
        // and a word need not be initialized.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Writes one byte of every base page, so that each is there: with one thread by the caller
    /// itself, with more by that many threads, each its own part.
    pub fn touch(&mut self, threads: usize) {
        let page = lab::page_size();
        let pages = self.bytes.div_ceil(page);
        let share = pages.div_ceil(threads.max(1)) * page;
        let start = self.start.as_ptr() as usize;
        let parts = (start..start + self.bytes).step_by(share);
        let end = start + self.bytes;
        let touch = |part: usize| {
            for address in (part..end.min(part + share)).step_by(page) {
                // SAFETY: the address lies in this memory, which is borrowed exclusively, and no
                // two parts overlap.
                unsafe { ptr::write_volatile(address as *mut u8, 0) };
            }
        };
        if threads <= 1 {
            return touch(start);
        }
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || touch(part));
            }
        });
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: each kind of memory goes back to where it came from, whole and once. A refusal
        // leaves the memory allocated; there is nobody who could do better.
        unsafe {
            if self.registered {
                let _ = sys::cuMemHostUnregister(start).result();
            }
            match self.backing {
                Backing::Mmap
                | Backing::HugePages
                | Backing::BasePages
                | Backing::Hugetlb
                | Backing::Node(_) => {
                    libc::munmap(start, self.bytes);
                }
                Backing::Glibc => libc::free(start),
                Backing::Mimalloc => libmimalloc_sys::mi_free(start),
                Backing::Jemalloc => tikv_jemalloc_sys::free(start),
                Backing::Pinned | Backing::WriteCombined => {
                    let _ = result::free_host(start);
                }
                Backing::Managed => {
                    let _ = result::free_sync(start as sys::CUdeviceptr);
                }
            }
        }
    }
}

fn map(bytes: usize, flags: libc::c_int) -> Result<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a private mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error()).with_context(|| format!("mapping {bytes} bytes"));
    }
    Ok(start)
}

fn pinned(bytes: usize, flags: u32) -> Result<*mut c_void> {
    // SAFETY: the driver returns memory of its own, which `drop` gives back.
    unsafe { result::malloc_host(bytes, flags) }
        .with_context(|| format!("allocating {bytes} pinned bytes"))
}

/// A mapping with an advice, given back if the kernel does not take the advice.
fn advised(bytes: usize, advice: libc::c_int) -> Result<*mut c_void> {
    let start = map(bytes, 0)?;
    // SAFETY: the range is the mapping just made.
    if unsafe { libc::madvise(start, bytes, advice) } == 0 {
        return Ok(start);
    }
    let error = io::Error::last_os_error();
    // SAFETY: nothing else has the address of this mapping.
    unsafe { libc::munmap(start, bytes) };
    bail!("this kernel has no transparent huge pages: madvise: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: [Backing; 6] = [
        Backing::Mmap,
        Backing::HugePages,
        Backing::BasePages,
        Backing::Glibc,
        Backing::Mimalloc,
        Backing::Jemalloc,
    ];

    #[test]
    fn every_host_kind_can_be_written_whole() {
        for backing in HOST {
            let Ok(mut memory) = Memory::allocate(backing, 1 << 20) else {
                assert!(matches!(backing, Backing::HugePages | Backing::BasePages));
                continue;
            };
            assert_eq!(memory.start().as_ptr() as usize % ALIGNMENT, 0);
            crate::pattern::fill(memory.room(), 1, 0);
            // SAFETY: every word was just written.
            let words = unsafe { memory.words() };
            assert_eq!(words.len(), 1 << 17);
            assert_eq!(crate::pattern::first_difference(words, 1, 0), None);
        }
    }

    #[test]
    fn touching_takes_one_fault_for_each_base_page() -> Result<()> {
        for threads in [1, 2, 5] {
            let mut memory = Memory::allocate(Backing::BasePages, 64 * lab::page_size())?;
            let before = resident(&memory)?;
            memory.touch(threads);
            assert_eq!((before, resident(&memory)?), (0, 64));
        }
        Ok(())
    }

    #[test]
    fn more_than_any_address_space_is_an_error() {
        for backing in HOST {
            assert!(Memory::allocate(backing, 1 << 60).is_err());
        }
    }

    /// How many pages are in memory, as the kernel says.
    fn resident(memory: &Memory) -> Result<u64> {
        let nodes = numa::nodes_of_pages(&[memory.start()], memory.bytes(), usize::MAX)?;
        Ok(nodes
            .iter()
            .filter(|(node, _)| *node != "absent")
            .map(|(_, pages)| pages)
            .sum())
    }
}
