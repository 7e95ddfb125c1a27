//! Error handling: names and texts of result codes.

use std::ffi::c_char;
use std::ptr;

use crate::code::describe;
use crate::Code;

/// The text of a result code.
#[no_mangle]
pub unsafe extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> u32 {
    // SAFETY: the manual's requirement on the out-pointer.
    unsafe { give_text(describe(error).map(|(_, text)| text), text) }
}

/// The name of a result code.
#[no_mangle]
pub unsafe extern "C" fn cuGetErrorName(error: u32, name: *mut *const c_char) -> u32 {
    // SAFETY: the manual's requirement on the out-pointer.
    unsafe { give_text(describe(error).map(|(name, _)| name), name) }
}

/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn give_text(text: Option<&'static std::ffi::CStr>, out: *mut *const c_char) -> u32 {
    if out.is_null() {
        return Code::InvalidValue as u32;
    }
    // SAFETY: not null, so valid for a write by the caller's promise.
    unsafe { out.write(text.map_or(ptr::null(), |text| text.as_ptr())) };
    if text.is_some() {
        0
    } else {
        Code::InvalidValue as u32
    }
}
