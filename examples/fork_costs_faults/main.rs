//! After a fork, every page that the parent writes faults again, unless the child did not get it.
//! hazard: none

use std::io;

use anyhow::{ensure, Context, Result};
use cudarc::driver::CudaContext;
use lab::{Faults, LinuxPin, Pageable};

/// 4 MiB of values.
const LEN: usize = 1 << 20;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    let mut inherited = Pageable::<u32>::zeroed(LEN)?;
    let mut kept = Pageable::<u32>::zeroed(LEN)?;
    let mut pinned = Pageable::<u32>::zeroed(LEN)?;
    let _pin = LinuxPin::of(&pinned).unwrap_or_else(|error| lab::waive(&format!("{error:#}")));
    // The driver's own first faults must not be counted, so it copies into each beforehand.
    for host in [&mut inherited, &mut kept, &mut pinned] {
        stream.memcpy_dtoh(&device, &mut **host)?;
        stream.synchronize()?;
    }

    // ANCHOR: idea
    // The child does not get this buffer, so Linux need not protect it from the parent.
    dont_fork(&mut kept)?;
    let child = Child::fork()?;

    // The parent copies into the same buffers as before, whose pages are all there.
    for (name, host) in [
        ("inherited", &mut inherited),
        ("MADV_DONTFORK", &mut kept),
        ("pinned by Linux", &mut pinned),
    ] {
        for copy in ["first", "second"] {
            let before = Faults::now()?;
            stream.memcpy_dtoh(&device, &mut **host)?;
            stream.synchronize()?;
            let faults = Faults::now()?.since(&before).minor;
            let per_page = faults as f64 / (LEN * size_of::<u32>() / lab::page_size()) as f64;
            println!("{name}, {copy} copy after the fork: {per_page:.2} faults per page");
        }
    }
    drop(child);
    // ANCHOR_END: idea
    Ok(())
}

fn dont_fork(buffer: &mut [u32]) -> Result<()> {
    let bytes = size_of_val(buffer);
    // SAFETY: the range is the buffer, whose contents the advice leaves as they are.
    match unsafe { libc::madvise(buffer.as_mut_ptr().cast(), bytes, libc::MADV_DONTFORK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("keeping a buffer from the child: madvise"),
    }
}

/// A forked process that does nothing at all, until it is dropped.
struct Child(libc::pid_t);

impl Child {
    fn fork() -> Result<Self> {
        // SAFETY: the child only waits for its end. It calls neither the driver nor anything else
        // that a thread of the parent may have been in the middle of.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: pause only waits for a signal.
                unsafe { libc::pause() };
            }
        }
        ensure!(child > 0, "forking: {}", io::Error::last_os_error());
        Ok(Self(child))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the process is our own child, and nobody else waits for it.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}
