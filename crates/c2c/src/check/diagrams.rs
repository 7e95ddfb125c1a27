//! Every mermaid block is drawn, and by its look can be.

use super::markdown::{events, fence_tag, line_of};
use super::nearest::did_you_mean;
use super::sources::{Page, Sources};
use super::Problem;
use crate::html::{read_page, Diagram};
use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag};
use std::fs;
use std::path::Path;

/// First words that the committed mermaid 11.6 takes for a diagram.
const KINDS: [&str; 25] = [
    "C4Component",
    "C4Container",
    "C4Context",
    "C4Deployment",
    "C4Dynamic",
    "architecture-beta",
    "block-beta",
    "classDiagram",
    "classDiagram-v2",
    "erDiagram",
    "flowchart",
    "gantt",
    "gitGraph",
    "graph",
    "journey",
    "kanban",
    "mindmap",
    "packet-beta",
    "pie",
    "quadrantChart",
    "sequenceDiagram",
    "stateDiagram",
    "stateDiagram-v2",
    "timeline",
    "xychart-beta",
];

/// Diagrams that stayed code blocks, are empty, or are of no known kind.
///
/// # Errors
/// When a rendered page cannot be read.
pub(crate) fn check(sources: &Sources, site: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for page in &sources.pages {
        let lines = fence_lines(page);
        let file = site.join(page.html());
        // A page that SUMMARY.md does not list is not rendered; that is reported elsewhere.
        if lines.is_empty() || !file.is_file() {
            continue;
        }
        let html = fs::read_to_string(&file)
            .with_context(|| format!("could not read {}", file.display()))?;
        // Includes may not hold fences of their own, so the n-th fence is the n-th diagram.
        for (line, diagram) in lines.into_iter().zip(read_page(&html).diagrams) {
            if let Some(message) = complaint(&diagram) {
                problems.push(page.problem(line, message));
            }
        }
    }
    Ok(problems)
}

/// The lines on which mermaid fences open.
fn fence_lines(page: &Page) -> Vec<usize> {
    events(&page.text)
        .filter_map(|(event, span)| match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info)))
                if fence_tag(&info) == "mermaid" =>
            {
                Some(line_of(&page.text, span.start))
            }
            _ => None,
        })
        .collect()
}

fn complaint(diagram: &Diagram) -> Option<String> {
    let Diagram::Source(source) = diagram else {
        return Some(
            "this diagram is still a code block; book.toml needs [preprocessor.mermaid]".into(),
        );
    };
    match first_word(source) {
        None => Some("this diagram is empty".into()),
        // An include that found nothing, which is reported where includes are checked.
        Some(word) if word.starts_with("{{#") || KINDS.contains(&word) => None,
        Some(word) => {
            let hint = did_you_mean(word, KINDS);
            Some(format!("{word} is no kind of mermaid diagram{hint}"))
        }
    }
}

/// The first word that is not part of a comment or of the settings between two `---` lines.
fn first_word(source: &str) -> Option<&str> {
    let mut in_settings = false;
    for line in source.lines().map(str::trim) {
        if line == "---" {
            in_settings = !in_settings;
        } else if !in_settings && !line.is_empty() && !line.starts_with("%%") {
            return line.split([' ', '\t', ':', ';']).next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Option<String> {
        complaint(&Diagram::Source(text.into()))
    }

    #[test]
    fn settings_and_comments_come_before_the_kind() {
        assert_eq!(
            source("---\ntitle: graf\n---\n%% comment\nsequenceDiagram\nA->>B: x"),
            None
        );
        assert_eq!(source("graph TD; A-->B"), None);
    }

    #[test]
    fn hopeless_diagrams_are_refused() {
        assert!(source("\n%% only a comment\n").is_some_and(|m| m.contains("empty")));
        assert_eq!(
            source("sequenceDiagramm\nA->>B: x").as_deref(),
            Some("sequenceDiagramm is no kind of mermaid diagram; did you mean sequenceDiagram?")
        );
        assert!(complaint(&Diagram::CodeBlock).is_some_and(|m| m.contains("code block")));
    }
}
