//! The `c2c` command: builds the book, serves it while it is being written, and measures the machine.
//!
//! Without the feature `book` it has only the commands for the machine, and needs no mdBook.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "book")]
mod book_commands;

/// Exit code when the command could not do its work at all.
const FAILED: u8 = 2;

#[cfg(feature = "book")]
/// Builds and serves the book, and measures what a copy costs. Without a command: serve.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: book_commands::ServeArgs,
}

#[cfg(not(feature = "book"))]
/// Measures what a copy costs. This c2c was built without the commands of the book.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the book and write the site; exits with 1 and names file and line if it has problems
    #[cfg(feature = "book")]
    Build(book_commands::BuildArgs),
    /// Show the book in the browser and reload the page whenever a source changes
    #[cfg(feature = "book")]
    Serve(book_commands::ServeArgs),
    Measure(measure::MeasureArgs),
    Compare(measure::fleet::CompareArgs),
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "book")]
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    #[cfg(not(feature = "book"))]
    let command = cli.command;
    let result = match command {
        #[cfg(feature = "book")]
        Command::Build(args) => book_commands::build(&args),
        #[cfg(feature = "book")]
        Command::Serve(args) => book_commands::serve(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Compare(args) => measure::fleet::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("c2c: {error:#}");
        ExitCode::from(FAILED)
    })
}
