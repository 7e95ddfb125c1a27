//! Page faults of this process, as the kernel counts them.

use std::io;
use std::mem::MaybeUninit;

use anyhow::{Context, Result};

/// Page faults that threads of this process have taken.
///
/// A fault that the driver takes in a thread of its own, on behalf of the GPU, is not in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Faults that needed no input: the kernel found or made the page in memory.
    pub minor: u64,
    /// Faults that read the page from a disk.
    pub major: u64,
}

impl Faults {
    /// All faults since the process started.
    ///
    /// # Errors
    /// When the kernel does not answer `getrusage`.
    pub fn now() -> Result<Self> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel fills the whole structure when it returns 0.
        let usage = unsafe {
            if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error()).context("counting page faults: getrusage");
            }
            usage.assume_init()
        };
        Ok(Self {
            minor: usage.ru_minflt as u64,
            major: usage.ru_majflt as u64,
        })
    }

    /// The faults between `earlier` and `self`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            minor: self.minor - earlier.minor,
            major: self.major - earlier.major,
        }
    }
}
