//! Everything mdBook accepts in silence and a reader would stumble over.
//!
//! One module for each kind of problem. Those that need only the sources run first; links and
//! diagrams are then checked against the rendered pages, because only those tell which ids and
//! files there really are.

mod diagrams;
mod fences;
mod files;
mod includes;
mod links;
mod markdown;
mod nearest;
mod sources;
mod summary;

use crate::book::Book;
use crate::render::render;
use anyhow::{Context, Result};
use sources::Sources;
use std::fmt;
use std::path::{Path, PathBuf};

/// One thing to correct in the sources of a book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file to correct, relative to the book's root.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong and, where it can be told, what was meant. One sentence without a full stop.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// All problems of the book in the folder `root`, ordered by file and line.
///
/// The book is rendered into a temporary folder; nothing below `root` is written.
///
/// # Errors
/// When `root` holds no book, or mdBook fails on a book whose sources look right.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    let book = Book::open(root)?;
    let site = tempfile::tempdir().context("could not create a temporary folder for the site")?;
    render_and_check(&book, site.path())
}

/// Renders `book` into the folder `site` and returns what is wrong with it.
pub(crate) fn render_and_check(book: &Book, site: &Path) -> Result<Vec<Problem>> {
    let sources = Sources::read(book)?;
    let mut problems = Vec::new();
    problems.extend(sources.unreadable.iter().cloned());
    problems.extend(summary::check(&sources));
    problems.extend(files::check(&sources));
    problems.extend(fences::check(&sources));
    problems.extend(includes::check(book, &sources)?);

    match render(book, site) {
        Ok(()) => {
            problems.extend(links::check(&sources, site)?);
            problems.extend(diagrams::check(&sources, site)?);
        }
        Err(error) if problems.is_empty() => return Err(error),
        // The problems found so far are why mdBook gave up.
        Err(_) => {}
    }
    problems.sort();
    problems.dedup();
    Ok(problems)
}
