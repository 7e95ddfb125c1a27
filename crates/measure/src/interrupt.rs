//! Ctrl-C ends the run after the pass that is being made, and what was measured is kept.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// The exit code after an interrupt: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Catches SIGINT and SIGTERM from now on. The second one ends the process at once.
///
/// # Errors
/// When the process has another handler already.
pub fn catch() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("\nc2c: ending after this pass; press Ctrl-C again to give everything up");
    })
    .context("catching Ctrl-C")
}

/// Whether the run should end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
