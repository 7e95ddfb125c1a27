//! What a launch is given, and what it gives back.
use crate::Access;
use std::ops::Range;

/// One launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks in x, y and z; each at least 1.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z; each at least 1.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared: u32,
    /// The parameters, laid out as [`crate::Kernel::params`] says; [`crate::Kernel::param_bytes`] long.
    pub params: &'a [u8],
    /// The address of each of [`crate::Module::globals`], in their order.
    pub globals: &'a [u64],
    /// How many thread-instructions the launch may execute before it is stopped.
    pub budget: u64,
    /// How many threads of the CPU may execute blocks; at least 1.
    pub cores: usize,
}

/// What a launch did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions, counted once for each thread that executed them.
    pub instructions: u64,
    /// The bytes of the caller's memory that were read: sorted, disjoint, no two adjacent. Atomics count as reads and writes.
    pub reads: Vec<Range<u64>>,
    /// The bytes of the caller's memory that were written: sorted, disjoint, no two adjacent.
    pub writes: Vec<Range<u64>>,
}

/// A launch that did not end by itself.
#[derive(Debug, Clone, thiserror::Error)]
#[error("kernel `{kernel}`, PTX line {line}, block {block:?}, thread {thread:?}: {reason}")]
pub struct Stopped {
    /// The kernel's name in the PTX.
    pub kernel: String,
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// The block, as `%ctaid`.
    pub block: [u32; 3],
    /// The thread in its block, as `%tid`: the first of those that stood at the instruction.
    pub thread: [u32; 3],
    /// What happened.
    pub reason: Reason,
    /// What had been done until then. Blocks that ran on other cores may have done more than the one that stopped.
    pub executed: Executed,
}

/// Why a launch was stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// An address that no allocation holds (CUDA error 700).
    #[error("{access:?} of {bytes} bytes at {address:#x}, which is not allocated")]
    Fault {
        /// As the kernel computed it.
        address: u64,
        /// Of one thread's element.
        bytes: u32,
        /// What the instruction did.
        access: Access,
    },
    /// An address that is no multiple of the element's size (CUDA error 716).
    #[error("{access:?} of {bytes} bytes at {address:#x}, which is no multiple of {bytes}")]
    Misaligned {
        /// As the kernel computed it.
        address: u64,
        /// Of one thread's element.
        bytes: u32,
        /// What the instruction did.
        access: Access,
    },
    /// The budget was used up, so the kernel is taken for one that never ends (CUDA error 702).
    #[error("still running after {budget} thread-instructions; the kernel may never end")]
    Budget {
        /// From [`Launch::budget`].
        budget: u64,
    },
    /// Threads wait for threads that cannot come any more.
    #[error("deadlock: {what}")]
    Deadlock {
        /// Who waits for what.
        what: String,
    },
    /// The kernel executed `trap` (CUDA error 719).
    #[error("the kernel executed trap")]
    Trap,
    /// Calls were nested too deeply (CUDA error 714).
    #[error("calls are nested more than {depth} deep")]
    Stack {
        /// The limit.
        depth: usize,
    },
    /// The program did what the PTX ISA leaves undefined, and going on would hide it.
    #[error("undefined by the PTX ISA: {what}")]
    Undefined {
        /// What it did.
        what: String,
    },
    /// The launch does not fit the kernel; nothing was executed (CUDA error 1).
    #[error("the launch does not fit the kernel: {what}")]
    BadLaunch {
        /// What does not fit.
        what: String,
    },
}
