//! A number that somebody measured has a source.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::Result;
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;

use super::{pages, Page};

/// Pages whose numbers are settings of this repository, not measurements. A page without such a number any more is
/// found, so that the list only shrinks.
const OWN_SETTINGS: &[&str] = &["reference/litmus.md"];

/// Lines with a number and a unit of time or speed, a percentage or a factor, but without a footnote.
///
/// Code, diagrams and included output are not prose, and the footnotes themselves are the sources. A paragraph that says
/// it is arithmetic needs none: the reader can redo it.
///
/// # Errors
/// When a file cannot be read.
pub fn unsourced(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in pages(root)? {
        let lines = unsourced_lines(&page);
        if !OWN_SETTINGS.contains(&&*page.path) {
            found.extend(lines.into_iter().map(|(line, number)| {
                format!(
                    "{}:{line}: `{number}` has no footnote on its line",
                    page.file()
                )
            }));
        } else if lines.is_empty() {
            found.push(format!(
                "{}: it has no such number; strike it off `OWN_SETTINGS`",
                page.file()
            ));
        }
    }
    Ok(found)
}

/// The lines, counted from 1, each with its first number.
fn unsourced_lines(page: &Page) -> Vec<(usize, String)> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        let units = r"(?:GB/s|GiB/s|MB/s|MiB/s|TB/s|ns|µs|ms|s|%|×)";
        Regex::new(&format!(
            r"(?:^|[^\w.])(\d[\d.,]*[ \u{{a0}}]?{units})(?:$|[^\w/-])"
        ))
        .expect("the pattern is a constant")
    });
    let lines: Vec<&str> = page.text.lines().collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut aside = 0;
    for (event, span) in page.events() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::FootnoteDefinition(_)) => aside += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::FootnoteDefinition) => aside -= 1,
            Event::Text(text) if aside == 0 => {
                let line = page.line(span.start);
                let written = lines[line - 1];
                let sourced =
                    written.contains("[^") || paragraph(&lines, line).contains("arithmetic");
                let number = NUMBER.captures(&text).map(|number| number[1].to_owned());
                if let (Some(number), false) = (number, sourced) {
                    if found.last().is_none_or(|(last, _)| *last != line) {
                        found.push((line, number));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The lines around `line`, counted from 1, up to the next empty ones.
fn paragraph(lines: &[&str], line: usize) -> String {
    let (before, after) = lines.split_at(line);
    let filled = |line: &&&str| !line.trim().is_empty();
    let before: Vec<&str> = before.iter().rev().take_while(filled).copied().collect();
    let after: Vec<&str> = after.iter().take_while(filled).copied().collect();
    before.join(" ") + &after.join(" ")
}
