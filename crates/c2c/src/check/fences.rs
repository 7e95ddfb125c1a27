//! Every code block says what it is.

use super::markdown::{events, fence_tag, line_of};
use super::sources::Sources;
use super::Problem;
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag};

/// skeptic runs `rust` and skips every other tag in silence, `rs` and `Rust` included.
const TAGS: [&str; 7] = ["rust", "text", "sh", "toml", "mermaid", "json", "console"];

/// Code blocks without a tag or with one that nothing here handles.
pub(crate) fn check(sources: &Sources) -> Vec<Problem> {
    let mut problems = Vec::new();
    for page in &sources.pages {
        for (event, span) in events(&page.text) {
            let Event::Start(Tag::CodeBlock(kind)) = event else {
                continue;
            };
            if let Some(message) = complaint(&kind) {
                problems.push(page.problem(line_of(&page.text, span.start), message));
            }
        }
    }
    problems
}

fn complaint(kind: &CodeBlockKind<'_>) -> Option<String> {
    let tags = TAGS.join(", ");
    match kind {
        CodeBlockKind::Indented => Some(format!(
            "a code block by indentation has no tag; fence it with one of {tags}"
        )),
        CodeBlockKind::Fenced(info) => match fence_tag(info) {
            "" => Some(format!("this code fence has no tag; use one of {tags}")),
            tag if TAGS.contains(&tag) => None,
            tag => Some(format!(
                "code fence tag {tag} is not known; use one of {tags}"
            )),
        },
    }
}
