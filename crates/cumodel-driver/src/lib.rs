//! `libcuda` without a GPU: the CUDA driver ABI over the engine of [`cumodel`].
//!
//! A program that loads this library as `libcuda.so` runs unmodified.
//! Memory is real and is really copied; what differs from hardware is *when*: at the last moment that CUDA's rules permit.
//!
//! | module | its one job |
//! |---|---|
//! | [`abi`] | the exported functions: arguments in, result code out |
//! | `state` | everything behind the one lock |
//! | `run` | performs what the engine hands out; waits |
//! | `host_function` | the thread that runs host functions, and the rescue of an idle program |
//! | `memory` | what is allocated where, and what has been freed |
//! | `module` | loaded modules and their functions |
//! | `kernel` | what a launch is, and how it runs |
//! | `kernel_memory` | the memory that a kernel can reach while it runs |
//! | `assertion` | what a failed `assert` of a kernel calls |
//! | `graph` | stream capture and graphs |
//! | `arena` | memory mapped twice: the program's view can be taken away, the engine's cannot |
//! | `parking` | takes large pieces of memory away without touching each page |
//! | `guard` | the page fault that tells of a host access |
//! | `site` | return addresses to `file:line` |
//! | `report`, `trace` | what is printed and written |
//! | `config` | the environment variables |
//!
//! Linux only: the guard needs memfd, mprotect and a signal handler.

pub mod abi;
mod arena;
mod assertion;
mod code;
mod config;
mod graph;
mod guard;
mod host_function;
mod kernel;
mod kernel_memory;
mod memory;
mod module;
mod parking;
mod report;
mod run;
mod site;
mod state;
mod trace;

pub use code::Code;
