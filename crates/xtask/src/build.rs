//! The programs that cargo makes of the listings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context, Result};
use serde::Deserialize;

/// What `cargo build --examples` made.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The program of each listing, by slug.
    pub programs: BTreeMap<String, PathBuf>,
    /// The rlib of each library that they use, by the name that `use` takes.
    pub libraries: BTreeMap<String, PathBuf>,
}

/// Builds every listing below `root`, and the model beside them.
///
/// It selects the same packages as `cargo test`, so that cargo finds the features unchanged and has nothing to build
/// a second time.
///
/// # Errors
/// When cargo cannot be started or a listing does not compile; cargo has then said why on stderr.
pub fn examples(root: &Path) -> Result<Built> {
    let output = Command::new("cargo")
        .args([
            "build",
            "--quiet",
            "--examples",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("starting `cargo build --examples`")?;
    ensure!(
        output.status.success(),
        "`cargo build --examples` failed: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).context("reading what cargo built")?;
    artifacts(&text).context("reading what cargo built")
}

/// The fields of cargo's messages that matter here; the other messages have none of them.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn artifacts(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line)?;
        let Some(target) = message.target else {
            continue;
        };
        let rlib = message
            .filenames
            .into_iter()
            .find(|file| file.extension().is_some_and(|it| it == "rlib"));
        match (message.executable, rlib) {
            (Some(program), _) if target.kind == ["example"] => {
                built.programs.insert(target.name, program);
            }
            (None, Some(rlib)) => {
                built.libraries.insert(target.name.replace('-', "_"), rlib);
            }
            _ => {}
        }
    }
    Ok(built)
}
