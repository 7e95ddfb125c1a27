//! A listing that this machine cannot run is waived: counted, with its reason, and not passed.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::exit;

/// The exit code of a listing that was waived.
pub const WAIVED: i32 = 77;

/// Ends the program because the machine lacks what it shows.
///
/// It prints `waived: <reason>` on stderr and exits with [`WAIVED`]. Some runners know only
/// success and failure: when `C2C_WAIVED_LOG=<file>` is set, it appends `<program>: <reason>` to
/// that file and exits with 0 instead, so that the runner can count the file's lines.
pub fn waive(reason: &str) -> ! {
    eprintln!("waived: {reason}");
    let Some(log) = env::var_os("C2C_WAIVED_LOG") else {
        exit(WAIVED)
    };
    match append(Path::new(&log), &format!("{}: {reason}\n", program())) {
        Ok(()) => exit(0),
        Err(error) => {
            // Unrecorded, this would be counted as passed.
            eprintln!("waived, but {} cannot be written: {error}", log.display());
            exit(WAIVED)
        }
    }
}

/// Writes the line in one piece, so that programs that run at once do not mix theirs.
fn append(log: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)?
        .write_all(line.as_bytes())
}

fn program() -> String {
    let path = env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
