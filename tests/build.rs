//! Hands the chapters of the book, with every include expanded, to skeptic, which makes a test of each listing on them.

#[path = "checks/hidden.rs"]
mod hidden;

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{ensure, Context, Result};
use mdbook_driver::book::{BookItem, Chapter};
use mdbook_driver::builtin_preprocessors::LinkPreprocessor;
use mdbook_driver::MDBook;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

fn main() -> ExitCode {
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for source in ["book.toml", "src", "examples"] {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
    }
    ensure!(
        root.join("src/SUMMARY.md").is_file(),
        "there is no book to prove: src/SUMMARY.md is missing"
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);

    let mut pages = Vec::new();
    let mut hidden = Vec::new();
    for chapter in expanded_chapters(&root)? {
        let Some(path) = &chapter.path else { continue };
        // skeptic names its tests after the file, so two chapters called `index.md` must differ.
        let name = path.to_string_lossy().replace('/', "__");
        let page = out.join(name);
        write(&page, &chapter.content).with_context(|| format!("writing {}", page.display()))?;
        pages.push(page);
        hidden.extend(
            hidden::listings(&chapter.content)
                .into_iter()
                .map(|number| {
                    format!(
                        "src/{}: Rust listing {number} shows no line",
                        path.display()
                    )
                }),
        );
    }
    skeptic::generate_doc_tests(&pages);
    watch_every_listing(&out)?;
    fs::write(out.join("hidden.rs"), format!("&{hidden:?}")).context("writing hidden.rs")
}

/// Writes a page as if it had always been there: skeptic tells cargo to watch it, and cargo runs this script again if
/// what it watches is younger than the last run.
fn write(page: &Path, content: &str) -> Result<()> {
    let mut file = File::create(page)?;
    file.write_all(content.as_bytes())?;
    file.set_modified(SystemTime::UNIX_EPOCH)?;
    Ok(())
}

/// The chapters after mdBook's own preprocessor for `{{#include}}` and its like. The other preprocessors of the book
/// change how a page looks, not what its listings are.
fn expanded_chapters(root: &Path) -> Result<Vec<Chapter>> {
    let book = MDBook::load(root).context("reading the book")?;
    let context = PreprocessorContext::new(book.root.clone(), book.config.clone(), "html".into());
    let book = LinkPreprocessor::new()
        .run(&context, book.book.clone())
        .context("expanding the includes of the book")?;
    let chapters = book.iter().filter_map(|item| match item {
        BookItem::Chapter(chapter) => Some(chapter.clone()),
        _ => None,
    });
    Ok(chapters.collect())
}

/// Puts `proofs::checks::page::run` between each generated test and skeptic: it sets the time limit, and tells a listing that
/// was waived from one that passed.
fn watch_every_listing(out: &Path) -> Result<()> {
    const CALL: &str = "skeptic::rt::run_test(";
    let generated = out.join("skeptic-tests.rs");
    let tests = fs::read_to_string(&generated).context("reading what skeptic generated")?;
    let count = tests.matches("#[test]").count();
    ensure!(
        count == tests.matches(CALL).count(),
        "a listing on a page is tagged `no_run`, or skeptic generates other tests than it did: see {}",
        generated.display()
    );
    ensure!(
        !tests.contains("\n#[ignore]") && !tests.contains("\n#[should_panic]"),
        "a listing on a page is tagged `ignore` or `should_panic`; every listing must run and succeed"
    );
    let mut watched = tests.replace(CALL, "proofs::checks::page::run(");
    writeln!(watched, "const LISTINGS: usize = {count};")?;
    fs::write(out.join("listings.rs"), watched).context("writing listings.rs")
}
