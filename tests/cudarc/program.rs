//! cudarc's unit tests as a program: built from the package that cargo downloaded, and run one test at a time.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use wait_timeout::ChildExt;

/// How long one test may take before it is killed. The longest takes a second.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The program, and the package that it was built from.
#[derive(Clone, Debug)]
pub struct Program {
    executable: PathBuf,
    /// The version of the package.
    pub version: String,
    /// The folder of its manifest, in cargo's registry.
    pub package: PathBuf,
}

impl Program {
    /// Builds the tests of the cudarc in our `Cargo.lock`, with the features that the listings use.
    ///
    /// cargo tests a package of the registry where it lies as long as it has no dev-dependencies, and cudarc has none.
    /// Nothing is copied, edited or downloaded. A target folder of its own keeps cargo from building the listings'
    /// cudarc again, and itself from one run to the next.
    ///
    /// # Errors
    /// When it does not build; cargo has then said why on stderr.
    pub fn build(root: &Path) -> Result<Program> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cudarc-own");
        let output = Command::new("cargo")
            .args(["test", "--package", "cudarc", "--lib", "--no-run"])
            .args([
                "--frozen",
                "--quiet",
                "--message-format=json-render-diagnostics",
            ])
            .arg("--target-dir")
            .arg(target)
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo to build cudarc's tests")?;
        ensure!(
            output.status.success(),
            "cargo could not build cudarc's tests: {}",
            output.status
        );
        let messages = String::from_utf8(output.stdout).context("reading what cargo built")?;
        for line in messages.lines() {
            let message: Value = serde_json::from_str(line).context("reading what cargo built")?;
            if let Some(executable) = message["executable"].as_str() {
                return Program::built(executable, &message);
            }
        }
        bail!("cargo built no tests of cudarc")
    }

    fn built(executable: &str, message: &Value) -> Result<Program> {
        let manifest = message["manifest_path"].as_str();
        let manifest = Path::new(manifest.context("cargo names no manifest of cudarc")?);
        let id = message["package_id"].as_str();
        let version = id.and_then(|id| id.rsplit_once('@'));
        let (_, version) = version.context("cargo names no version of cudarc")?;
        Ok(Program {
            executable: executable.into(),
            version: version.to_owned(),
            package: manifest.with_file_name(""),
        })
    }

    /// The tests of the module `driver` in this build, also those that cudarc ignores.
    ///
    /// # Errors
    /// When the program does not list them.
    pub fn tests(&self) -> Result<Vec<String>> {
        let output = Command::new(&self.executable)
            .args(["--list", "--format", "terse", "driver::"])
            .output()
            .context("asking cudarc's tests for their names")?;
        ensure!(
            output.status.success(),
            "cudarc's tests do not list their names: {}",
            output.status
        );
        let names = String::from_utf8(output.stdout).context("reading the names of the tests")?;
        Ok(names
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }

    /// Runs one test in a process of its own, under a schedule of the model, and returns the ids of the hazards that
    /// the model reported, in order.
    ///
    /// Two devices, for the tests that ask for a second one. A GPU heeds neither.
    ///
    /// # Errors
    /// When it does not pass; the message shows what it said.
    pub fn run(&self, test: &str, schedule: &str) -> Result<Vec<String>> {
        let scratch = tempfile::tempdir().context("making a folder for the report")?;
        let report = scratch.path().join("report");
        let said = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(scratch.path().join("said"))
            .context("making a file for the output")?;
        let mut command = Command::new(&self.executable);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CUMODEL_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(["--exact", "--include-ignored", "--nocapture", test])
            .env("CUMODEL_DEVICES", "2")
            .env("CUMODEL_SCHEDULE", schedule)
            .env("CUMODEL_REPORT", &report)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()
            .context("starting cudarc's tests")?;
        let ended = child.wait_timeout(TIME_LIMIT).context("waiting for it")?;
        if ended.is_none() {
            child.kill().context("killing it")?;
            child.wait().context("waiting until it was killed")?;
        }
        let said = text(said)?;
        passed(&said).with_context(|| format!("under {schedule} it printed:\n{said}"))?;
        hazards(&report)
    }
}

fn text(mut file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("reading what it printed")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// libtest counts one test, and that one passed: a name that it does not know is also a success.
///
/// # Errors
/// When that is not what it says.
pub fn passed(said: &str) -> Result<()> {
    let result = said.lines().find(|line| line.starts_with("test result: "));
    let result = result.context("it did not come to its end")?;
    ensure!(
        result.starts_with("test result: ok. 1 passed; 0 failed; 0 ignored;"),
        "it did not pass"
    );
    Ok(())
}

/// The ids in a file of `CUMODEL_REPORT`, without the notes; there is none when nothing was reported.
fn hazards(report: &Path) -> Result<Vec<String>> {
    if !report.exists() {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for line in fs::read_to_string(report)?.lines() {
        let line: Value = serde_json::from_str(line).context("reading the model's report")?;
        if line["severity"] == "hazard" {
            let id = line["id"].as_str().context("a report has no id")?;
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
}
