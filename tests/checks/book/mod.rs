//! What must hold for the pages as prose: their form, their sources, their words, their addresses.
//!
//! `c2c` checks that a page can be built and its links lead somewhere; this is about what it says.

pub mod clinic;
pub mod ids;
pub mod numbers;
pub mod shown;
pub mod sources;
pub mod spelling;
pub mod template;

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::Event;
use mdbook_markdown::{new_cmark_parser, MarkdownOptions};
use walkdir::WalkDir;

/// A page as it is written, includes not expanded.
#[derive(Clone, Debug)]
pub struct Page {
    /// Relative to `src/`, with `/` between folders.
    pub path: String,
    /// Its Markdown.
    pub text: String,
}

impl Page {
    /// The Markdown events of the page, each with the bytes it comes from.
    pub fn events(&self) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
        new_cmark_parser(&self.text, &MarkdownOptions::default()).into_offset_iter()
    }

    /// The line of a byte, counted from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Where the page lies, as a complaint starts.
    pub fn file(&self) -> String {
        format!("src/{}", self.path)
    }
}

/// All pages of the book, by path; the summary is no page.
///
/// # Errors
/// When a file cannot be read.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let src = root.join("src");
    let mut pages = Vec::new();
    for entry in WalkDir::new(&src).sort_by_file_name() {
        let entry = entry.with_context(|| format!("listing the pages in {}", src.display()))?;
        let file = entry.path();
        let path = file.strip_prefix(&src).unwrap_or(file).to_string_lossy();
        if path.ends_with(".md") && path != "SUMMARY.md" {
            pages.push(Page {
                path: path.into_owned(),
                text: fs::read_to_string(file)
                    .with_context(|| format!("reading {}", file.display()))?,
            });
        }
    }
    Ok(pages)
}
