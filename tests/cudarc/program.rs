//! cudarc's unit tests and examples as programs: built from the package that cargo downloaded, and run one at a time.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use wait_timeout::ChildExt;

/// How long one test may take before it is killed. The longest takes a second.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The programs, and the package that they were built from.
#[derive(Clone, Debug)]
pub struct Program {
    /// The unit tests.
    executable: PathBuf,
    /// The examples, by name.
    examples: BTreeMap<String, PathBuf>,
    /// The version of the package.
    pub version: String,
    /// The folder of its manifest, in cargo's registry.
    pub package: PathBuf,
    /// What the loader has to search so that the tests find nvrtc as well.
    library_path: Option<OsString>,
}

impl Program {
    /// Builds the tests and the `examples` of the cudarc in our `Cargo.lock`, with the features that the listings use.
    ///
    /// cargo tests a package of the registry where it lies as long as it has no dev-dependencies, and cudarc has none.
    /// Nothing is copied, edited or downloaded. A target folder of its own keeps cargo from building the listings'
    /// cudarc again, and itself from one run to the next.
    ///
    /// `compiler` is the folder of nvrtc, if it is here.
    ///
    /// # Errors
    /// When it does not build; cargo has then said why on stderr.
    pub fn build(root: &Path, examples: &[&str], compiler: Option<PathBuf>) -> Result<Program> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cudarc-own");
        let output = Command::new("cargo")
            .args(["test", "--package", "cudarc", "--lib", "--no-run"])
            .args(examples.iter().flat_map(|name| ["--example", name]))
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
        let mut tests = None;
        let mut programs = BTreeMap::new();
        for line in messages.lines() {
            let message: Value = serde_json::from_str(line).context("reading what cargo built")?;
            let Some(executable) = message["executable"].as_str() else {
                continue;
            };
            match message["target"]["name"].as_str() {
                Some(name) if examples.contains(&name) => {
                    programs.insert(name.to_owned(), executable.into());
                }
                _ => tests = Some((executable.to_owned(), message)),
            }
        }
        let (executable, message) = tests.context("cargo built no tests of cudarc")?;
        let manifest = message["manifest_path"].as_str();
        let manifest = Path::new(manifest.context("cargo names no manifest of cudarc")?);
        let id = message["package_id"].as_str();
        let version = id.and_then(|id| id.rsplit_once('@'));
        let (_, version) = version.context("cargo names no version of cudarc")?;
        Ok(Program {
            executable: executable.into(),
            examples: programs,
            version: version.to_owned(),
            package: manifest.with_file_name(""),
            library_path: compiler.map(with_folder).transpose()?,
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
    /// # Errors
    /// When it does not pass; the message shows what it said.
    pub fn run(&self, test: &str, schedule: &str) -> Result<Vec<String>> {
        let mut command = Command::new(&self.executable);
        command.args(["--exact", "--include-ignored", "--nocapture", test]);
        self.watch(command, schedule, |said, _| passed(said))
    }

    /// The same for an example, which has to end with success. It looks for its files from the package's folder.
    ///
    /// # Errors
    /// When it does not; the message shows what it said.
    pub fn run_example(&self, name: &str, schedule: &str) -> Result<Vec<String>> {
        let executable = self.examples.get(name);
        let executable = executable.with_context(|| format!("cargo built no example {name}"))?;
        let mut command = Command::new(executable);
        command.current_dir(&self.package);
        self.watch(command, schedule, |_, success| {
            ensure!(success, "it did not end with success");
            Ok(())
        })
    }

    /// Runs a program, judges what it said and whether it ended with success, and returns the ids of its hazards.
    ///
    /// Two devices, for the tests that ask for a second one. A GPU heeds neither.
    fn watch(
        &self,
        mut command: Command,
        schedule: &str,
        judge: impl FnOnce(&str, bool) -> Result<()>,
    ) -> Result<Vec<String>> {
        let scratch = tempfile::tempdir().context("making a folder for the report")?;
        let report = scratch.path().join("report");
        let said = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(scratch.path().join("said"))
            .context("making a file for the output")?;
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CUMODEL_") {
                command.env_remove(name);
            }
        }
        if let Some(path) = &self.library_path {
            command.env("LD_LIBRARY_PATH", path);
        }
        let mut child = command
            .env("CUMODEL_DEVICES", "2")
            .env("CUMODEL_SCHEDULE", schedule)
            .env("CUMODEL_REPORT", &report)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()
            .context("starting cudarc's program")?;
        let ended = child.wait_timeout(TIME_LIMIT).context("waiting for it")?;
        if ended.is_none() {
            child.kill().context("killing it")?;
            child.wait().context("waiting until it was killed")?;
        }
        let said = text(said)?;
        let success = ended.is_some_and(|status| status.success());
        judge(&said, success).with_context(|| format!("under {schedule} it printed:\n{said}"))?;
        hazards(&report)
    }
}

/// The folders that the loader searches now, where the driver is, and `folder` behind them.
fn with_folder(folder: PathBuf) -> Result<OsString> {
    let now = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&now).filter(|it| !it.as_os_str().is_empty());
    env::join_paths(folders.chain([folder])).context("adding nvrtc to LD_LIBRARY_PATH")
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
