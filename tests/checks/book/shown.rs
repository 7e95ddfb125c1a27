//! Every listing has its page.

use std::path::Path;

use anyhow::Result;
use xtask::examples;

use super::pages;

/// Every listing is shown, as a program, by exactly one page.
///
/// # Errors
/// When a file cannot be read.
pub fn once(root: &Path) -> Result<Vec<String>> {
    let pages = pages(root)?;
    let mut found = Vec::new();
    for example in examples::all(root)? {
        let main = format!("examples/{}/main.rs", example.slug);
        let shows = format!("/{main}:idea}}}}");
        let on: Vec<String> = pages
            .iter()
            .filter(|page| page.text.contains(&shows))
            .map(|page| page.file())
            .collect();
        match on.len() {
            1 => {}
            0 => found.push(format!("{main}: no page shows its region `idea`")),
            _ => found.push(format!(
                "{main}: shown by more than one page: {}",
                on.join(", ")
            )),
        }
    }
    Ok(found)
}
