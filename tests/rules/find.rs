//! Where the source cites a rule by its number.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;
use walkdir::WalkDir;

/// By rule, the places that cite it, in the order they were found.
pub type Citations = BTreeMap<String, Vec<String>>;

static RULE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bR(\d+)(?: to R(\d+))?\b"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^\s*(?:pub(?:\([a-z]+\))? )?(?:unsafe )?(?:extern "C" )?(?:(?:fn|struct|enum|trait|const|static|type) )?(\w+)"#,
    )
});
/// A test function, or a test of a table: `always("its_name", …`.
static TEST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^(?:(?:pub )?fn |    (?:always|mistake|timing_dependent)\(")(\w+)"#)
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

/// The numbers in a line, those between the ends of "R60 to R66" included.
fn rules(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for captures in RULE.captures_iter(line) {
        let number = |group| {
            captures
                .get(group)
                .and_then(|it| it.as_str().parse::<u32>().ok())
        };
        let Some(first) = number(1) else { continue };
        let last = number(2).unwrap_or(first);
        found.extend((first..=last).map(|rule| format!("R{rule}")));
    }
    found
}

fn add(citations: &mut Citations, rule: String, place: &str) {
    let places = citations.entry(rule).or_default();
    if !places.iter().any(|it| it == place) {
        places.push(place.to_owned());
    }
}

fn sources(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        if entry.path().extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("reading {}", entry.path().display()))?;
            let name = entry
                .path()
                .strip_prefix(folder)
                .context("it lies in the folder")?;
            files.push((name.with_extension("").to_string_lossy().into_owned(), text));
        }
    }
    Ok(files)
}

/// Adds the functions, types and their parts whose documentation cites a rule.
///
/// # Errors
/// When the folder cannot be read.
pub fn in_documentation(package: &str, folder: &Path, citations: &mut Citations) -> Result<()> {
    for (file, text) in sources(folder)? {
        let module = format!("{package}::{}", file.replace('/', "::"))
            .trim_end_matches("::lib")
            .trim_end_matches("::mod")
            .to_owned();
        let mut cited = Vec::new();
        for line in text.lines() {
            let trimmed = line.trim_start();
            if let Some(documentation) = trimmed.strip_prefix("//!") {
                for rule in rules(documentation) {
                    add(citations, rule, &format!("`{module}`"));
                }
            } else if let Some(documentation) = trimmed.strip_prefix("///") {
                cited.extend(rules(documentation));
            } else if !trimmed.starts_with("#[") && !cited.is_empty() {
                let name = ITEM
                    .captures(line)
                    .map_or("", |captures| captures.get(1).map_or("", |it| it.as_str()));
                for rule in cited.drain(..) {
                    add(citations, rule, &format!("`{module}::{name}`"));
                }
            }
        }
    }
    Ok(())
}

/// Adds the tests that cite a rule, in a comment before them or inside.
///
/// # Errors
/// When the folder cannot be read.
pub fn in_tests(folder: &Path, citations: &mut Citations) -> Result<()> {
    for (_, text) in sources(folder)? {
        let mut test = None;
        let mut waiting = Vec::new();
        for line in text.lines() {
            if let Some(captures) = TEST.captures(line) {
                test = captures.get(1).map(|it| it.as_str().to_owned());
            } else if line == "}" {
                test = None;
            }
            if line.trim_start().starts_with("//") {
                waiting.extend(rules(line));
            }
            if let Some(test) = test
                .as_ref()
                .filter(|_| !line.trim_start().starts_with("//"))
            {
                for rule in waiting.drain(..) {
                    add(citations, rule, &format!("`{test}`"));
                }
            }
        }
    }
    Ok(())
}

/// The litmus tests of the page: the first column is the test, the second its rules.
pub fn in_litmus_table(page: &str) -> Citations {
    let mut citations = Citations::new();
    for line in page
        .lines()
        .filter(|line| line.starts_with("| L") || line.starts_with("| C"))
    {
        let mut columns = line.split('|').skip(1).map(str::trim);
        let test = columns.next().unwrap_or_default();
        let test = test.split_whitespace().next().unwrap_or_default();
        let section = if test.starts_with('L') {
            "litmus-driver"
        } else {
            "litmus-cudarc"
        };
        for rule in rules(columns.next().unwrap_or_default()) {
            add(
                &mut citations,
                rule,
                &format!("[{test}](litmus.md#{section})"),
            );
        }
    }
    citations
}
