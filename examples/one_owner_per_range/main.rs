//! A range has one registration: a second one is refused with 712, and only the owner's start unregisters it.
//! hazard: none

use std::ffi::c_void;

use cudarc::driver::{sys, CudaContext, DriverError};
use lab::Pageable;

/// Registers a range and returns the driver's code.
fn register(start: *mut u8, bytes: usize) -> u32 {
    // SAFETY: the callers pass ranges of a mapping that outlives its registration.
    code(unsafe { sys::cuMemHostRegister_v2(start.cast::<c_void>(), bytes, 0) }.result())
}

/// Unregisters what begins at `start` and returns the driver's code.
fn unregister(start: *mut u8) -> u32 {
    // SAFETY: no copy uses the memory, and the driver refuses a start that it does not know.
    code(unsafe { sys::cuMemHostUnregister(start.cast::<c_void>()) }.result())
}

fn code(result: Result<(), DriverError>) -> u32 {
    result.map_or_else(|error| error.0 as u32, |()| 0)
}

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let _ctx = CudaContext::new(0)?;

    // ANCHOR: idea
    let page = lab::page_size();
    let mut memory = Pageable::<u8>::zeroed(4 * page)?;
    let start = memory.as_mut_ptr();
    let inside = start.wrapping_add(page);

    println!("register four pages: {}", register(start, 4 * page));
    // 712 says that the range has an owner. It is no success: whoever takes it for one will unregister what is not his.
    println!("register them again: {}", register(start, 4 * page));
    println!("register one of them: {}", register(inside, page));

    println!("unregister from the middle: {}", unregister(inside));
    println!("unregister from the start: {}", unregister(start));
    // 713: there is nothing registered any more.
    println!("unregister again: {}", unregister(start));
    // ANCHOR_END: idea
    Ok(())
}
