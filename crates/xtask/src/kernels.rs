//! The kernels of `lab`: CUDA C, and the PTX that nvrtc makes of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::files::File;
use crate::nvrtc;

/// Where both lie, from the root of the repository.
const FOLDER: &str = "crates/lab/kernels";

/// The PTX files as they must be, or why nobody can say that here.
pub enum Compiled {
    /// One for each kernel.
    Files(Vec<File>),
    /// nvrtc is not here, or is another version.
    Waived(String),
}

/// Compiles every kernel below `root`, if nvrtc is here.
///
/// # Errors
/// When a kernel cannot be read or compiled.
pub fn compile(root: &Path) -> Result<Compiled> {
    if let Some(why) = nvrtc::load(root)? {
        return Ok(Compiled::Waived(why));
    }
    let mut files = Vec::new();
    let entries = fs::read_dir(root.join(FOLDER)).with_context(|| format!("reading {FOLDER}"))?;
    for entry in entries {
        let path = entry.with_context(|| format!("reading {FOLDER}"))?.path();
        if path.extension().is_none_or(|it| it != "cu") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let source =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let ptx = nvrtc::compile(&source, &[])
            .with_context(|| format!("compiling {}", path.display()))?;
        files.push(File {
            path: format!("{FOLDER}/{name}.ptx"),
            content: Some(ptx),
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Compiled::Files(files))
}

/// The files among `files` that hold something else now.
///
/// # Errors
/// When one cannot be read.
pub fn stale<'a>(root: &Path, files: &'a [File]) -> Result<Vec<&'a str>> {
    let mut stale = Vec::new();
    for file in files {
        if file.now(root)? != file.content {
            stale.push(file.path.as_str());
        }
    }
    Ok(stale)
}
