//! The files under src/, read once.

use super::Problem;
use crate::book::{is_editor_file, Book};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Everything under the book's source folder.
pub(crate) struct Sources {
    /// The source folder, relative to the book's root.
    pub(crate) folder: PathBuf,
    /// `SUMMARY.md`.
    pub(crate) summary: Page,
    /// Every other Markdown file, sorted by path.
    pub(crate) pages: Vec<Page>,
    /// Everything that is not Markdown, relative to the book's root.
    pub(crate) others: Vec<PathBuf>,
    /// Markdown files that could not be read as text.
    pub(crate) unreadable: Vec<Problem>,
}

/// A Markdown file.
pub(crate) struct Page {
    /// Relative to the book's root: how problems name it.
    pub(crate) file: PathBuf,
    /// Relative to the source folder: how `SUMMARY.md` and the site name it.
    pub(crate) path: PathBuf,
    /// The text as written, includes not expanded.
    pub(crate) text: String,
}

impl Page {
    /// A problem at `line` of this page.
    pub(crate) fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem {
            file: self.file.clone(),
            line,
            message: message.into(),
        }
    }

    /// The rendered page, relative to the site.
    pub(crate) fn html(&self) -> PathBuf {
        self.path.with_extension("html")
    }

    /// The folder of the page, relative to the source folder.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

impl Sources {
    /// Reads every file under the source folder of `book`.
    pub(crate) fn read(book: &Book) -> Result<Sources> {
        let src = book.src();
        let folder = book.relative(&src).to_path_buf();
        let mut pages = Vec::new();
        let mut others = Vec::new();
        let mut unreadable = Vec::new();
        for entry in WalkDir::new(&src).sort_by_file_name() {
            let entry =
                entry.with_context(|| format!("could not list the pages in {}", src.display()))?;
            let file = entry.path();
            if entry.file_type().is_dir() || is_editor_file(file) {
                continue;
            }
            let path = file.strip_prefix(&src).unwrap_or(file).to_path_buf();
            let file = book.relative(file).to_path_buf();
            if path.extension().is_none_or(|extension| extension != "md") {
                others.push(file);
                continue;
            }
            match fs::read_to_string(entry.path()) {
                Ok(text) => pages.push(Page { file, path, text }),
                Err(error) => unreadable.push(Problem {
                    file,
                    line: 1,
                    message: format!("this page cannot be read: {error}"),
                }),
            }
        }
        let summary = pages
            .iter()
            .position(|page| page.path == Path::new("SUMMARY.md"))
            .map(|index| pages.remove(index))
            .with_context(|| {
                format!(
                    "{} is missing or unreadable; list the pages in it",
                    src.join("SUMMARY.md").display()
                )
            })?;
        Ok(Sources {
            folder,
            summary,
            pages,
            others,
            unreadable,
        })
    }
}
