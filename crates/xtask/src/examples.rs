//! Which listings there are, and what each declares in its first lines.

use std::fs;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};

/// A listing: the program `examples/<slug>/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The name of its folder, and of the cargo example.
    pub slug: String,
    /// What it shows, in one sentence.
    pub claim: String,
    /// The id of the hazard that it provokes, such as `H01`; a right listing has none.
    pub hazard: Option<String>,
    /// Whether it prints what the machine is, so that its output on a GPU cannot be known beforehand.
    pub of_the_machine: bool,
}

/// All listings below `root`, by slug.
///
/// # Errors
/// When a file cannot be read, or a listing does not start with its claim and its hazard.
pub fn all(root: &Path) -> Result<Vec<Example>> {
    let folder = root.join("examples");
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("looking for listings in {}", folder.display()))?;
    let mut examples = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(slug) = name.to_str() else {
            bail!("examples/{} is not named in UTF-8", name.display());
        };
        let main = folder.join(slug).join("main.rs");
        if main.exists() {
            let source =
                fs::read_to_string(&main).with_context(|| format!("reading {}", main.display()))?;
            examples
                .push(parse(slug, &source).with_context(|| format!("in examples/{slug}/main.rs"))?);
        }
    }
    examples.sort_by(|a, b| a.slug.cmp(&b.slug));
    Ok(examples)
}

/// Reads the `//!` lines that a listing starts with: the claim, then what it declares.
///
/// # Errors
/// When the claim or the hazard is missing, or a line declares something unknown.
pub fn parse(slug: &str, source: &str) -> Result<Example> {
    let mut claim = Vec::new();
    let mut hazard = None;
    let mut of_the_machine = false;
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        let line = line.trim();
        match line.split_once(": ") {
            Some(("hazard", id)) => hazard = Some(id),
            Some(("stdout", "of the machine")) => of_the_machine = true,
            _ if hazard.is_none() => claim.push(line),
            _ => bail!("`//! {line}` stands behind the hazard, where only `//! stdout: of the machine` can"),
        }
    }
    ensure!(
        !claim.is_empty(),
        "the first line must be `//!` and the claim in one sentence"
    );
    let hazard = match hazard {
        Some("none") => None,
        Some(id) if is_hazard_id(id) => Some(id.to_owned()),
        Some(id) => bail!("`//! hazard: {id}` must be `none` or an id such as H01"),
        None => bail!("the line `//! hazard: none`, or with the id of the hazard, is missing"),
    };
    Ok(Example {
        slug: slug.to_owned(),
        claim: claim.join(" "),
        hazard,
        of_the_machine,
    })
}

fn is_hazard_id(id: &str) -> bool {
    id.len() == 3 && id.starts_with('H') && id[1..].bytes().all(|byte| byte.is_ascii_digit())
}
