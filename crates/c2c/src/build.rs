//! Builds the site and puts it in place whole.

use crate::book::Book;
use crate::check::{render_and_check, Problem};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::Path;
use tempfile::Builder;

/// Builds the site of `book` into the folder `out`, replacing what is there.
///
/// The site is made in a folder beside `out` and moved into place by rename. When problems are
/// returned nothing has been moved: the last good site is still there.
///
/// # Errors
/// When the book cannot be rendered although its sources look right, or a file cannot be written.
pub fn build(book: &Book, out: &Path) -> Result<Vec<Problem>> {
    let out = std::path::absolute(out)
        .with_context(|| format!("could not resolve the folder {}", out.display()))?;
    let parent = out.parent().with_context(|| {
        format!(
            "{} cannot be replaced; name a folder below it",
            out.display()
        )
    })?;
    refuse_foreign_folder(&out)?;
    fs::create_dir_all(parent)
        .with_context(|| format!("could not create the folder {}", parent.display()))?;
    // Beside the target, since a rename works only within one file system.
    let work = Builder::new()
        .prefix(".c2c-build-")
        .tempdir_in(parent)
        .with_context(|| format!("could not create a folder in {}", parent.display()))?;

    let site = work.path().join("site");
    let problems = render_and_check(book, &site)?;
    if problems.is_empty() {
        swap_in(&site, &out, &work.path().join("old"))?;
    }
    Ok(problems)
}

/// Replacing a folder deletes what was in it, so it must be a site: mdBook marks each one with
/// `.nojekyll`.
fn refuse_foreign_folder(out: &Path) -> Result<()> {
    if !out.exists() || out.join(".nojekyll").is_file() {
        return Ok(());
    }
    let mut entries =
        fs::read_dir(out).with_context(|| format!("could not list {}", out.display()))?;
    if entries.next().is_some() {
        bail!(
            "{} holds files that are not a site; name an empty or a new folder with --out",
            out.display()
        );
    }
    Ok(())
}

/// Moves `site` to `out`; what was at `out` goes to `old`, and back if the second step fails.
fn swap_in(site: &Path, out: &Path, old: &Path) -> Result<()> {
    let replaced = out.exists();
    if replaced {
        fs::rename(out, old).with_context(|| format!("could not move {} away", out.display()))?;
    }
    if let Err(error) = fs::rename(site, out) {
        if replaced {
            fs::rename(old, out)
                .with_context(|| format!("could not move {} back", out.display()))?;
        }
        return Err(error).with_context(|| format!("could not move the site to {}", out.display()));
    }
    Ok(())
}
