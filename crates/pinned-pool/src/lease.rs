//! A buffer on loan.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits};

use crate::buffer::Buffer;
use crate::error::Error;
use crate::pool::Shared;

/// A pinned buffer that nobody else has.
///
/// Every copy through it records an event, and every access of the host waits for that event first: between the host
/// and the copies there is no wait left to write.
///
/// Dropping it gives the buffer back at once and waits for nothing, even with a copy in flight. The pool waits before
/// it lends the buffer again.
#[derive(Debug)]
pub struct Lease<T> {
    buffer: ManuallyDrop<Buffer<T>>,
    pool: Arc<Shared<T>>,
}

impl<T> Lease<T> {
    pub(crate) fn new(buffer: Buffer<T>, pool: Arc<Shared<T>>) -> Self {
        Lease {
            buffer: ManuallyDrop::new(buffer),
            pool,
        }
    }

    /// Waits until no copy uses the buffer any more.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.buffer.wait()
    }

    /// Orders the last copy of this lease before everything that is queued on `stream` from now on. Waits for nothing.
    ///
    /// It is the barrier that a stream needs before it overwrites the device memory that a [`download`] reads, or reads
    /// what an [`upload`] writes.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// [`download`]: Lease::download
    /// [`upload`]: Lease::upload
    pub fn order_before(&self, stream: &CudaStream) -> Result<(), Error> {
        self.buffer.order_before(stream)
    }
}

impl<T: DeviceRepr + ValidAsZeroBits> Lease<T> {
    /// Queues a copy of all of `source` to the start of the buffer, and returns without waiting for it.
    ///
    /// It runs in the order of `stream`, and after the copies that this buffer took part in before, on any stream.
    /// What orders it after the work that produces `source`, and before the work that overwrites it, is the caller's:
    /// see [`Lease::order_before`].
    ///
    /// # Errors
    /// When `source` is longer than the buffer, `stream` is of another context than the pool, or the driver refuses.
    pub fn download(
        &mut self,
        stream: &Arc<CudaStream>,
        source: &impl DevicePtr<T>,
    ) -> Result<(), Error> {
        self.buffer.download(stream, source)
    }

    /// Queues a copy from the start of the buffer to all of `target`, and returns without waiting for it.
    ///
    /// It is ordered as [`Lease::download`] is.
    ///
    /// # Errors
    /// When `target` is longer than the buffer, `stream` is of another context than the pool, or the driver refuses.
    pub fn upload(
        &mut self,
        stream: &Arc<CudaStream>,
        target: &mut impl DevicePtrMut<T>,
    ) -> Result<(), Error> {
        self.buffer.upload(stream, target)
    }

    /// Waits for the last copy, then shows the whole buffer: zeros and what earlier leases left, where no copy wrote.
    ///
    /// # Errors
    /// When the driver reports an error while it waits.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        self.buffer.as_slice()
    }

    /// Waits for the last copy, then opens the whole buffer for writing.
    ///
    /// # Errors
    /// When the driver reports an error while it waits.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        self.buffer.as_mut_slice()
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        // SAFETY: the lease ends here, and nothing uses the field afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        self.pool.give_back(buffer);
    }
}
