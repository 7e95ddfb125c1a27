//! PTX, executed on the CPU.
//!
//! [`Module::load`] parses the text that `nvrtc` writes for compute_80 and decodes it once; [`Module::run`] executes one
//! kernel over a grid against a [`Memory`] of the caller, and says which bytes it read and wrote.
#![forbid(unsafe_code)]

mod access;
mod code;
mod decode;
mod exec;
mod flat;
mod launch;
mod memory;
mod module;
mod syntax;
mod types;

pub use decode::mnemonics;
pub use flat::FlatMemory;
pub use launch::{Executed, Launch, Reason, Stopped};
pub use memory::{Access, Memory, OutOfRange};
pub use module::{Global, Kernel, LoadError, Module, Param};
