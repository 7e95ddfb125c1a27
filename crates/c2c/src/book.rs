//! Finds the book and reads its configuration.

use anyhow::{bail, Context, Result};
use mdbook_driver::config::Config;
use std::path::{Path, PathBuf};

/// A folder that holds a `book.toml`, with its configuration.
#[derive(Debug, Clone)]
pub struct Book {
    root: PathBuf,
    config: Config,
}

impl Book {
    /// Opens the book in the folder `root`.
    ///
    /// # Errors
    /// When `root` holds no `book.toml` or mdBook cannot read it.
    pub fn open(root: &Path) -> Result<Book> {
        let file = root.join("book.toml");
        if !file.is_file() {
            bail!(
                "{} holds no book.toml; name the book's folder with --book",
                root.display()
            );
        }
        let root = root
            .canonicalize()
            .with_context(|| format!("could not resolve the folder {}", root.display()))?;
        let config = Config::from_disk(&file)
            .with_context(|| format!("could not read {}; correct it", file.display()))?;
        Ok(Book { root, config })
    }

    /// Opens the book in `start` or in the nearest folder above it.
    ///
    /// # Errors
    /// When neither `start` nor a folder above it holds a `book.toml`.
    pub fn find(start: &Path) -> Result<Book> {
        match start
            .ancestors()
            .find(|folder| folder.join("book.toml").is_file())
        {
            Some(root) => Book::open(root),
            None => bail!(
                "found no book.toml in {} or above; change to the repository or use --book",
                start.display()
            ),
        }
    }

    /// The folder that holds `book.toml`, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder with the pages, absolute.
    pub fn src(&self) -> PathBuf {
        self.root.join(&self.config.book.src)
    }

    /// Where the site goes unless another folder is named: `build-dir` of `book.toml`.
    pub fn default_out(&self) -> PathBuf {
        self.root.join(&self.config.build.build_dir)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// `path` as reports show it: relative to the book's root where it lies below it.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// Whether an editor left this file: hidden, a backup (`x~`) or a lock (`#x#`).
///
/// Such files come and go while somebody writes, so they are neither checked nor published.
pub(crate) fn is_editor_file(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(['.', '#']) || name.ends_with('~'))
}
