//! Decoded instructions.
use crate::exec::lanes::Frame;
use crate::exec::memory::{Atomic, Transfer};
use crate::exec::sync::{Barrier, WarpSync};

/// The number of a register in its function's frame.
pub(crate) type Reg = u32;
/// The number of a predicate in its function's frame.
pub(crate) type Pred = u32;
/// A set of lanes of a warp.
pub(crate) type Mask = u32;

/// Everything a lane computes by itself, applied to the lanes of a mask.
pub(crate) type Lanes = Box<dyn Fn(&mut Frame<'_>, Mask) + Send + Sync>;

/// One instruction.
pub(crate) struct Inst {
    pub(crate) line: u32,
    pub(crate) guard: Option<(Pred, bool)>,
    pub(crate) op: Op,
}

/// What an instruction does.
pub(crate) enum Op {
    Lanes(Lanes),
    Load(Box<Transfer>),
    Store(Box<Transfer>),
    Atomic(Box<Atomic>),
    /// To a label while a function is decoded, to an index into the code afterwards.
    Branch(u32),
    BranchIndexed {
        index: Reg,
        targets: Box<[u32]>,
    },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    Barrier(Box<Barrier>),
    WarpSync(Box<WarpSync>),
    /// Fences, hints and sleeps: the model executes memory accesses in program order.
    Nothing,
}

/// A call of a device function.
pub(crate) struct Call {
    pub(crate) target: Target,
    /// Where the caller has put the arguments, in its frame of local memory, and how many bytes each has.
    pub(crate) arguments: Vec<(u32, usize)>,
    pub(crate) results: Vec<(u32, usize)>,
}

/// Who is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// An index into [`Code::functions`].
    Function(usize),
    /// A register that holds a function's address.
    Pointer(Reg),
}

/// What a constant of a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Bits(u64),
    /// The address of a variable of the module, and an offset.
    Global(usize, i64),
    /// Behind the shared memory that the kernel declares.
    DynamicShared(i64),
    /// In the frame's local memory.
    Local(u32),
}

/// One function: a kernel or a device function.
pub(crate) struct Function {
    pub(crate) entry: bool,
    /// Its first instruction.
    pub(crate) start: u32,
    pub(crate) registers: usize,
    /// Registers that never change: set when a frame is entered.
    pub(crate) constants: Vec<(Reg, Constant)>,
    pub(crate) predicates: usize,
    /// Bytes of local memory of one thread: parameters, results, variables and arguments of calls.
    pub(crate) local: usize,
    /// Offset and size of each parameter in local memory (device functions only).
    pub(crate) params: Vec<(u32, usize)>,
    pub(crate) results: Vec<(u32, usize)>,
    /// The order of blocks may show in its results, so they run one after the other.
    pub(crate) ordered: bool,
}

/// All functions of a module.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) insts: Vec<Inst>,
    pub(crate) functions: Vec<Function>,
    /// How many instructions touch memory: each has a number of its own.
    pub(crate) accesses: usize,
}

/// Generic addresses of shared memory start here: x86-64 and Arm give such addresses to nobody.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Generic addresses of local memory start here.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 56;
/// Generic addresses of kernel parameters start here.
pub(crate) const PARAM_WINDOW: u64 = 3 << 56;
/// Addresses of functions start here.
pub(crate) const FUNCTION_WINDOW: u64 = 4 << 56;
/// Bytes of each window.
pub(crate) const WINDOW: u64 = 1 << 32;

/// The address that a pointer to this function holds.
pub(crate) fn function_address(index: usize) -> u64 {
    FUNCTION_WINDOW + 16 * (index as u64 + 1)
}

/// The function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FUNCTION_WINDOW + 16)?;
    (offset % 16 == 0).then_some((offset / 16) as usize)
}

/// The most bytes of local memory of one thread, as on the devices.
pub(crate) const LOCAL_LIMIT: usize = 512 << 10;
