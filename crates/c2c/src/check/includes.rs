//! Every `{{#include}}` finds its file and its anchor.

use super::markdown::line_of;
use super::nearest::did_you_mean;
use super::sources::Sources;
use super::Problem;
use crate::book::Book;
use anyhow::{Context, Result};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The pattern mdBook's own preprocessor looks for, in code blocks as well as in text.
const DIRECTIVE: &str = r"\\\{\{\#.*\}\}|\{\{\s*\#([a-zA-Z0-9_]+)\s+([^}]+)\}\}";

/// Includes of missing files and of unknown or unclosed anchors, and misspelt directives.
pub(crate) fn check(book: &Book, sources: &Sources) -> Result<Vec<Problem>> {
    let directive = Regex::new(DIRECTIVE).context("could not compile the include pattern")?;
    let mut problems = Vec::new();
    for page in &sources.pages {
        for found in directive.captures_iter(&page.text) {
            // An escaped directive has no groups.
            let (Some(kind), Some(argument)) = (found.get(1), found.get(2)) else {
                continue;
            };
            let complaint = match kind.as_str() {
                "title" => None,
                "include" | "rustdoc_include" | "playground" => {
                    let folder = book.src().join(page.folder());
                    complaint(book, &folder, argument.as_str())
                }
                other => Some(format!("mdBook has no directive {other}")),
            };
            if let Some(message) = complaint {
                problems.push(page.problem(line_of(&page.text, kind.start()), message));
            }
        }
    }
    Ok(problems)
}

/// What is wrong with including `argument` (`path` or `path:anchor`) from a page in `folder`.
fn complaint(book: &Book, folder: &Path, argument: &str) -> Option<String> {
    let argument = argument.split_whitespace().next().unwrap_or_default();
    let (path, anchor) = match argument.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (argument, None),
    };
    let file = without_dots(&folder.join(path));
    if !file.is_file() {
        return Some(missing(book, &file));
    }
    let anchor = anchor?;
    let shown = book.relative(&file).display();
    if anchor.starts_with(|c: char| c.is_ascii_digit() || c == ':') {
        return Some(format!(
            "{shown} is included by line number, and lines move; name an anchor"
        ));
    }
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return Some(format!("{shown} cannot be read: {error}")),
    };
    let anchors = anchors(&text);
    match anchors.get(anchor) {
        Some(true) => None,
        Some(false) => Some(format!(
            "anchor {anchor} of {shown} is never closed; add ANCHOR_END: {anchor}"
        )),
        None if anchors.is_empty() => Some(format!(
            "{shown} has no anchor {anchor}; it has no anchors at all"
        )),
        None => {
            let names: Vec<&str> = anchors.keys().copied().collect();
            let names = names.join(", ");
            Some(format!("{shown} has no anchor {anchor}; it has {names}"))
        }
    }
}

/// Says which part of the path does not exist and what lies there instead.
fn missing(book: &Book, file: &Path) -> String {
    let absent = file
        .ancestors()
        .take_while(|path| !path.exists())
        .last()
        .unwrap_or(file);
    let shown = book.relative(absent).display();
    let (Some(name), Some(folder)) = (absent.file_name(), absent.parent()) else {
        return format!("{shown} does not exist");
    };
    if absent.exists() {
        return format!("{shown} is a folder; include a file in it");
    }
    let siblings: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let hint = did_you_mean(&name.to_string_lossy(), siblings.iter().map(String::as_str));
    format!("{shown} does not exist{hint}")
}

/// The anchors that open in `text`, and whether each is closed further down.
fn anchors(text: &str) -> BTreeMap<&str, bool> {
    let mut anchors = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = anchor_name(line, "ANCHOR:") {
            anchors.entry(name).or_insert(false);
        } else if let Some(name) = anchor_name(line, "ANCHOR_END:") {
            anchors.entry(name).and_modify(|closed| *closed = true);
        }
    }
    anchors
}

/// The name after `marker` in `line`.
fn anchor_name<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(marker)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// Resolves `.` and `..` by name alone, so that missing files can be named too.
pub(crate) fn without_dots(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            other => resolved.push(other),
        }
    }
    resolved
}
