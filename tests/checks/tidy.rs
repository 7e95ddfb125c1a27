//! Habits that no other tool keeps.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::WalkDir;
use xtask::examples::{self, Example};
use yaml_rust2::YamlLoader;

/// The fewest and the most lines that a page shows of a listing.
const SHOWN: std::ops::RangeInclusive<usize> = 8..=45;

/// No Rust file has code that was left for later, or an ignored test without a reason.
///
/// # Errors
/// When a file cannot be read.
pub fn unfinished(root: &Path) -> Result<Vec<String>> {
    // Put together here, so that this file is not found.
    let left = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let mut found = Vec::new();
    for folder in ["crates", "examples", "tests"] {
        for path in files(&root.join(folder), "rs") {
            for (number, line) in (1..).zip(read(&path)?.lines()) {
                let place = || format!("{}:{number}", relative(root, &path));
                if let Some(name) = left.iter().find(|name| line.contains(*name)) {
                    found.push(format!("{}: {name}…) was left in", place()));
                }
                if line.trim() == "#[ignore]" {
                    found.push(format!("{}: `#[ignore = \"…\"]` must say why", place()));
                }
            }
        }
    }
    Ok(found)
}

/// Every listing has the form that CONTRIBUTING.md asks for.
///
/// # Errors
/// When a file cannot be read, or a listing does not start with its claim and its hazard.
pub fn form(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for example in examples::all(root)? {
        let folder = format!("examples/{}", example.slug);
        let source = read(&root.join(&folder).join("main.rs"))?;
        let main = format!("{folder}/main.rs");
        if source.contains(".unwrap(") {
            found.push(format!(
                "{main}: errors go to `main` with `?`, not into `unwrap`"
            ));
        }
        if example.hazard.is_some() != example.slug.ends_with("_broken") {
            found.push(format!(
                "{main}: a listing with a hazard, and no other, is named `…_broken`"
            ));
        }
        match shown(&source) {
            None => found.push(format!(
                "{main}: `// ANCHOR: idea` and `// ANCHOR_END: idea` must enclose what a page shows"
            )),
            Some(lines) if !SHOWN.contains(&lines) => found.push(format!(
                "{main}: a page shows {lines} lines of it; it should be {} to {}",
                SHOWN.start(),
                SHOWN.end()
            )),
            Some(_) => {}
        }
        for name in expected_files(&example) {
            if !root.join(&folder).join(name).is_file() {
                found.push(format!(
                    "{folder}/{name}: `cargo xtask bless` has not recorded it"
                ));
            }
        }
    }
    Ok(found)
}

/// The number of lines between the anchors `idea`.
fn shown(source: &str) -> Option<usize> {
    let mut lines = source.lines();
    lines.find(|line| line.trim() == "// ANCHOR: idea")?;
    lines.position(|line| line.trim() == "// ANCHOR_END: idea")
}

fn expected_files(example: &Example) -> Vec<&'static str> {
    match example.hazard {
        Some(_) => vec!["stdout.txt", "timeline.mmd", "report.txt"],
        None => vec!["stdout.txt"],
    }
}

/// README.md shows `pinned_reuse` as it is: its region `idea`, without the indentation, and its recorded output.
///
/// # Errors
/// When a file cannot be read.
pub fn readme(root: &Path) -> Result<Vec<String>> {
    let readme = read(&root.join("README.md"))?;
    let program = read(&root.join("examples/pinned_reuse/main.rs"))?;
    let shown: String = program
        .lines()
        .skip_while(|line| line.trim() != "// ANCHOR: idea")
        .skip(1)
        .take_while(|line| line.trim() != "// ANCHOR_END: idea")
        .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect();
    let output = read(&root.join("examples/pinned_reuse/stdout.txt"))?;
    Ok([("listing", shown), ("output", output)]
        .into_iter()
        .filter(|(_, text)| !readme.contains(text.as_str()))
        .map(|(what, _)| {
            format!("README.md: the {what} is not that of examples/pinned_reuse any more")
        })
        .collect())
}

/// CITATION.cff is YAML and has what the format demands.
///
/// # Errors
/// When the file cannot be read.
pub fn citation(root: &Path) -> Result<Vec<String>> {
    let documents = match YamlLoader::load_from_str(&read(&root.join("CITATION.cff"))?) {
        Ok(documents) => documents,
        Err(error) => return Ok(vec![format!("CITATION.cff: it is not YAML: {error}")]),
    };
    let demanded = ["cff-version", "message", "title", "authors"];
    Ok(demanded
        .into_iter()
        .filter(|key| documents.first().is_none_or(|it| it[*key].is_badvalue()))
        .map(|key| format!("CITATION.cff: the key {key} is missing"))
        .collect())
}

/// Every function that cudarc looks up in the driver is one that the model exports.
///
/// `bindings` is cudarc's source: it gives each function the CUDA versions that have it.
///
/// # Errors
/// When a file cannot be read.
pub fn not_exported(root: &Path, bindings: &str) -> Result<Vec<String>> {
    let list = "crates/cumodel-driver/symbols.txt";
    let exported = read(&root.join(list))?;
    let exported: Vec<&str> = exported.lines().collect();
    Ok(bound(bindings)
        .into_iter()
        .filter(|name| !exported.contains(name))
        .map(|name| format!("{list}: cudarc looks up {name}, which is not listed"))
        .collect())
}

/// The functions that cudarc binds with the feature that the workspace chooses.
pub fn bound(bindings: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut before = "";
    for line in bindings.lines() {
        if let Some(function) = line.strip_prefix("pub unsafe fn ") {
            let for_us = !before.starts_with("#[cfg(") || before.contains("\"cuda-12080\"");
            if let (true, Some((name, _))) = (for_us, function.split_once('(')) {
                found.push(name);
            }
        }
        before = line;
    }
    found
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = WalkDir::new(folder)
        .into_iter()
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.into_path())
        .filter(|path| path.is_file() && path.extension() == Some(OsStr::new(extension)))
        .collect();
    files.sort();
    files
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}
