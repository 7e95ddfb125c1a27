//! What the model exports besides the driver's functions, for tests: no real driver has these names.

use std::ffi::{c_char, c_int, CStr};
use std::ptr;

use crate::state::lock;

/// Which model of a driver this is.
#[no_mangle]
pub extern "C" fn cumodel_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Replaces the settings, by what follows the environment's: `schedule=last pageable=direct …`.
///
/// Returns 0, or 1 with a sentence on stderr when a setting is wrong or a context lives.
///
/// # Safety
///
/// `settings` is a NUL-terminated string.
#[no_mangle]
pub unsafe extern "C" fn cumodel_configure(settings: *const c_char) -> c_int {
    if settings.is_null() {
        return 1;
    }
    // SAFETY: by the caller's promise.
    let settings = unsafe { CStr::from_ptr(settings) }.to_string_lossy();
    match lock().configure(&settings) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("model: cumodel_configure: {error}");
            1
        }
    }
}

/// Copies the reports since the last call, as JSON lines, and forgets them, if they fit into `length` bytes.
///
/// Returns how many bytes they are.
///
/// # Safety
///
/// `buffer` is valid for `length` bytes of writes, or `length` is 0.
#[no_mangle]
pub unsafe extern "C" fn cumodel_take_reports(buffer: *mut c_char, length: usize) -> usize {
    let mut state = lock();
    let text = state.reports.kept();
    if !buffer.is_null() && text.len() <= length {
        // SAFETY: by the caller's promise.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
        state.reports.forget_kept();
    }
    text.len()
}

/// After a run under the schedule `explore` whose contexts are released: sets the next schedule up.
///
/// Returns 1 when there is one, 0 when all have been run.
#[no_mangle]
pub extern "C" fn cumodel_explore_next() -> c_int {
    let mut state = lock();
    c_int::from(
        state
            .engine
            .explorer()
            .is_some_and(|explorer| explorer.next_run()),
    )
}

/// Instructions that kernels have executed since the first context of this life, counted once for each thread.
#[no_mangle]
pub extern "C" fn cumodel_instructions() -> u64 {
    lock().instructions
}
