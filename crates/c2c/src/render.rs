//! Renders the book with mdBook, in-process.

use crate::book::{is_editor_file, Book};
use anyhow::{Context, Result};
use mdbook_driver::MDBook;
use mdbook_mermaid::Mermaid;
use mdbook_summary::{parse_summary, Summary, SummaryItem};
use std::fs;
use std::path::Path;
use walkdir::WalkDir;

/// Writes the site of `book` into the folder `site`, which mdBook empties first.
pub(crate) fn render(book: &Book, site: &Path) -> Result<()> {
    let src = book.src();
    let summary_file = src.join("SUMMARY.md");
    let text = fs::read_to_string(&summary_file)
        .with_context(|| format!("could not read {}", summary_file.display()))?;
    let mut summary = parse_summary(&text)
        .with_context(|| format!("could not parse {}", summary_file.display()))?;
    drop_missing_chapters(&mut summary, &src);

    let mut config = book.config().clone();
    config.build.build_dir = site.to_path_buf();
    config.build.create_missing = false;
    // Only where book.toml asks for it: a book without diagrams must render as plain mdBook would.
    let mermaid = config.contains_key("preprocessor.mermaid");
    let mut mdbook = MDBook::load_with_config_and_summary(book.root(), config, summary)
        .with_context(|| format!("could not load the book in {}", book.root().display()))?;
    if mermaid {
        // Takes the place of the external command of the same name.
        mdbook.with_preprocessor(Mermaid);
    }
    mdbook
        .build()
        .with_context(|| format!("could not render the book in {}", book.root().display()))?;
    remove_editor_files(site)
}

/// Turns chapters without a file into drafts, so that one missing file does not hide what is
/// wrong with the other pages.
fn drop_missing_chapters(summary: &mut Summary, src: &Path) {
    for items in [
        &mut summary.prefix_chapters,
        &mut summary.numbered_chapters,
        &mut summary.suffix_chapters,
    ] {
        drop_missing_items(items, src);
    }
}

fn drop_missing_items(items: &mut [SummaryItem], src: &Path) {
    for item in items {
        if let SummaryItem::Link(link) = item {
            link.location = link.location.take().filter(|path| src.join(path).is_file());
            drop_missing_items(&mut link.nested_items, src);
        }
    }
}

/// mdBook copies every file of src/ that is not Markdown, an editor's swap files included.
fn remove_editor_files(site: &Path) -> Result<()> {
    for entry in WalkDir::new(site) {
        let entry = entry.with_context(|| format!("could not list {}", site.display()))?;
        let path = entry.path();
        if entry.file_type().is_file() && is_editor_file(path) && !path.ends_with(".nojekyll") {
            fs::remove_file(path)
                .with_context(|| format!("could not remove {}", path.display()))?;
        }
    }
    Ok(())
}
