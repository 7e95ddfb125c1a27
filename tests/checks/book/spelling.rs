//! Words that are known misspellings, by the list of `typos`.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::Result;
use mdbook_markdown::pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;
use unicase::UniCase;

use super::{pages, Page};

/// Misspelt words in the prose of the pages, each with its correction. Code is no prose.
///
/// # Errors
/// When a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let pages = pages(root)?;
    Ok(pages.iter().flat_map(misspelt).collect())
}

fn misspelt(page: &Page) -> Vec<String> {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\w']+").expect("the pattern is a constant"));
    let mut found = Vec::new();
    let mut code = false;
    for (event, span) in page.events() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => code = true,
            Event::End(TagEnd::CodeBlock) => code = false,
            Event::Text(text) if !code => {
                for word in WORD.find_iter(&text).map(|word| word.as_str()) {
                    // Abbreviations and mixed case are names.
                    let named = word.chars().skip(1).any(char::is_uppercase);
                    let corrections = typos_dict::WORD.find(&UniCase::new(word));
                    if let (Some(corrections), false) = (corrections, named) {
                        found.push(format!(
                            "{}:{}: {word} should be {}",
                            page.file(),
                            page.line(span.start),
                            corrections.join(" or ")
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    found
}
