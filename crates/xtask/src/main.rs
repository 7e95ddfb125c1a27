//! One door for developers and CI: `cargo xtask COMMAND`.

mod bless;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{ensure, Context, Result};
use clap::{Parser, Subcommand};
use xtask::figures;

/// Records, checks and measures.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Records what listings print and do, on the model: stdout.txt, timeline.mmd, report.txt
    Bless {
        /// The listings to record; all of them if none is named
        slugs: Vec<String>,
    },
    /// Draws the figures of the book from figures/links.json
    Figures,
    /// Runs what CI runs: formatting, lints, all tests
    Check,
    /// Measures how fast the model itself is
    BenchModel {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let done = root
        .canonicalize()
        .with_context(|| format!("looking for the repository in {}", root.display()))
        .and_then(|root| match Arguments::parse().task {
            Task::Bless { slugs } => bless::bless(&root, &slugs),
            Task::Figures => draw(&root),
            Task::Check => run(&mut Command::new(root.join(".ci/run"))),
            Task::BenchModel { json } => run(bench_model(json).current_dir(root)),
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Draws the figures again, and says which have changed.
fn draw(root: &Path) -> Result<()> {
    for file in figures::all(root)? {
        if file.bless(root)? {
            println!("drawn     {}", file.path);
        }
    }
    Ok(())
}

/// The measurement is a program of its own: it needs a driver, which cargo's runner gives it.
fn bench_model(json: bool) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--release", "-p", "xtask"])
        .args(["--example", "bench_model", "--"])
        .env("C2C_DRIVER", "model");
    if json {
        command.arg("--json");
    }
    command
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command
        .status()
        .with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}
