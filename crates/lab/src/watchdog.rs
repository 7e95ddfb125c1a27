//! A listing that waits for something that never comes must not hold up whoever runs it.

use std::env;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// The exit code of a program that ran out of time; the `timeout` command uses the same.
const TIMED_OUT: i32 = 124;

/// Starts the time limit, if `C2C_TIME_LIMIT` sets one.
pub(crate) fn start() -> Result<()> {
    let Some(limit) = env::var_os("C2C_TIME_LIMIT") else {
        return Ok(());
    };
    let seconds = limit
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|&seconds: &u64| seconds > 0)
        .with_context(|| {
            format!(
                "C2C_TIME_LIMIT={} is not a whole number of seconds above zero",
                limit.display()
            )
        })?;
    thread::Builder::new()
        .name("time limit".into())
        .spawn(move || {
            thread::sleep(Duration::from_secs(seconds));
            eprintln!("time limit: the program was ended after {seconds} s (C2C_TIME_LIMIT)");
            // SAFETY: the process ends here. Running the exit handlers instead could wait for the
            // very thread that hangs.
            unsafe { libc::_exit(TIMED_OUT) }
        })
        .context("starting the thread that keeps the time limit")?;
    Ok(())
}
