//! The list of sources is complete.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use mdbook_markdown::pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::{pages, Page};

/// The page that lists the sources.
const LIST: &str = "reference/sources.md";

/// Addresses that a page gives as its source, and that neither the list of sources nor the clinic has: its entries are
/// the list of the reports behind them.
///
/// # Errors
/// When a file cannot be read.
pub fn unlisted(root: &Path) -> Result<Vec<String>> {
    let (lists, pages): (Vec<Page>, Vec<Page>) = pages(root)?
        .into_iter()
        .partition(|page| page.path == LIST || page.path.starts_with("clinic/"));
    let listed: BTreeSet<String> = lists.iter().flat_map(|list| links(list, false)).collect();
    let mut found = Vec::new();
    for page in &pages {
        for address in links(page, true).difference(&listed) {
            found.push(format!("{}: src/{LIST} lacks {address}", page.file()));
        }
    }
    Ok(found)
}

/// The addresses on other hosts that a page links to; if `as_source`, those in its footnotes and under its heading
/// "Sources" only.
fn links(page: &Page, as_source: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut footnote = false;
    let mut heading = false;
    let mut sources = false;
    for (event, _) in page.events() {
        match event {
            Event::Start(Tag::FootnoteDefinition(_)) => footnote = true,
            Event::End(TagEnd::FootnoteDefinition) => footnote = false,
            Event::Start(Tag::Heading {
                level: HeadingLevel::H2,
                ..
            }) => (heading, sources) = (true, false),
            Event::End(TagEnd::Heading(_)) => heading = false,
            Event::Text(text) if heading => sources = &*text == "Sources",
            Event::Start(Tag::Link { dest_url, .. })
                if dest_url.starts_with("https://") && (footnote || sources || !as_source) =>
            {
                found.insert(dest_url.into_string());
            }
            _ => {}
        }
    }
    found
}
