//! What cudarc's types protect and what they do not, as the page says it: programs with today's outcome.
//!
//! A cudarc that behaves differently fails them. Each runs in a process of its own, in which this test executes itself.

#[path = "cudarc/findings.rs"]
mod findings;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{ensure, Context, Result};
use findings::Finding;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use proofs::checks::driver;
use serde_json::Value;
use xtask::record::Driver;

/// Names the program that this process shall run, when it is one of those that the test started.
const PROGRAM: &str = "CUDARC_FINDING";

fn main() -> ExitCode {
    let done = match env::var(PROGRAM) {
        Ok(name) => program(&name).map(|()| ExitCode::SUCCESS),
        Err(_) => trials(&Arguments::from_args()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn program(name: &str) -> Result<()> {
    let finding = findings::ALL.iter().find(|it| it.name == name);
    let finding = finding.with_context(|| format!("there is no program named {name}"))?;
    println!("{}", (finding.program)()?);
    Ok(())
}

fn trials(arguments: &Arguments) -> Result<ExitCode> {
    let (driver, _) = driver::chosen()?;
    let trials = findings::ALL.iter().map(|finding| {
        Trial::ignorable_test(finding.name, move || {
            if driver == Driver::Gpu {
                return Ok(Completion::ignored_with("the reports are the model's"));
            }
            holds(finding).map_err(|error| Failed::from(format!("{error:#}")))?;
            Ok(Completion::Completed)
        })
    });
    Ok(libtest_mimic::run(arguments, trials.collect()).exit_code())
}

fn holds(finding: &Finding) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a folder for the report")?;
    let (report, trace) = (scratch.path().join("report"), scratch.path().join("trace"));
    let mut command = Command::new(env::current_exe().context("finding this test")?);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CUMODEL_") {
            command.env_remove(name);
        }
    }
    let output = command
        .env(PROGRAM, finding.name)
        .env("CUMODEL_REPORT", &report)
        .env("CUMODEL_TRACE", &trace)
        .envs(finding.setting)
        .output()
        .context("starting the program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it failed, and said:\n{said}");

    let read = String::from_utf8_lossy(&output.stdout);
    let read = read.trim_end();
    ensure!(
        read == finding.reads,
        "it read {read:?}, not {:?}; it said:\n{said}",
        finding.reads
    );
    let reports = reports(&lines(&report)?);
    ensure!(
        reports == finding.reports,
        "the model reported {reports:?}, not {:?}:\n{said}",
        finding.reports
    );
    if let Some(expected) = finding.waits {
        let trace = lines(&trace)?;
        let waits = waits(&trace);
        ensure!(
            waits == expected,
            "the host waited in {waits:?}, not in {expected:?}"
        );
    }
    Ok(())
}

/// The lines of a file of the model's, which is not there when there was nothing to write.
fn lines(file: &Path) -> Result<Vec<Value>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).context("reading a line of the model's"))
        .collect()
}

/// The reports, each once, in order.
fn reports(lines: &[Value]) -> Vec<String> {
    let ids = lines.iter().filter_map(|line| {
        let id = line["id"].as_str()?;
        let cause = line["cause"].as_str();
        Some(cause.map_or_else(|| id.to_owned(), |cause| format!("{id}/{cause}")))
    });
    let mut ids: Vec<String> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The calls in which the host waited.
fn waits(lines: &[Value]) -> Vec<&str> {
    let waits = lines.iter().filter(|line| line["t"] == "wait");
    waits.filter_map(|line| line["call"].as_str()).collect()
}
