//! PTX, executed on the CPU.
//!
//! [`Module::load`] parses the text that nvrtc writes for compute_80 and decodes it once; [`Module::run`] executes one
//! kernel over a grid against a [`Memory`] of the caller, and says which bytes it read and wrote. What is not supported is
//! refused by `load` with the line and the instruction, and never ignored. [`mnemonics`] lists what is.
//!
//! # Executed exactly
//!
//! - Integers of 8 to 64 bits: sums, products and their halves, carries, saturation, shifts beyond the width, bit fields.
//! - `f32` and `f64`: sums, products, quotients, `fma`, `sqrt`, `rcp` and conversions, in all four rounding modes, with
//!   flushing of subnormals and saturation. `f16`: sums, products, `fma`, extremes and conversions; `bf16`: the last three.
//! - Control: branches, jump tables, calls by name, through pointers and recursive, barriers, shuffles, votes, atomics.
//! - Memory: global, constant, shared, local and parameter memory, generic addresses, vectors. An address that is no multiple
//!   of the element's size, or that no memory holds, stops the launch as it does on a device.
//!
//! # Executed within an error
//!
//! `ex2`, `lg2`, `sin`, `cos`, `tanh`, `rsqrt` and the `.approx` forms of `rcp`, `sqrt` and `div` are computed in double
//! precision and rounded once. That is within the error that the PTX ISA documents, and differs from a device's own last bits.
//! `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` give the upper half of a double, as documented.
//!
//! # Chosen where the ISA leaves it open
//!
//! - A NaN that is computed is 0x7fffffff, 0x7ff8000000000000 or 0x7fff; payloads are not kept.
//! - An integer divided by zero is all ones, and the remainder is the dividend.
//! - Shared and local memory holds the byte 0xcd before the first write, because nothing promises zeros there.
//! - A lane outside of its own member mask, a shuffle from a lane that does not take part, a jump beyond its table and a call
//!   of what is no function stop the launch as [`Reason::Undefined`].
//!
//! # Not modelled
//!
//! - Time, occupancy and caches. `%clock` counts the instructions of the warp, `%globaltimer` is refused, `nanosleep`,
//!   `prefetch` and cache hints change nothing. There is one multiprocessor.
//! - The memory model between threads: accesses happen in program order, so a missing fence does not show.
//!   Blocks on two cores race as the [`Memory`] lets them.
//! - A block that waits for a later block waits for ever, and ends by [`Launch::budget`]: blocks start in the order of the
//!   grid and are never set aside for others. Waiting for an earlier block works.
//! - Matrix and texture instructions, asynchronous copies, clusters, and everything that came with sm_90.
//!
//! # How it runs
//!
//! An instruction becomes a function over the 32 lanes of a warp, and a register an array over them. Lanes that part are
//! executed in groups, the deepest call and the lowest instruction first, so that they meet again; a group or a warp that
//! runs for long makes way for the others, so that a thread which spins until another one acts sees it act.
//!
//! Blocks run on as many cores as [`Launch::cores`] says, in chunks of neighbours. A kernel whose atomics on global memory
//! could show the order of blocks runs them one after the other on one core, so that each run gives the same bits: sums of
//! floats depend on their order, and so does every value that an atomic returns. Kernels whose only atomics are one kind of
//! integer sum, extreme or logic, with the returned value unused, are not among them.
#![forbid(unsafe_code)]

mod access;
mod code;
mod decode;
mod exec;
mod launch;
mod memory;
mod module;
mod syntax;
mod types;

pub use decode::mnemonics;
pub use launch::{Executed, Launch, Reason, Stopped};
pub use memory::{Access, Memory, OutOfRange};
pub use module::{Global, Kernel, LoadError, Module, Param};
