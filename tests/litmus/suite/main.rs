//! The litmus suite, on whichever driver is there.
//!
//! On the model: every schedule, every hazard, every field case, and the page of the book.
//! On a GPU: outcomes, and the field cases behind gates.
//! `LITMUS_TABLE=path cargo test -p litmus` writes the page, and `LITMUS_PROGRAM=L01` runs that program once.

mod alone;
mod on_gpu;
mod on_model;
mod watch;

use std::env;
use std::process::ExitCode;

use anyhow::Result;
use lab::Driver;
use libtest_mimic::Arguments;
use litmus::check;

use crate::watch::Watch;

fn main() -> ExitCode {
    match suite() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("litmus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn suite() -> Result<ExitCode> {
    if let Ok(name) = env::var(check::ALONE) {
        return alone::run(&name);
    }
    let mut arguments = Arguments::from_args();
    // There is one driver in the process, with one schedule at a time.
    arguments.test_threads = Some(1);
    lab::announce()?;
    let driver = lab::driver()?;
    let watch = Watch::start();
    match driver {
        Driver::Model { .. } => on_model::run(&arguments, &watch),
        Driver::Nvidia { .. } => on_gpu::run(&arguments, &watch),
    }
}
