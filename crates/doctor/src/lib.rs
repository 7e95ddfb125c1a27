//! `c2c doctor`: what about this machine makes a copy slow, with evidence, a fix and its source.
//!
//! | module | its one job |
//! |---|---|
//! | [`capture`] | which files are read, and what of them is kept |
//! | [`archive`] | a capture as a tar file |
//! | [`tree`] | the facts of one machine, live or captured |
//! | [`checks`], [`sources`] | the checks, and who says so |
//! | [`report`] | the diagnosis: table, JSON |
//!
//! A machine is read the way `measure` reads it, and only there.

pub mod archive;
pub mod capture;
pub mod checks;
pub mod report;
pub mod sources;
pub mod tree;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use measure::save::Target;

use capture::Capture;
use report::Report;
use tree::Tree;

/// The exit code when there is a finding.
pub const FINDINGS: u8 = 1;

/// Finds what makes copies slow on this machine, with evidence, a fix and its source.
///
/// Exit codes: 0 nothing found, or captured; 1 there are findings; 2 it could not be done.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Write the diagnosis as JSON (schemas/doctor.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Diagnose nothing; write what a diagnosis reads into a tar file, and list it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "from"])]
    capture: Option<PathBuf>,
    /// Keep the host's name in the capture
    #[arg(long, requires = "capture")]
    with_host_name: bool,
    /// Diagnose the machine of a capture: a tar file, or a folder with its contents
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Runs `c2c doctor`.
///
/// # Errors
/// When it could not be done: the message says what, and `c2c` exits with 2.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(path) = &args.capture {
        return write_capture(path, args.with_host_name);
    }
    let json = args.json.as_deref().map(Target::open).transpose()?;
    let capture = match &args.from {
        Some(path) if path.is_dir() => Capture::folder(path)?,
        Some(path) => archive::read(path)?,
        None => Capture::live(false)?,
    };
    let report = Report::of(&Tree::new(capture)?);
    say(&report.render())?;
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&report).context("writing the diagnosis")? + "\n";
        eprintln!("c2c: wrote {}", json.write(text)?.display());
    }
    let found = report.counts.finding > 0;
    Ok(ExitCode::from(if found { FINDINGS } else { 0 }))
}

fn write_capture(path: &std::path::Path, with_host_name: bool) -> Result<ExitCode> {
    let target = Target::open(path)?;
    let capture = Capture::live(with_host_name)?;
    let written = target.write(archive::pack(&capture)?)?;
    let manifest = serde_json::to_string_pretty(&capture.manifest)?;
    let mut listed = format!("{}:\n{manifest}\n", capture::MANIFEST);
    for (path, text) in &capture.files {
        let _ = writeln!(listed, "{:>8} bytes  {path}", text.len());
    }
    let _ = match &capture.manifest.host_name {
        Some(name) => writeln!(listed, "It names the host: {name}."),
        None => writeln!(listed, "It does not name the host."),
    };
    say(&listed)?;
    eprintln!("c2c: wrote {}", written.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints; whoever closed the pipe has read enough.
fn say(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("printing the result")
        }
        _ => Ok(()),
    }
}
