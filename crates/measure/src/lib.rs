//! `c2c measure`: what a copy costs on this machine, phase by phase, and why.
//!
//! | module | its one job |
//! |---|---|
//! | [`kind`], `plan` | which kinds of memory there are, which cases are measured |
//! | `memory`, `numa`, `device` | memory of each kind, where its pages lie, the CUDA device |
//! | `pass`, `ceiling` | measure a case, measure what the machine reaches at best |
//! | `pattern`, `counters`, [`stats`] | data that shows whether it arrived, the kernel's counters, median and spread |
//! | [`machine`], `nvml` | where a figure was measured |
//! | [`record`], `save` | the JSON format, files that are written whole |
//! | `verdict`, [`table`], [`svg`], `prom`, [`compare`], [`gallery`] | what is made of a record |
//! | [`fleet`] | the records of many nodes beside each other |
//! | `run`, `interrupt` | a whole run, and its early end |
//!
//! Durations are nanoseconds, sizes bytes, GB/s are 10^9 bytes a second.

mod ceiling;
pub mod compare;
mod counters;
pub mod device;
pub mod fleet;
mod format;
pub mod gallery;
mod interrupt;
pub mod kind;
pub mod machine;
mod memory;
mod numa;
mod nvml;
mod pass;
mod pattern;
mod plan;
mod prom;
pub mod record;
mod run;
pub mod save;
pub mod stats;
pub mod svg;
pub mod table;
mod verdict;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use bytesize::ByteSize;
use clap::Args;

use record::Record;
use save::Target;

/// The exit code when a case failed, or is slower than the baseline by more than the tolerance.
pub const WORSE: u8 = 1;

/// Measure what a copy costs on this machine, phase by phase
///
/// Allocation, first touch, registration, copy and free are timed apart, for each kind of memory,
/// each way and each size.
///
/// Exit codes: 0 measured, or compared; 1 a case failed, or is slower than the baseline;
/// 2 it could not be done; 130 interrupted, what was measured so far is kept.
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// Write the record as JSON (schemas/measure.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plots into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the figures for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    prom: Option<PathBuf>,
    /// The largest buffer, as in 64MiB [default: 2 GiB, or a quarter of memory if that is less]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<ByteSize>,
    /// Compare with this record of the same machine; exits with 1 if a case is slower
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// How much slower than the baseline a case may be, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 25.0,
        requires = "baseline"
    )]
    tolerance: f64,
    /// Measure nothing; show two records beside each other
    #[arg(long, value_names = ["A", "B"], num_args = 2, exclusive = true)]
    compare: Option<Vec<PathBuf>>,
}

/// Runs `c2c measure`.
///
/// # Errors
/// When it could not be done: the message says what, and `c2c` exits with 2.
pub fn run(args: &MeasureArgs) -> Result<ExitCode> {
    if let Some([a, b]) = args.compare.as_deref() {
        print!("{}", compare::render(&Record::read(a)?, &Record::read(b)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    measure(args)
}

fn measure(args: &MeasureArgs) -> Result<ExitCode> {
    ensure!(
        args.tolerance.is_finite() && args.tolerance >= 0.0,
        "--tolerance must be a number of percent, at least 0"
    );
    let run = run::open(args.max_size.map(|size| size.as_u64()))?;
    let baseline = args.baseline.as_deref().map(Record::read).transpose()?;
    if let (Some(baseline), Some(path)) = (&baseline, &args.baseline) {
        let other = run.machine.is_other_than(&baseline.machine);
        ensure!(
            other.is_empty(),
            "{} is of another machine ({}); --compare shows records of two machines",
            path.display(),
            other.join("; ")
        );
    }
    // Opened now, so that minutes are not spent on figures that cannot be kept.
    let json = args.json.as_deref().map(Target::open).transpose()?;
    let prom = args.prom.as_deref().map(Target::open).transpose()?;
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    interrupt::catch()?;
    let record = run.measure(&interrupt::asked)?;

    print!("{}", table::render(&record));
    if let Some(json) = json {
        told(json.write(&(serde_json::to_string_pretty(&record)? + "\n"))?);
    }
    if let Some(prom) = prom {
        told(prom.write(&prom::render(&record)?)?);
    }
    if let Some(folder) = &args.svg {
        for plot in svg::plots(&record)? {
            told(Target::open(&folder.join(plot.file))?.write(&plot.svg)?);
        }
    }
    if record.interrupted {
        return Ok(ExitCode::from(interrupt::INTERRUPTED));
    }
    let slower = match &baseline {
        Some(baseline) => judge(baseline, &record, args.tolerance)?,
        None => 0,
    };
    let worse = slower > 0 || record.counts.failed > 0;
    Ok(ExitCode::from(if worse { WORSE } else { 0 }))
}

fn told(path: PathBuf) {
    eprintln!("c2c: wrote {}", path.display());
}

/// Says what is slower than in the baseline, and how many cases that are.
fn judge(baseline: &Record, record: &Record, tolerance: f64) -> Result<usize> {
    for setting in record.machine.set_up_other_than(&baseline.machine) {
        println!("The baseline was set up in another way: {setting}.");
    }
    let slower = compare::slower(baseline, record, tolerance / 100.0)?;
    for sentence in &slower {
        println!("slower: {sentence}");
    }
    println!(
        "{} cases are slower than the baseline by more than {tolerance} %.",
        slower.len()
    );
    Ok(slower.len())
}
