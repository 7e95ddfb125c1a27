//! What can go wrong, in sentences.

use cudarc::driver::DriverError;

/// Why a pool could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool would hold no memory.
    #[error("a pool of {buffers} buffers of {bytes} bytes holds nothing: ask for at least one buffer of at least one byte")]
    Empty {
        /// How many buffers were asked for.
        buffers: usize,
        /// Their size, in bytes.
        bytes: usize,
    },
    /// No machine has addresses for such a buffer.
    #[error("a buffer of {len} elements is larger than any address space")]
    TooLarge {
        /// How many elements were asked for.
        len: usize,
    },
    /// The driver refused the pinned memory of a buffer; the buffers before it are freed again.
    #[error("pinning buffer {number} of {buffers} ({bytes} bytes each): {source}; use fewer or shorter buffers")]
    Pin {
        /// Which buffer it was, counted from 1.
        number: usize,
        /// How many buffers were asked for.
        buffers: usize,
        /// The size of each, in bytes.
        bytes: usize,
        /// What the driver said.
        source: DriverError,
    },
    /// The device memory is longer than the buffer that it was to be copied through.
    #[error("{elements} elements do not fit into a buffer of {len}: copy them in parts, or make the pool's buffers longer")]
    TooLong {
        /// The elements to copy.
        elements: usize,
        /// The elements of a buffer.
        len: usize,
    },
    /// The stream belongs to another context than the pool, whose events it cannot record.
    #[error("the stream belongs to another context than the pool: make one pool for each context")]
    OtherContext,
    /// The driver refused a step.
    #[error("{doing}: {source}")]
    Driver {
        /// The step.
        doing: &'static str,
        /// What the driver said.
        source: DriverError,
    },
}

/// Says which step it was that the driver refused.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Driver { doing, source })
    }
}
