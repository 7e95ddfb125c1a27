//! Pinned memory: how much of it, and whose it is.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::ptr;

use cudarc::driver::sys::CUdevice_attribute;

use crate::cuda::{self, Code};
use crate::field::Case;
use crate::host::Host;
use crate::lab::Lab;
use crate::litmus::Outcome;
use crate::pool::Cache;

/// The flag of cuMemHostRegister for memory that the device only reads.
const READ_ONLY: u32 = 8;

pub const ALL: &[Case] = &[
    Case {
        id: "F30",
        title: "rounding up to a power of two doubles pinned memory",
        source: "https://github.com/pytorch/pytorch/issues/150517",
        broken: |lab| pinned_for_four_requests(lab, true),
        wrong: "2048 KiB for 1040",
        hazards: &[],
        fixed: |lab| pinned_for_four_requests(lab, false),
        right: "1040 KiB for 1040",
        depends_on_machine: false,
    },
    Case {
        id: "F32",
        title: "a cache of pinned memory never gives anything back",
        source: "https://github.com/pytorch/pytorch/issues/169160",
        broken: |lab| cached_after_use(lab, None),
        wrong: "1984 KiB cached, 0 in use",
        hazards: &[],
        fixed: |lab| cached_after_use(lab, Some(1 << 20)),
        right: "960 KiB cached, 0 in use",
        depends_on_machine: false,
    },
    // ANCHOR: f34
    Case {
        id: "F34",
        title: "memory is registered twice, and the second owner unregisters it",
        source: "https://github.com/sgl-project/sglang/pull/38832",
        broken: |lab| {
            lab.context();
            let pages = Pages::new();
            // Two owners that both ignore what the driver answers.
            let codes = [
                cuda::register(pages.all(), 0),
                cuda::register(pages.all(), 0),
                cuda::unregister(pages.all()),
                cuda::unregister(pages.all()),
            ];
            cuda::codes(&codes)
        },
        wrong: "0 712 0 713",
        hazards: &[],
        fixed: |lab| {
            lab.context();
            let pages = Pages::new();
            let mine = cuda::register(pages.all(), 0);
            // 712 means that the memory has an owner already, who will unregister it.
            let theirs = cuda::register(pages.all(), 0);
            cuda::codes(&[mine, theirs, cuda::unregister(pages.all())])
        },
        right: "0 712 0",
        depends_on_machine: false,
    },
    // ANCHOR_END: f34
    // ANCHOR: f36
    Case {
        id: "F36",
        title: "a read-only file mapping is pinned without asking whether that works",
        source: "https://github.com/vllm-project/vllm-omni/pull/6240",
        broken: |lab| {
            lab.context();
            let file = Mapped::new(libc::PROT_READ);
            file.register_and_unregister(READ_ONLY)
        },
        wrong: "801",
        hazards: &[],
        fixed: |lab| {
            lab.context();
            let asked = cuda::attribute(
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
            );
            if asked == 1 {
                Mapped::new(libc::PROT_READ).register_and_unregister(READ_ONLY)
            } else {
                Mapped::new(libc::PROT_READ | libc::PROT_WRITE).register_and_unregister(0)
            }
        },
        right: "0",
        depends_on_machine: true,
    },
    // ANCHOR_END: f36
];

// ANCHOR: f30
/// F30: four requests of 260 KiB.
fn pinned_for_four_requests(lab: &mut Lab, rounds_up: bool) -> Outcome {
    const REQUEST: usize = 260 << 10;
    lab.context();
    let mut cache = Cache::new(rounds_up, None);
    let blocks = [(); 4].map(|()| cache.take(REQUEST));
    let obtained = cache.obtained();
    for block in blocks {
        cache.give(block);
    }
    cache.trim();
    format!("{} KiB for {}", obtained >> 10, (4 * REQUEST) >> 10)
}
// ANCHOR_END: f30

// ANCHOR: f32
/// F32: blocks of 64 KiB to 1 MiB, each taken once and given back.
fn cached_after_use(lab: &mut Lab, cap: Option<usize>) -> Outcome {
    lab.context();
    let mut cache = Cache::new(false, cap);
    for size in 16..=20 {
        let block = cache.take(1 << size);
        cache.give(block);
    }
    let cached = cache.cached();
    cache.trim();
    assert_eq!(cache.cached(), 0, "trim gives everything back");
    format!("{} KiB cached, 0 in use", cached >> 10)
}
// ANCHOR_END: f32

/// Pages of memory that nobody else uses.
struct Pages(::lab::Pageable<u32>);

impl Pages {
    fn new() -> Pages {
        let words = 4 * ::lab::page_size() / 4;
        Pages(::lab::Pageable::zeroed(words).expect("four pages of memory"))
    }

    fn all(&self) -> Host {
        Host {
            address: self.0.as_ptr() as usize,
            bytes: 4 * self.0.len(),
        }
    }
}

/// One page of a file, mapped privately.
struct Mapped {
    _file: File,
    address: *mut libc::c_void,
    bytes: usize,
}

impl Mapped {
    fn new(protection: i32) -> Mapped {
        let bytes = ::lab::page_size();
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&vec![1; bytes]).expect("one page of a file");
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED, "mapping a file");
        Mapped {
            _file: file,
            address,
            bytes,
        }
    }

    fn register_and_unregister(&self, flags: u32) -> Outcome {
        let host = Host {
            address: self.address as usize,
            bytes: self.bytes,
        };
        let code = cuda::register(host, flags);
        if code == Code::SUCCESS {
            cuda::unregister(host).ok();
        }
        code.to_string()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}
