//! One run of one listing: what it printed, what the model saw, and how it ended.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use serde::Deserialize;
use wait_timeout::ChildExt;

use crate::examples::Example;

/// The exit code of a listing that was waived: `lab::WAIVED`.
pub const WAIVED: i32 = 77;

/// How long a listing may take before it is killed.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Which driver a listing must get: `C2C_DRIVER`, once it is known what `auto` means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The model of this repository.
    Model,
    /// NVIDIA's driver.
    Gpu,
}

/// When the model copies pageable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pageable {
    /// Inside the call, as drivers of discrete GPUs were seen to do.
    Staged,
    /// As late as the documentation permits.
    Direct,
}

impl Pageable {
    /// The value of `CUMODEL_PAGEABLE`.
    pub fn word(self) -> &'static str {
        match self {
            Pageable::Staged => "staged",
            Pageable::Direct => "direct",
        }
    }
}

/// Where a listing runs, and in which order the model runs its operations.
#[derive(Clone, Debug)]
pub struct Env {
    /// The repository: the working folder of every run, so that reports name files relative to it.
    pub root: PathBuf,
    /// The driver; a listing that says another one fails.
    pub driver: Driver,
    /// `CUMODEL_SCHEDULE`; a GPU has its own.
    pub schedule: String,
    /// `CUMODEL_PAGEABLE`; a GPU has its own.
    pub pageable: Pageable,
    /// How long a run may take.
    pub time_limit: Duration,
}

impl Env {
    /// Runs on the model in the order `last`: the one that recorded files come from.
    pub fn recording(root: &Path) -> Env {
        Env::new(root, Driver::Model, "last")
    }

    /// Runs with the usual time limit.
    pub fn new(root: &Path, driver: Driver, schedule: &str) -> Env {
        Env {
            root: root.to_owned(),
            driver,
            schedule: schedule.to_owned(),
            pageable: Pageable::Staged,
            time_limit: TIME_LIMIT,
        }
    }
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The lines of `CUMODEL_TRACE`; empty on a GPU.
    pub trace: String,
    /// The hazards, in the order in which the model found them; none on a GPU.
    pub reports: Vec<Report>,
}

/// A hazard, as a line of `CUMODEL_REPORT` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Report {
    /// Such as `H01`.
    pub id: String,
    /// `hazard`, or `note` when the program is right and could be better.
    severity: String,
    /// All that the model printed about it.
    pub text: String,
}

impl Recorded {
    /// Why the listing was waived, if it was.
    pub fn waived(&self) -> Option<&str> {
        (self.status.code() == Some(WAIVED)).then(|| {
            self.after("waived: ")
                .unwrap_or("the listing gave no reason")
        })
    }

    /// What the listing said about its driver, such as `model 0.1.0, schedule last`.
    pub fn driver(&self) -> Option<&str> {
        self.after("driver: ")
    }

    /// The ids of all hazards, each once, in order.
    pub fn hazards(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.reports.iter().map(|it| it.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn after(&self, prefix: &str) -> Option<&str> {
        self.stderr
            .lines()
            .find_map(|line| line.strip_prefix(prefix))
    }
}

/// Runs `program`, the listing `example`, once.
///
/// A run that ended well and one that was waived are both `Ok`.
///
/// # Errors
/// When the listing cannot be started, does not end in time, fails, or does not run on the driver that `env` demands;
/// the message names it and shows what it said.
pub fn record(example: &Example, program: &Path, env: &Env) -> Result<Recorded> {
    run(program, env).with_context(|| format!("examples/{}/main.rs", example.slug))
}

fn run(program: &Path, env: &Env) -> Result<Recorded> {
    let scratch = tempfile::tempdir().context("making a folder for the trace")?;
    let trace = scratch.path().join("trace");
    let reports = scratch.path().join("reports");
    let (status, stdout, stderr) = watch(&mut command(program, env, &trace, &reports), env)?;

    let recorded = Recorded {
        stdout,
        stderr,
        status,
        trace: read_if_there(&trace)?,
        reports: hazards(&read_if_there(&reports)?)?,
    };
    if !status.success() && recorded.waived().is_none() {
        bail!("it ended with {status}, and said:\n{}", recorded.stderr);
    }
    let demanded = match env.driver {
        Driver::Model => "model ",
        Driver::Gpu => "NVIDIA ",
    };
    let driver = recorded.driver().ok_or_else(|| {
        anyhow!("it did not say which driver serves it: does `main` start with `lab::announce()?`")
    })?;
    ensure!(
        driver.starts_with(demanded),
        "it ran on another driver than it should: \"{driver}\" does not start with \"{demanded}\""
    );
    Ok(recorded)
}

/// Nothing of the caller's settings reaches the listing, so that a run means the same everywhere.
fn command(program: &Path, env: &Env, trace: &Path, reports: &Path) -> Command {
    let mut command = Command::new(env.root.join("scripts/with-driver"));
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CUMODEL_") || name.starts_with("C2C_") {
            command.env_remove(&*name);
        }
    }
    let driver = match env.driver {
        Driver::Model => "model",
        Driver::Gpu => "gpu",
    };
    command
        .arg(program)
        .current_dir(&env.root)
        .env("C2C_DRIVER", driver)
        .env("CUMODEL_SCHEDULE", &env.schedule)
        .env("CUMODEL_PAGEABLE", env.pageable.word())
        .env("CUMODEL_TRACE", trace)
        .env("CUMODEL_REPORT", reports)
        .stdin(Stdio::null());
    command
}

/// The hazards among the lines of `CUMODEL_REPORT`; notes are none.
fn hazards(lines: &str) -> Result<Vec<Report>> {
    let reports: Vec<Report> = lines
        .lines()
        .map(|line| serde_json::from_str(line).context("reading a line of CUMODEL_REPORT"))
        .collect::<Result<_>>()?;
    Ok(reports
        .into_iter()
        .filter(|report| report.severity == "hazard")
        .collect())
}

/// Runs the command to its end, or kills it at the time limit. Its output goes to files: a pipe that nobody empties
/// would hold it up.
fn watch(command: &mut Command, env: &Env) -> Result<(ExitStatus, String, String)> {
    let output = || tempfile::tempfile().context("making a file for the output");
    let (mut stdout, mut stderr) = (output()?, output()?);
    let mut child = command
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let status = child
        .wait_timeout(env.time_limit)
        .context("waiting for it to end")?;
    if status.is_none() {
        child.kill().context("killing it")?;
        child.wait().context("waiting until it was killed")?;
    }
    let (stdout, stderr) = (text(&mut stdout)?, text(&mut stderr)?);
    match status {
        Some(status) => Ok((status, stdout, stderr)),
        None => bail!(
            "it was killed because it had not ended after {} s; it printed:\n{stdout}{stderr}",
            env.time_limit.as_secs()
        ),
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .context("reading what it printed")?;
    Ok(text)
}

/// On a GPU nobody writes these files, and without a hazard there is no report.
fn read_if_there(path: &Path) -> Result<String> {
    if path.exists() {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    } else {
        Ok(String::new())
    }
}
