//! The figures of the book, drawn from one file of numbers with their sources.
//!
//! A page includes the SVG itself, so that it takes its colours from the theme that the reader has chosen.

mod data;
mod draw;

use std::path::Path;

use anyhow::{Context, Result};

use crate::files::File;
use data::Numbers;

/// The file that every number of every figure comes from.
pub const NUMBERS: &str = "figures/links.json";

/// The figures, and the table of their numbers, as the numbers below `root` make them.
///
/// # Errors
/// When the file of numbers cannot be read, or a number names a source that it does not have.
pub fn all(root: &Path) -> Result<Vec<File>> {
    let numbers = Numbers::read(&root.join(NUMBERS)).with_context(|| format!("in {NUMBERS}"))?;
    let drawn = |name: &str, content: String| File {
        path: name.to_owned(),
        content: Some(content),
    };
    Ok(vec![
        drawn(
            "src/figures/links.svg",
            draw::bars(
                "links",
                "Measured copies between pinned CPU memory and one GPU",
                &numbers.links,
            ),
        ),
        drawn(
            "src/figures/placement.svg",
            draw::bars(
                "placement",
                "The same copy, to the near and to the far CPU memory",
                &numbers.placement,
            ),
        ),
        drawn("src/figures/page-bound.svg", draw::page_bound(&numbers)),
        drawn("figures/links.md", numbers.table(&numbers.links)),
        drawn("figures/placement.md", numbers.table(&numbers.placement)),
    ])
}
