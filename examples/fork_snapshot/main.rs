//! A forked child has a snapshot of private memory only; shared memory goes on changing under it.
//! hazard: none

use std::io::{self, Read, Write};
use std::ptr;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

/// What one step leaves behind: 4 KiB of values.
const LEN: usize = 1 << 10;

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    let private = map(libc::MAP_PRIVATE)?;
    let shared = map(libc::MAP_SHARED)?;
    let (mut after_step_two, mut step_two_is_done) = io::pipe().context("making a pipe")?;
    let (mut saved, mut to_save) = io::pipe().context("making a pipe")?;

    // ANCHOR: idea
    step(&stream, &mut device, 1, private, shared)?;

    // The child saves what step 1 left behind, while the parent goes on.
    // SAFETY: the child reads, writes and exits, which it may do while other threads of the parent
    // hold locks that it has inherited. It does not call the driver.
    let child = unsafe { libc::fork() };
    ensure!(child >= 0, "forking: {}", io::Error::last_os_error());
    if child == 0 {
        // It is slow: it looks only after the parent's step 2.
        let waited = after_step_two.read_exact(&mut [0]);
        let seen = [private[0] as u8, shared[0] as u8];
        let done = waited.and_then(|()| to_save.write_all(&seen)).is_ok();
        // SAFETY: the process ends without running anything that belongs to the parent.
        unsafe { libc::_exit(if done { 0 } else { 1 }) };
    }

    step(&stream, &mut device, 2, private, shared)?;
    step_two_is_done.write_all(&[2])?;
    let mut seen = [0; 2];
    saved.read_exact(&mut seen)?;
    println!("saved of step 1 from private memory: {}", seen[0]);
    println!("saved of step 1 from shared memory: {}", seen[1]);
    // ANCHOR_END: idea

    // SAFETY: the process is our own child, and nobody else waits for it.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    Ok(())
}

/// Computes `value` on the device, and copies it into both buffers.
fn step(
    stream: &Arc<CudaStream>,
    device: &mut CudaSlice<u32>,
    value: u32,
    private: &mut [u32],
    shared: &mut [u32],
) -> Result<()> {
    lab::fill(stream, device, value)?;
    stream.memcpy_dtoh(device, private)?;
    stream.memcpy_dtoh(device, shared)?;
    stream.synchronize()?;
    Ok(())
}

/// Memory of the whole program, private or shared with its children.
fn map(sharing: i32) -> Result<&'static mut [u32]> {
    let bytes = LEN * size_of::<u32>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping at an address of Linux's choice replaces nothing.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            access,
            sharing | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    ensure!(
        start != libc::MAP_FAILED,
        "mapping: {}",
        io::Error::last_os_error()
    );
    // SAFETY: the mapping has `LEN` values, all zero, and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), LEN) })
}
