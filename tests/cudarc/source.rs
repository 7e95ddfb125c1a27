//! The tests that stand in cudarc's source, whether a build has them or not.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::WalkDir;

/// The tests of cudarc's module `driver`, by the names that libtest gives them, in order.
///
/// `package` is the folder of cudarc's manifest.
///
/// # Errors
/// When a file cannot be read.
pub fn tests(package: &Path) -> Result<Vec<String>> {
    let sources = package.join("src");
    let mut names = Vec::new();
    for entry in WalkDir::new(sources.join("driver")) {
        let entry = entry.context("reading the folders of cudarc")?;
        let path = entry.path();
        if path.extension().is_none_or(|it| it != "rs") {
            continue;
        }
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let module = module(path.strip_prefix(&sources)?);
        names.extend(
            in_text(&text)
                .into_iter()
                .map(|name| format!("{module}::{name}")),
        );
    }
    names.sort_unstable();
    Ok(names)
}

/// `driver/safe/core.rs` is the module `driver::safe::core`.
fn module(path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts.filter(|part| part != "mod").collect();
    parts.join("::")
}

/// The tests in one file, each behind the name of the module around it.
pub fn in_text(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut module = "";
    let mut is_test = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("mod ") {
            module = name.trim_end_matches([' ', '{']);
        }
        let line = line.trim_start();
        if line == "#[test]" {
            is_test = true;
        } else if let (true, Some(function)) = (is_test, line.strip_prefix("fn ")) {
            let name = function.split('(').next().unwrap_or(function);
            names.push(format!("{module}::{name}"));
            is_test = false;
        }
    }
    names
}
