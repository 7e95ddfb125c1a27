//! A page that uses a term of the field links to what it means.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::Result;
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;

use super::{pages, Page};

/// Terms as they stand in a sentence, each with its id in the glossary. A word that is as often an ordinary one, such as
/// "graph" or "kernel", is not among them, nor is one that links to a page of its own, as "litmus test" does.
const TERMS: [(&str, &str); 19] = [
    ("pageable", "pageable"),
    ("pinned", "pinned"),
    ("registered memory", "registered"),
    ("managed memory", "managed"),
    ("write-combined", "write-combined"),
    ("stream", "stream"),
    ("event", "event"),
    ("default stream", "default-stream"),
    ("copy stream", "copy-stream"),
    ("host function", "host-function"),
    ("first touch", "first-touch"),
    ("page fault", "page-fault"),
    ("compaction", "compaction"),
    ("NUMA node", "numa-node"),
    ("copy engine", "copy-engine"),
    ("back-pressure", "back-pressure"),
    ("poison", "poison"),
    ("hazard", "hazard"),
    ("schedule", "schedule"),
];

/// Pages that do not link all their terms yet. A page that does is found, so that this list only shrinks.
pub const UNLINKED: &[&str] = &[
    "can-still-fault/locked-is-not-pinned.md",
    "can-still-fault/pinned-on-c2c.md",
    "can-still-fault/which-counter.md",
    "slow-copy/allocator-decides.md",
    "slow-copy/first-touch-places.md",
    "slow-copy/page-size.md",
];

/// Terms that a page uses in its sentences, and links to nowhere; `unlinked` lists pages that are excused.
///
/// # Errors
/// When a file cannot be read.
pub fn check(root: &Path, unlinked: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in pages(root)? {
        let folder = page.path.split_once('/').map(|(folder, _)| folder);
        // A generated page is written by a program, which knows no terms.
        let generated = page.text.starts_with("<!-- Generated");
        if generated || matches!(folder, None | Some("note" | "reference" | "clinic")) {
            continue;
        }
        let missing = missing(&page);
        if !unlinked.contains(&&*page.path) {
            found.extend(missing.iter().map(|term| {
                format!(
                    "{}: \"{term}\" links to no entry of the glossary",
                    page.file()
                )
            }));
        } else if missing.is_empty() {
            found.push(format!(
                "{}: it links all its terms now; strike it off `UNLINKED`",
                page.file()
            ));
        }
    }
    Ok(found)
}

fn missing(page: &Page) -> Vec<&'static str> {
    static WORDS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        let words = TERMS.iter().map(|(term, _)| {
            let word = format!(r"(?i)(?:^|[^\w-]){term}s?(?:$|[^\w-])");
            Regex::new(&word).expect("the terms are constants")
        });
        words.collect()
    });
    let prose = prose(page);
    TERMS
        .iter()
        .zip(&*WORDS)
        .filter(|((_, id), word)| {
            !page.text.contains(&format!("glossary.md#{id})")) && word.is_match(&prose)
        })
        .map(|((term, _), _)| *term)
        .collect()
}

/// The sentences of a page: no code, no headings, no footnotes, nothing folded away.
fn prose(page: &Page) -> String {
    let mut prose = String::new();
    let mut aside = 0;
    for (event, _) in page.events() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Heading { .. } | Tag::FootnoteDefinition(_)) => {
                aside += 1;
            }
            Event::End(TagEnd::CodeBlock | TagEnd::Heading(_) | TagEnd::FootnoteDefinition) => {
                aside -= 1;
            }
            // STREAM is the benchmark.
            Event::Text(text) if aside == 0 => prose += &text.replace("STREAM", ""),
            Event::Code(_) | Event::SoftBreak | Event::HardBreak | Event::End(_) => prose += "\n",
            _ => {}
        }
    }
    prose
}
