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

        impl Code {
            const ALL: &'static [Code] = &[$(Code::$variant,)*];
        }

        const TEXTS: &[(u32, &CStr, &CStr)] = &[
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
    InvalidImage = 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    InvalidContext = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NoBinaryForGpu = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    InvalidPtx = 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    FileNotFound = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    InvalidHandle = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    NotFound = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NotReady = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    IllegalAddress = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LaunchOutOfResources = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LaunchTimeout = 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    ContextIsDestroyed = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    HostMemoryAlreadyRegistered = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    PeerAccessAlreadyEnabled = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PeerAccessNotEnabled = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    Assert = 710, "CUDA_ERROR_ASSERT", "device-side assert triggered";
    HardwareStackError = 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error";
    MisalignedAddress = 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    LaunchFailed = 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    NotPermitted = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NotSupported = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    StreamCaptureUnsupported = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    StreamCaptureInvalidated = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    StreamCaptureMerge = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    StreamCaptureUnmatched = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    StreamCaptureUnjoined = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    StreamCaptureIsolation = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    StreamCaptureImplicit = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CapturedEvent = 907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    Unknown = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl Code {
    /// The code with a number, if the model knows it.
    pub fn from_number(number: u32) -> Option<Code> {
        Code::ALL
            .iter()
            .copied()
            .find(|code| *code as u32 == number)
    }

    /// Does it stay until the process ends (R74)?
    pub fn is_sticky(self) -> bool {
        matches!(
            self,
            Code::IllegalAddress
                | Code::LaunchTimeout
                | Code::Assert
                | Code::HardwareStackError
                | Code::MisalignedAddress
                | Code::LaunchFailed
        )
    }

    /// The name of the code, as in `cuda.h`.
    pub fn name(self) -> &'static str {
        describe(self as u32)
            .and_then(|(name, _)| name.to_str().ok())
            .unwrap_or("CUDA_ERROR_UNKNOWN")
    }
}

/// Name and text of a result code.
pub fn describe(number: u32) -> Option<(&'static CStr, &'static CStr)> {
    TEXTS
        .iter()
        .find(|(known, _, _)| *known == number)
        .map(|(_, name, text)| (*name, *text))
}
