//! `cargo xtask bless`: records what listings print and do.

use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use xtask::examples::{self, Example};
use xtask::kernels::{self, Compiled};
use xtask::record::{record, Env, Recorded};
use xtask::{build, files};

/// Records the listings `slugs`, or all of them if it is empty, and says which files changed.
pub fn bless(root: &Path, slugs: &[String]) -> Result<()> {
    let all = examples::all(root)?;
    if let Some(unknown) = slugs
        .iter()
        .find(|slug| !all.iter().any(|it| it.slug == **slug))
    {
        let known: Vec<&str> = all.iter().map(|it| it.slug.as_str()).collect();
        bail!(
            "there is no listing examples/{unknown}; there are: {}",
            known.join(", ")
        );
    }
    let mut changed = bless_kernels(root)?;
    let built = build::examples(root)?;
    let env = Env::recording(root);
    let chosen = all
        .iter()
        .filter(|it| slugs.is_empty() || slugs.contains(&it.slug));
    for example in chosen {
        let slug = &example.slug;
        let program = built
            .programs
            .get(slug)
            .with_context(|| format!("cargo built no example named {slug}"))?;
        let recorded = record(example, program, &env)?;
        if let Some(reason) = recorded.waived() {
            println!("waived    examples/{slug}: {reason}; its recorded files stay");
            continue;
        }
        expect_declared_hazard(example, &recorded)?;
        for file in files::of(example, &recorded)? {
            if file.bless(root)? {
                let verb = if file.content.is_some() {
                    "recorded"
                } else {
                    "removed"
                };
                println!("{verb:9} {}", file.path);
                changed += 1;
            }
        }
    }
    if changed == 0 {
        println!("nothing changed");
    }
    Ok(())
}

/// Compiles the kernels that listings launch, where nvrtc is; returns how many have changed.
fn bless_kernels(root: &Path) -> Result<usize> {
    let files = match kernels::compile(root)? {
        Compiled::Files(files) => files,
        Compiled::Waived(why) => {
            println!("waived    crates/lab/kernels: {why}; the PTX stays");
            return Ok(0);
        }
    };
    let mut changed = 0;
    for file in files {
        if file.bless(root)? {
            println!("compiled  {}", file.path);
            changed += 1;
        }
    }
    Ok(changed)
}

/// What a listing does not declare must not get onto a page.
fn expect_declared_hazard(example: &Example, recorded: &Recorded) -> Result<()> {
    let declared: Vec<&str> = example.hazard.as_deref().into_iter().collect();
    ensure!(
        recorded.hazards() == declared,
        "examples/{}/main.rs declares the hazards {declared:?}, but the model found {:?}; nothing was recorded:\n{}",
        example.slug,
        recorded.hazards(),
        recorded.stderr
    );
    Ok(())
}
