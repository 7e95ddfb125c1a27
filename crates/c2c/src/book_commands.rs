//! The commands of the book: build it, serve it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use c2c::serve::{self, DEFAULT_PORT};
use c2c::{build, Book, Problem};
use clap::Args;

/// Exit code when the sources of the book have problems.
const PROBLEMS: u8 = 1;

#[derive(Args)]
struct BookArgs {
    /// The folder that holds book.toml [default: here, or the nearest folder above]
    #[arg(long, value_name = "DIR")]
    book: Option<PathBuf>,
}

#[derive(Args)]
pub struct BuildArgs {
    #[command(flatten)]
    book: BookArgs,
    /// Where to write the site [default: build-dir of book.toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub struct ServeArgs {
    #[command(flatten)]
    book: BookArgs,
    /// The port on 127.0.0.1; if it is taken, the next free one
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Open the book in the browser
    #[arg(long)]
    open: bool,
}

/// Checks the book and writes the site, or names every problem.
pub fn build(args: &BuildArgs) -> Result<ExitCode> {
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

/// Serves the book until it is ended.
pub fn serve(args: &ServeArgs) -> Result<ExitCode> {
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
