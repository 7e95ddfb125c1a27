//! Only pages and images lie under src/, and no two pages share a name.

use super::sources::{Page, Sources};
use super::Problem;
use std::collections::BTreeMap;

const IMAGES: [&str; 6] = ["gif", "jpeg", "jpg", "png", "svg", "webp"];

/// Files mdBook would publish by accident, and pages whose proofs would get the same name.
pub(crate) fn check(sources: &Sources) -> Vec<Problem> {
    let foreign = sources.others.iter().filter(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        !extension.is_some_and(|extension| IMAGES.contains(&extension))
    });
    let mut problems: Vec<Problem> = foreign
        .map(|file| Problem {
            file: file.clone(),
            line: 1,
            message: format!(
                "{} holds only Markdown and images, and this file would be published; move it",
                sources.folder.display()
            ),
        })
        .collect();

    let mut first: BTreeMap<String, &Page> = BTreeMap::new();
    for page in &sources.pages {
        match first.get(&test_name(page)) {
            Some(other) => problems.push(page.problem(
                1,
                format!(
                    "{} has the same name, and proofs are named by it; rename one of them",
                    other.file.display()
                ),
            )),
            None => {
                first.insert(test_name(page), page);
            }
        }
    }
    problems
}

/// skeptic names tests by the stem of the file and keeps only letters and digits apart.
fn test_name(page: &Page) -> String {
    let stem = page.path.file_stem().unwrap_or_default().to_string_lossy();
    stem.to_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
