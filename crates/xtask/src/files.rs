//! The recorded files beside a listing, which the book includes.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::examples::Example;
use crate::record::Recorded;
use crate::timeline;

/// A recorded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the repository, for example `examples/pinned_reuse/stdout.txt`.
    pub path: String,
    /// What it must hold; `None` when it must not exist.
    pub content: Option<String>,
}

/// The recorded files of a listing after the run `recorded`.
///
/// # Errors
/// When the trace of the run cannot be read.
pub fn of(example: &Example, recorded: &Recorded) -> Result<Vec<File>> {
    let path = |name| format!("examples/{}/{name}", example.slug);
    let timeline = timeline::mermaid(&recorded.trace)
        .with_context(|| format!("drawing examples/{}/timeline.mmd", example.slug))?;
    Ok(vec![
        File {
            path: path("stdout.txt"),
            content: Some(recorded.stdout.clone()),
        },
        File {
            path: path("timeline.mmd"),
            content: timeline,
        },
        File {
            path: path("report.txt"),
            content: example.hazard.is_some().then(|| report(recorded)),
        },
    ])
}

fn report(recorded: &Recorded) -> String {
    let texts: Vec<&str> = recorded
        .reports
        .iter()
        .map(|it| it.text.trim_end())
        .collect();
    texts.join("\n\n") + "\n"
}

impl File {
    /// What the file holds now below `root`; `None` when it does not exist.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn now(&self, root: &Path) -> Result<Option<String>> {
        let path = root.join(&self.path);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", self.path))?;
        Ok(Some(text))
    }

    /// Brings the file below `root` up to date, whole or not at all. Returns whether that changed anything.
    ///
    /// # Errors
    /// When it cannot be read, written or removed.
    pub fn bless(&self, root: &Path) -> Result<bool> {
        let now = self.now(root)?;
        if now == self.content {
            return Ok(false);
        }
        let path = root.join(&self.path);
        match &self.content {
            Some(content) => {
                replace(&path, content).with_context(|| format!("writing {}", self.path))?;
            }
            None => {
                fs::remove_file(&path).with_context(|| format!("removing {}", self.path))?;
            }
        }
        Ok(true)
    }
}

/// Whoever reads the file meanwhile, a running `c2c serve` for one, sees the old text or the new one.
fn replace(path: &Path, content: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = path.parent().context("the file has no folder")?;
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
