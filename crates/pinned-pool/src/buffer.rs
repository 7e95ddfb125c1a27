//! One pinned buffer, and the event that says when its last copy is complete.

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use cudarc::driver::{
    result, sys, CudaContext, CudaEvent, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr,
    DriverError, ValidAsZeroBits,
};

use crate::error::{Doing, Error};

/// cuMemHostAlloc without flags: cached, page-locked memory. The CPU reads write-combined memory, which is what
/// `alloc_pinned` of cudarc gives, without its cache.
const CACHED: u32 = 0;

/// Pinned memory that the host touches only when no copy uses it.
///
/// Each copy waits, in stream order, for the copy before it, so that the last event covers all of them.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    start: NonNull<T>,
    len: usize,
    /// Recorded behind the last copy; an event that was never recorded is complete.
    last_copy: CudaEvent,
    /// A copy may be queued that the event does not cover, because the driver refused to record it.
    uncovered: bool,
}

// SAFETY: the memory belongs to this value alone, like that of a `Vec`, and the driver's calls may come from any thread
// that has bound the context, which each of ours does.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: a shared reference gives shared references to the elements, and waits for an event.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T: DeviceRepr + ValidAsZeroBits> Buffer<T> {
    /// Pins room for `len` elements and writes zeros to all of them, so that every page is there before the first copy.
    ///
    /// The caller has checked that the size is above zero and fits into an `isize`.
    pub fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self, DriverError> {
        let last_copy = context.new_event(None)?;
        // SAFETY: the memory is zeroed below, before anything can read it.
        let start = unsafe { result::malloc_host(len * size_of::<T>(), CACHED) }?;
        // The driver aligns its allocations for every type that a device can have.
        let start = NonNull::new(start.cast::<T>());
        let start = start.ok_or(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY))?;
        // SAFETY: the allocation holds `len` elements, and zero is a value of `T`.
        unsafe { start.as_ptr().write_bytes(0, len) };
        Ok(Buffer {
            start,
            len,
            last_copy,
            uncovered: false,
        })
    }

    pub fn download(
        &mut self,
        stream: &Arc<CudaStream>,
        source: &impl DevicePtr<T>,
    ) -> Result<(), Error> {
        let len = self.begin(stream, source.len())?;
        let (address, _tracked) = source.device_ptr(stream);
        // SAFETY: the buffer holds `len` elements, which nobody else touches before the event below is complete: each
        // way to them waits for it.
        let queued = unsafe {
            let target = slice::from_raw_parts_mut(self.start.as_ptr(), len);
            result::memcpy_dtoh_async(target, address, stream.cu_stream())
        };
        queued.doing("queueing a copy from the device")?;
        self.end(stream)
    }

    pub fn upload(
        &mut self,
        stream: &Arc<CudaStream>,
        target: &mut impl DevicePtrMut<T>,
    ) -> Result<(), Error> {
        let len = self.begin(stream, target.len())?;
        let (address, _tracked) = target.device_ptr_mut(stream);
        // SAFETY: as for a download; the elements are initialized from the start.
        let queued = unsafe {
            let source = slice::from_raw_parts(self.start.as_ptr(), len);
            result::memcpy_htod_async(address, source, stream.cu_stream())
        };
        queued.doing("queueing a copy to the device")?;
        self.end(stream)
    }

    /// Checks that the copy is possible, and orders it after the one before.
    fn begin(&mut self, stream: &CudaStream, elements: usize) -> Result<usize, Error> {
        if stream.context() != self.last_copy.context() {
            return Err(Error::OtherContext);
        }
        if elements > self.len {
            return Err(Error::TooLong {
                elements,
                len: self.len,
            });
        }
        if self.uncovered {
            self.wait()?;
        }
        self.order_before(stream)?;
        self.uncovered = true;
        Ok(elements)
    }

    /// Records the event behind the copy that was just queued.
    fn end(&mut self, stream: &CudaStream) -> Result<(), Error> {
        let recorded = self.last_copy.record(stream);
        recorded.doing("recording the event behind a copy")?;
        self.uncovered = false;
        Ok(())
    }

    pub fn as_slice(&self) -> Result<&[T], Error> {
        self.wait()?;
        // SAFETY: the memory holds `len` elements, initialized in `new`, and no copy is pending: the wait is over, and
        // a new one needs `&mut self`.
        Ok(unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        self.wait()?;
        // SAFETY: as above, and the borrow of `self` is exclusive.
        Ok(unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }
}

impl<T> Buffer<T> {
    pub fn order_before(&self, stream: &CudaStream) -> Result<(), Error> {
        let ordered = stream.wait(&self.last_copy);
        ordered.doing("making a stream wait for the last copy of a pinned buffer")
    }

    /// Returns when no copy uses the buffer any more.
    pub fn wait(&self) -> Result<(), Error> {
        let waited = if self.uncovered {
            self.last_copy.context().synchronize()
        } else {
            self.last_copy.synchronize()
        };
        waited.doing("waiting for the last copy of a pinned buffer")
    }

    /// Does no copy use the buffer any more? Never waits.
    pub fn is_idle(&self) -> Result<bool, Error> {
        if self.uncovered {
            return Ok(false);
        }
        // The query itself does not make the context current.
        let bound = self.last_copy.context().bind_to_thread();
        let complete = bound.and_then(|()| self.last_copy.try_is_complete());
        complete.doing("asking whether the last copy of a pinned buffer is complete")
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // Without the driver's word that the last copy is over, the memory is leaked: freed, it would be written later.
        if self.wait().is_ok() {
            // SAFETY: the driver allocated the memory, and nothing uses it any more.
            let freed = unsafe { result::free_host(self.start.as_ptr().cast()) };
            // cudarc returns this from its next call; a destructor has no other way to tell.
            self.last_copy.context().record_err(freed);
        }
    }
}
