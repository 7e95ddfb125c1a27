//! Result codes of the driver, with their names and texts.
//!
//! Only codes that every version of the bindings knows are ever returned: to a Rust caller an unlisted one is undefined
//! behaviour.

use std::ffi::CStr;

macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// A `CUresult` other than success.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Code {
            $(#[doc = $text] $variant = $number,)*
        }

        const ALL: &[(u32, &CStr, &CStr)] = &[
            (0, c"CUDA_SUCCESS", c"no error"),
            $(($number, {
                // SAFETY: the literal ends with the only NUL that it holds.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!($name, "\0").as_bytes()) }
            }, {
                // SAFETY: as above.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!($text, "\0").as_bytes()) }
            }),)*
        ];
    };
}

codes! {
    InvalidValue = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OutOfMemory = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NotInitialized = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    Deinitialized = 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    NoDevice = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    InvalidDevice = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    InvalidContext = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    InvalidHandle = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    NotFound = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NotReady = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    IllegalAddress = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    ContextIsDestroyed = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    HostMemoryAlreadyRegistered = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    LaunchFailed = 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    NotPermitted = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NotSupported = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    Unknown = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl Code {
    /// The name of the code, as in `cuda.h`.
    pub fn name(self) -> &'static str {
        describe(self as u32)
            .and_then(|(name, _)| name.to_str().ok())
            .unwrap_or("CUDA_ERROR_UNKNOWN")
    }
}

/// Name and text of a result code.
pub fn describe(number: u32) -> Option<(&'static CStr, &'static CStr)> {
    ALL.iter()
        .find(|(known, _, _)| *known == number)
        .map(|(_, name, text)| (*name, *text))
}
