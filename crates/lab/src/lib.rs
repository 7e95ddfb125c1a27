//! What the listings of the book share, and nothing that would hide cudarc from the reader.
//!
//! A listing is a complete cudarc program; what it needs beside cudarc is here: which driver
//! answers, a gate that makes a race certain, counters of page faults, host memory whose page size
//! is known, and values that no listing ever computes.

mod counters;
mod driver;
mod fault;
mod fill;
mod frames;
mod gate;
mod huge;
mod linux_pin;
mod pageable;
mod poison;
mod waive;
mod watchdog;

pub use counters::{pinned_bytes, VmStat};
pub use driver::{announce, driver, Driver};
pub use fault::Faults;
pub use fill::fill;
pub use frames::{locked_bytes, page_frames};
pub use gate::Gate;
pub use huge::{aligned, huge_page_size};
pub use linux_pin::LinuxPin;
pub use pageable::{page_size, Pageable};
pub use poison::{poison, probe, verdict, POISON};
pub use waive::{waive, WAIVED};
