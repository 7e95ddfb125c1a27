//! The `c2c` command: builds the book, serves it while it is being written, and measures the machine.

use anyhow::{Context, Result};
use c2c::serve::{self, DEFAULT_PORT};
use c2c::{build, Book, Problem};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Exit code when the sources of the book have problems.
const PROBLEMS: u8 = 1;
/// Exit code when the command could not do its work at all.
const FAILED: u8 = 2;

/// Builds and serves the book, and measures what a copy costs. Without a command: serve.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Check the book and write the site; exits with 1 and names file and line if it has problems
    Build(BuildArgs),
    /// Show the book in the browser and reload the page whenever a source changes
    Serve(ServeArgs),
    Measure(measure::MeasureArgs),
}

#[derive(Args)]
struct BookArgs {
    /// The folder that holds book.toml [default: here, or the nearest folder above]
    #[arg(long, value_name = "DIR")]
    book: Option<PathBuf>,
}

#[derive(Args)]
struct BuildArgs {
    #[command(flatten)]
    book: BookArgs,
    /// Where to write the site [default: build-dir of book.toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct ServeArgs {
    #[command(flatten)]
    book: BookArgs,
    /// The port on 127.0.0.1; if it is taken, the next free one
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Open the book in the browser
    #[arg(long)]
    open: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Build(args)) => run_build(&args),
        Some(Command::Serve(args)) => run_serve(&args),
        Some(Command::Measure(args)) => measure::run(&args),
        None => run_serve(&cli.serve),
    };
    result.unwrap_or_else(|error| {
        eprintln!("c2c: {error:#}");
        ExitCode::from(FAILED)
    })
}

fn run_build(args: &BuildArgs) -> Result<ExitCode> {
    let book = open_book(&args.book)?;
    let out = args.out.clone().unwrap_or_else(|| book.default_out());
    eprintln!("building the book ...");
    let start = Instant::now();
    let problems = build::build(&book, &out)?;
    if problems.is_empty() {
        let seconds = start.elapsed().as_secs_f32();
        eprintln!("built {} in {seconds:.1} s", out.display());
        return Ok(ExitCode::SUCCESS);
    }
    report(&problems);
    Ok(ExitCode::from(PROBLEMS))
}

fn run_serve(args: &ServeArgs) -> Result<ExitCode> {
    let book = open_book(&args.book)?;
    serve::run(&book, args.port, args.open)?;
    Ok(ExitCode::SUCCESS)
}

fn open_book(args: &BookArgs) -> Result<Book> {
    match &args.book {
        Some(root) => Book::open(root),
        None => {
            let here = std::env::current_dir().context("could not tell the current folder")?;
            Book::find(&here)
        }
    }
}

fn report(problems: &[Problem]) {
    for problem in problems {
        eprintln!("{problem}");
    }
    let count = match problems.len() {
        1 => "1 problem".to_string(),
        count => format!("{count} problems"),
    };
    eprintln!("c2c: {count}; the site was not changed");
}
