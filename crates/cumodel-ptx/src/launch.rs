//! What a launch is given, and what it gives back.
use crate::access::merge;
use crate::code::Constant;
use crate::exec::block::Block;
use crate::exec::warp::{Failure, Machine};
use crate::{Access, Kernel, Memory, Module};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// The most threads of a block, on every device.
const MOST_THREADS: u64 = 1024;
/// Blocks that a core takes at once, so that neighbouring blocks touch memory one after the other.
const CHUNK: u64 = 16;

/// Blocks of one core, and what came of them.
struct Share {
    block: Block,
    instructions: u64,
    /// The block that failed, by its number, and how.
    failure: Option<(u64, usize, Failure)>,
}

/// What all cores of a launch look at.
struct Progress {
    next_block: AtomicU64,
    instructions: AtomicU64,
    stop: AtomicBool,
}

pub(crate) fn run(
    module: &Module,
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn Memory,
) -> Result<Executed, Box<Stopped>> {
    let misfit = |what: String| {
        Box::new(Stopped {
            kernel: kernel.name.clone(),
            line: 0,
            block: [0; 3],
            thread: [0; 3],
            reason: Reason::BadLaunch { what },
            executed: Executed::default(),
        })
    };
    check(module, kernel, launch).map_err(misfit)?;
    let machine = machine(module, kernel, launch, memory);
    let blocks = launch
        .grid
        .iter()
        .map(|&count| u64::from(count))
        .product::<u64>();
    let ordered = module.code.functions[kernel.function].ordered;
    let cores = if ordered {
        1
    } else {
        (launch.cores.max(1) as u64).min(blocks.div_ceil(CHUNK))
    };
    let progress = Progress {
        next_block: AtomicU64::new(0),
        instructions: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let share = || share(&machine, kernel, launch, blocks, &progress);
    let shares: Vec<Share> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(share)).collect();
        let mine = share();
        let others = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        std::iter::once(mine).chain(others).collect()
    });
    collect(module, kernel, launch, shares)
}

fn check(module: &Module, kernel: &Kernel, launch: &Launch<'_>) -> Result<(), String> {
    let threads = launch
        .block
        .iter()
        .map(|&count| u64::from(count))
        .product::<u64>();
    if launch.block.contains(&0) || launch.grid.contains(&0) {
        return Err(format!(
            "grid {:?} or block {:?} has a size of 0",
            launch.grid, launch.block
        ));
    }
    if threads > MOST_THREADS
        || launch
            .block
            .iter()
            .any(|&size| u64::from(size) > MOST_THREADS)
    {
        return Err(format!(
            "a block of {threads} threads has more than {MOST_THREADS}"
        ));
    }
    if launch
        .grid
        .iter()
        .map(|&count| u128::from(count))
        .product::<u128>()
        > u128::from(u64::MAX)
    {
        return Err(format!(
            "the grid {:?} has more blocks than can be counted",
            launch.grid
        ));
    }
    if launch.params.len() != kernel.param_bytes {
        return Err(format!(
            "{} bytes of parameters instead of {}",
            launch.params.len(),
            kernel.param_bytes
        ));
    }
    if launch.globals.len() != module.globals().len() {
        return Err(format!(
            "addresses of {} variables instead of {}",
            launch.globals.len(),
            module.globals().len()
        ));
    }
    match kernel.static_shared.checked_add(launch.dynamic_shared) {
        Some(bytes) if bytes <= 1 << 20 => Ok(()),
        _ => Err(format!(
            "{} bytes of dynamic shared memory are more than a block can have",
            launch.dynamic_shared
        )),
    }
}

fn machine<'m>(
    module: &'m Module,
    kernel: &Kernel,
    launch: &'m Launch<'_>,
    memory: &'m dyn Memory,
) -> Machine<'m> {
    let code = &module.code;
    // `extern __shared__` starts behind the rest, where any type may lie.
    let dynamic = i64::from(kernel.static_shared.next_multiple_of(16));
    let resolve = |constant: Constant| match constant {
        Constant::Global(index, offset) => {
            Constant::Bits(launch.globals[index].wrapping_add(offset as u64))
        }
        Constant::DynamicShared(offset) => Constant::Bits(dynamic.wrapping_add(offset) as u64),
        other => other,
    };
    let constants = code.functions.iter().enumerate().map(|(index, function)| {
        // Other kernels cannot be reached.
        let reachable = !function.entry || index == kernel.function;
        let constants = function.constants.iter().filter(|_| reachable);
        constants
            .map(|&(reg, constant)| (reg, resolve(constant)))
            .collect()
    });
    let called = || code.functions.iter().filter(|function| !function.entry);
    let most = |size: fn(&crate::code::Function) -> usize| called().map(size).max().unwrap_or(0);
    Machine {
        code,
        kernel: kernel.function,
        constants: constants.collect(),
        stride: [
            most(|function| function.registers),
            most(|function| function.predicates),
            most(|function| function.local),
        ],
        memory,
        params: launch.params,
    }
}

/// One core's part of a launch: chunks of blocks until none is left.
fn share(
    machine: &Machine<'_>,
    kernel: &Kernel,
    launch: &Launch<'_>,
    blocks: u64,
    progress: &Progress,
) -> Share {
    let static_shared = if launch.dynamic_shared == 0 {
        kernel.static_shared
    } else {
        kernel.static_shared.next_multiple_of(16)
    };
    let block = Block::new(
        machine,
        launch.block,
        launch.grid,
        static_shared,
        launch.dynamic_shared,
    );
    let mut share = Share {
        block,
        instructions: 0,
        failure: None,
    };
    loop {
        let first = progress.next_block.fetch_add(CHUNK, Ordering::Relaxed);
        if first >= blocks {
            return share;
        }
        for number in first..blocks.min(first + CHUNK) {
            let instructions = &mut share.instructions;
            let go_on = |executed: u64| {
                *instructions += executed;
                let all = progress.instructions.fetch_add(executed, Ordering::Relaxed) + executed;
                if all > launch.budget {
                    return Err(Reason::Budget {
                        budget: launch.budget,
                    });
                }
                Ok(())
            };
            if progress.stop.load(Ordering::Relaxed) {
                return share;
            }
            if let Err((warp, failure)) =
                share.block.run(machine, index(number, launch.grid), go_on)
            {
                progress.stop.store(true, Ordering::Relaxed);
                share.failure = Some((number, warp, failure));
                return share;
            }
        }
    }
}

/// The place of a block in the grid.
fn index(number: u64, grid: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = grid.map(u64::from);
    [number % x, number / x % y, number / x / y].map(|axis| axis as u32)
}

/// Joins what the cores did. If several failed, the first block of the grid speaks.
fn collect(
    module: &Module,
    kernel: &Kernel,
    launch: &Launch<'_>,
    shares: Vec<Share>,
) -> Result<Executed, Box<Stopped>> {
    let mut executed = Executed::default();
    let mut stopped: Option<(u64, Stopped)> = None;
    for Share {
        block,
        instructions,
        failure,
    } in shares
    {
        executed.instructions += instructions;
        if let Some((number, warp, failure)) = failure {
            if stopped.as_ref().is_none_or(|(other, _)| number < *other) {
                let at = Stopped {
                    kernel: kernel.name.clone(),
                    line: module
                        .code
                        .insts
                        .get(failure.pc as usize)
                        .map_or(0, |inst| inst.line),
                    block: index(number, launch.grid),
                    thread: block.thread(warp, failure.lane),
                    reason: failure.reason,
                    executed: Executed::default(),
                };
                stopped = Some((number, at));
            }
        }
        executed.reads.extend(block.reads.into_runs());
        executed.writes.extend(block.writes.into_runs());
    }
    merge(&mut executed.reads);
    merge(&mut executed.writes);
    match stopped {
        None => Ok(executed),
        Some((_, stopped)) => Err(Box::new(Stopped {
            executed,
            ..stopped
        })),
    }
}
