//! The buffers that nobody has, and whoever waits for one.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, DeviceRepr, ValidAsZeroBits};

use crate::buffer::Buffer;
use crate::error::{Doing, Error};
use crate::lease::Lease;

/// A fixed number of pinned buffers of one length, allocated once.
///
/// Clones share the buffers. They are freed with the last clone and the last [`Lease`], after their last copies.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
pub(crate) struct Shared<T> {
    /// Buffers that nobody has, in the order in which they came back. A copy may still be using them.
    idle: Mutex<VecDeque<Buffer<T>>>,
    came_back: Condvar,
    buffers: usize,
    len: usize,
}

impl<T> Shared<T> {
    pub fn give_back(&self, buffer: Buffer<T>) {
        self.idle().push_back(buffer);
        self.came_back.notify_one();
    }

    /// A panic elsewhere leaves the list whole: each change of it is one push or one remove.
    fn idle(&self) -> MutexGuard<'_, VecDeque<Buffer<T>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: DeviceRepr + ValidAsZeroBits> Pool<T> {
    /// Pins `buffers` buffers of `len` elements each, and touches all their pages.
    ///
    /// This is the only place where the pool allocates.
    ///
    /// # Errors
    /// When a number is zero, the size is beyond any address space, or the driver has no pinned memory left; nothing
    /// stays allocated then.
    pub fn new(context: &Arc<CudaContext>, buffers: usize, len: usize) -> Result<Self, Error> {
        let bytes = len.checked_mul(size_of::<T>());
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or(Error::TooLarge { len })?;
        if buffers == 0 || bytes == 0 {
            return Err(Error::Empty { buffers, bytes });
        }
        let bound = context.bind_to_thread();
        bound.doing("making the pool's context current")?;
        let pin = |number| {
            Buffer::new(context, len).map_err(|source| Error::Pin {
                number,
                buffers,
                bytes,
                source,
            })
        };
        let idle = (1..=buffers).map(pin).collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared {
            idle: Mutex::new(idle),
            came_back: Condvar::new(),
            buffers,
            len,
        });
        Ok(Pool { shared })
    }

    /// Lends a buffer that no copy uses, and waits for one as long as there is none.
    ///
    /// It waits on two accounts: for a buffer to come back while all are lent, and for its last copy to complete. That
    /// is the back-pressure: who produces faster than the copies run is held up here, and pinned memory does not grow.
    ///
    /// A thread that holds all buffers itself waits for ever; it has to drop one before, or use [`Pool::try_acquire`].
    ///
    /// # Errors
    /// When the driver reports an error while it waits; the buffer goes back to the pool.
    pub fn acquire(&self) -> Result<Lease<T>, Error> {
        let mut idle = self.shared.idle();
        let buffer = loop {
            // One that needs no wait, or else the one that has been back longest.
            let index = idle.iter().position(|it| it.is_idle().is_ok_and(|is| is));
            if let Some(buffer) = idle.remove(index.unwrap_or(0)) {
                break buffer;
            }
            let woken = self.shared.came_back.wait(idle);
            idle = woken.unwrap_or_else(PoisonError::into_inner);
        };
        drop(idle);
        let lease = Lease::new(buffer, self.shared.clone());
        lease.wait()?;
        Ok(lease)
    }

    /// Lends a buffer that no copy uses, or returns `None` at once when there is none.
    ///
    /// # Errors
    /// When the driver reports an error instead of saying whether a copy is complete.
    pub fn try_acquire(&self) -> Result<Option<Lease<T>>, Error> {
        let mut idle = self.shared.idle();
        for index in 0..idle.len() {
            if idle[index].is_idle()? {
                let buffer = idle.remove(index);
                return Ok(buffer.map(|it| Lease::new(it, self.shared.clone())));
            }
        }
        Ok(None)
    }
}

impl<T> Pool<T> {
    /// How many buffers the pool has, lent or not.
    pub fn buffers(&self) -> usize {
        self.shared.buffers
    }

    /// The length of each buffer, in elements.
    pub fn buffer_len(&self) -> usize {
        self.shared.len
    }

    /// All pinned memory of the pool, in bytes. It never changes.
    pub fn pinned_bytes(&self) -> usize {
        self.shared.buffers * self.shared.len * size_of::<T>()
    }

    /// How many buffers are lent at this moment.
    pub fn lent(&self) -> usize {
        self.shared.buffers - self.shared.idle().len()
    }
}
