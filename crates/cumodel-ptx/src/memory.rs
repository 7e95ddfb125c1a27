//! The memory that a kernel sees outside of its own block.

/// The memory does not hold all the bytes that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

/// Global and constant memory, addressed as the kernel addresses it.
///
/// Blocks run on several cores, so every function takes `&self`. A run of neighbouring lanes arrives as one call; no call
/// crosses an address that the kernel did not name. Accesses are aligned to the size of the kernel's element.
/// Two accesses that race are the implementer's matter: it must stay sound, and may return either value.
pub trait Memory: Sync {
    /// Copies the bytes from `address` on into `into`.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory does not hold all of them; then `into` holds no promise.
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfRange>;

    /// Copies `from` to the bytes from `address` on.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory does not hold all of them; then none was written.
    fn store(&self, address: u64, from: &[u8]) -> Result<(), OutOfRange>;

    /// Replaces the `bytes` (2, 4 or 8, little-endian, aligned) at `address` by what `update` makes of them, in one
    /// indivisible step, and returns the value before. `update` may be called more than once.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory does not hold them; then nothing was written.
    fn update(
        &self,
        address: u64,
        bytes: usize,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, OutOfRange>;
}

/// What an instruction did with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It read.
    Read,
    /// It wrote.
    Write,
    /// It read and wrote in one step.
    Atomic,
}
