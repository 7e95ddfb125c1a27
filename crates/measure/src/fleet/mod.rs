//! `c2c compare`: the records of many nodes, and which node is slower than the others.
//!
//! | module | its one job |
//! |---|---|
//! | [`rule`] | what an outlier is |
//! | [`report`] | the result as a table, a sentence and JSON |
//! | `plot` | the distribution as SVG |

mod plot;
pub mod report;
pub mod rule;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;

use crate::record::Record;
use crate::save::Target;
use crate::{told, WORSE};
use report::Report;

/// The records of a fleet by the names of their nodes.
pub type Fleet = BTreeMap<String, Record>;

/// Name the nodes of a fleet that are slower than the others
///
/// Each record is one that `c2c measure --json` wrote on one node; a node is called as its file is.
///
/// Exit codes: 0 no outlier; 1 at least one outlier, or a node where a case failed;
/// 2 it could not be done.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// The records, one for each node, at least three
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Write the result as JSON (schemas/compare.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw how the nodes lie about the median
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How much slower than the fleet's median a figure may be, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0)]
    tolerance: f64,
}

/// Runs `c2c compare`.
///
/// # Errors
/// When it could not be done: the message says what, and `c2c` exits with 2.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    ensure!(
        args.tolerance.is_finite() && args.tolerance >= 0.0,
        "--tolerance must be a number of percent, at least 0"
    );
    let fleet = read(&args.records)?;
    let report = Report::of(&fleet, args.tolerance / 100.0)?;
    // Everything is made before anything is written or printed.
    let json = serde_json::to_string_pretty(&report).context("writing the comparison")? + "\n";
    let svg = plot::draw(&report)?;
    let mut files = Vec::new();
    for (path, content) in [(&args.json, json), (&args.svg, svg)] {
        if let Some(path) = path {
            files.push((Target::open(path)?, content));
        }
    }
    print!("{}", report.render());
    for (target, content) in files {
        told(target.write(content)?);
    }
    Ok(ExitCode::from(if report.has_outlier() { WORSE } else { 0 }))
}

/// Reads the records, and calls each node as its file is called without its ending: a record holds
/// no host name.
///
/// # Errors
/// When a file is no record, or two files give the same name.
pub fn read(paths: &[PathBuf]) -> Result<Fleet> {
    let mut fleet = Fleet::new();
    for path in paths {
        let record = Record::read(path)?;
        if fleet.insert(name(path)?, record).is_some() {
            bail!(
                "two records are called {}; give each node's file a name of its own",
                name(path)?
            );
        }
    }
    Ok(fleet)
}

fn name(path: &Path) -> Result<String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.filter(|stem| !stem.chars().any(char::is_control));
    let stem = stem.with_context(|| format!("{} is no readable name of a node", path.display()))?;
    Ok(stem.to_owned())
}
