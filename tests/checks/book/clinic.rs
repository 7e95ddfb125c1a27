//! An entry of the clinic answers first, and says how to tell whether it is yours.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

use super::{pages, Page};

/// The page with the entry questions.
const FRONT: &str = "introduction.md";

/// So many questions lead from the front page to their answers.
const QUESTIONS: usize = 10;

/// What every entry has, in this order; each is one of several openings.
const PARTS: [&[&str]; 5] = [
    &["\n**Fix.** "],
    &["\n**What was wrong.** "],
    &["\n**Do you have it?** ", "\n**Here:** "],
    &["\n**Reported** in "],
    &["\nCase "],
];

/// An entry shows its program, or says why not.
const PROGRAM: [&str; 5] = [
    "{{#include ",
    "\n**Shown in** [",
    "\n**Not shown here:** ",
    "\n**Shown above:** ",
    "\n**Here:** ",
];

/// Entries of another form.
///
/// # Errors
/// When a file cannot be read.
pub fn form(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in pages(root)? {
        if !page.path.starts_with("clinic/") || page.path == "clinic/clinic.md" {
            continue;
        }
        for entry in entries(&page) {
            if let Some(complaint) = complaint(entry) {
                let title = entry.lines().next().unwrap_or_default();
                found.push(format!("{}: {title}: {complaint}", page.file()));
            }
        }
    }
    Ok(found)
}

/// The sections of a page of the clinic, without its sources.
fn entries(page: &Page) -> impl Iterator<Item = &str> {
    let sections = page.text.split("\n## ").skip(1);
    sections.filter(|section| !section.starts_with("Sources"))
}

fn complaint(entry: &str) -> Option<String> {
    let mut rest = entry;
    for part in PARTS {
        match part.iter().find_map(|opening| rest.split_once(opening)) {
            Some((_, after)) => rest = after,
            None => {
                let part = part[0].trim();
                return Some(format!("{part} is missing or not in its order"));
            }
        }
    }
    if !opens_with_the_fix(entry) {
        return Some("it does not open with the fix".to_owned());
    }
    let shows = PROGRAM.iter().any(|opening| entry.contains(opening));
    (!shows).then(|| "it neither shows a program nor says why not".to_owned())
}

fn opens_with_the_fix(entry: &str) -> bool {
    entry
        .split_once("\n\n")
        .is_some_and(|(_, text)| text.starts_with("**Fix.** "))
}

/// Questions of the front page whose answer is not the first thing at the end of the link.
///
/// # Errors
/// When a file cannot be read, or there is no front page with questions.
pub fn questions(root: &Path) -> Result<Vec<String>> {
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\]\(([^)#]+)#([^)]+)\)").expect("the pattern is a constant"));
    let pages = pages(root)?;
    let front = pages.iter().find(|page| page.path == FRONT);
    let front = front.with_context(|| format!("looking for src/{FRONT}"))?;
    let (_, table) = front
        .text
        .split_once("{#ten-questions}")
        .with_context(|| format!("looking for the questions in {}", front.file()))?;
    let (table, _) = table.split_once("\n## ").unwrap_or((table, ""));
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('?'))
        .collect();
    let mut found = Vec::new();
    if rows.len() != QUESTIONS {
        found.push(format!(
            "{}: {} questions; there should be {QUESTIONS}",
            front.file(),
            rows.len()
        ));
    }
    for row in rows {
        if !LINK.is_match(row) {
            found.push(format!("{}: no answer: {row}", front.file()));
        }
        for link in LINK.captures_iter(row) {
            let heading = format!("{{#{}}}\n", &link[2]);
            let page = pages.iter().find(|page| page.path == link[1]);
            let answer = page.and_then(|page| page.text.split_once(&heading));
            // A page of its own begins with its rule, an entry of the clinic with the fix.
            let answers = answer.is_some_and(|(_, text)| {
                let text = text.trim_start();
                text.starts_with("**Fix.** ") || text.starts_with("> **Rule.** ")
            });
            if !answers {
                found.push(format!(
                    "{}: {}#{} does not open with an answer",
                    front.file(),
                    &link[1],
                    &link[2]
                ));
            }
        }
    }
    Ok(found)
}
