//! SUMMARY.md and the pages agree.

use super::markdown::{events, line_of};
use super::nearest::did_you_mean;
use super::sources::{Page, Sources};
use super::Problem;
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use mdbook_summary::parse_summary;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// mdBook shows this page for addresses that do not exist; it has no place in the contents.
const NOT_FOUND_PAGE: &str = "404.md";

/// Chapters without a page, pages without a chapter, and a SUMMARY.md that mdBook cannot parse.
pub(crate) fn check(sources: &Sources) -> Vec<Problem> {
    let summary = &sources.summary;
    if let Err(error) = parse_summary(&summary.text) {
        let cause = error.root_cause().to_string();
        let line = line_in(&cause).unwrap_or(1);
        let message = format!("mdBook cannot read this file: {cause}");
        return vec![summary.problem(line, message)];
    }
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for (line, chapter) in chapters(summary) {
        if !sources.pages.iter().any(|page| page.path == chapter) {
            let pages = sources.pages.iter().filter_map(|page| page.path.to_str());
            let hint = did_you_mean(&chapter.to_string_lossy(), pages);
            let message = format!("chapter {} does not exist{hint}", chapter.display());
            problems.push(summary.problem(line, message));
        }
        listed.insert(chapter);
    }
    for page in &sources.pages {
        if !listed.contains(&page.path) && page.path != Path::new(NOT_FOUND_PAGE) {
            let message = "this page is not listed in SUMMARY.md, so nobody can reach it";
            problems.push(page.problem(1, message));
        }
    }
    problems
}

/// The line that mdBook's own message names: `... SUMMARY.md line 3, column 1: ...`.
fn line_in(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("SUMMARY.md line ")?;
    rest.split_once(',')?.0.parse().ok()
}

/// The line and the path of each chapter; drafts have no path and are left out.
fn chapters(summary: &Page) -> impl Iterator<Item = (usize, PathBuf)> + '_ {
    events(&summary.text).filter_map(|(event, span)| match event {
        Event::Start(Tag::Link { dest_url, .. }) if !dest_url.is_empty() => Some((
            line_of(&summary.text, span.start),
            // `./a.md` and `a.md` are the same chapter.
            Path::new(&*dest_url)
                .components()
                .filter(|component| *component != Component::CurDir)
                .collect(),
        )),
        _ => None,
    })
}
