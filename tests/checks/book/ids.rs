//! A published address stays.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use xtask::files::File;

use super::pages;

/// The lock file: one address a line, sorted.
pub const LOCK: &str = "tests/addresses.lock";

/// The environment variable that adds new addresses to the lock file. It removes none: whoever breaks an address does
/// it by hand, with a redirect in book.toml.
pub const ADD: &str = "ADD_ADDRESSES";

/// Addresses that were published and are gone, and addresses that are not locked yet.
///
/// # Errors
/// When a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let (now, locked) = (addresses(root)?, locked(root)?);
    let gone = locked.difference(&now).map(|address| {
        format!("{LOCK}: {address} was published, and no heading has this id any more")
    });
    let new = now.difference(&locked).map(|address| {
        format!(
            "{LOCK}: {address} is new; `{ADD}=1 cargo test -p proofs --test pages addresses` adds it"
        )
    });
    Ok(gone.chain(new).collect())
}

/// Adds the addresses that are not locked yet.
///
/// # Errors
/// When a file cannot be read or written.
pub fn add(root: &Path) -> Result<()> {
    let mut lines = String::new();
    for address in locked(root)?.union(&addresses(root)?) {
        lines += address;
        lines += "\n";
    }
    let lock = File {
        path: LOCK.to_owned(),
        content: Some(lines),
    };
    lock.bless(root).map(|_| ())
}

/// The explicit ids of all headings, as addresses on the site.
fn addresses(root: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for page in pages(root)? {
        let html = page.path.replace(".md", ".html");
        for (event, _) in page.events() {
            if let Event::Start(Tag::Heading { id: Some(id), .. }) = event {
                found.insert(format!("{html}#{id}"));
            }
        }
    }
    Ok(found)
}

fn locked(root: &Path) -> Result<BTreeSet<String>> {
    let lock = root.join(LOCK);
    let text = fs::read_to_string(&lock).with_context(|| format!("reading {}", lock.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}
