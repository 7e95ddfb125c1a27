//! Shared by the proofs.

pub mod checks;

use std::path::PathBuf;

/// The repository that is being proved.
pub fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
