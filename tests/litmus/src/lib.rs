//! Litmus tests: small programs on the CUDA driver, each with every outcome that the documentation permits.
//!
//! The same programs run on the model and on NVIDIA's driver. On the model, the set of outcomes over all schedules
//! must lie in the permitted set, and the schedule `last` must show the marked outcome every time. On a GPU, every
//! observed outcome must lie in the permitted set.

pub mod check;
pub mod cuda;
pub mod field;
pub mod gate;
pub mod gpu;
pub mod hazards;
pub mod host;
pub mod lab;
pub mod litmus;
pub mod model;
pub mod page;
pub mod planted;
pub mod pool;
pub mod tests;

use std::path::PathBuf;

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
