//! Every ordering rule is kept by a named part of the model, and shown by a test: the table of the book.
//!
//! `RULES_TABLE=src/reference/rules.md cargo test -p proofs --test rules` writes the page.

mod find;
mod table;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;

use anyhow::{ensure, Context, Result};
use find::Citations;
use xtask::files::File;

/// Where the page is, from the root of the repository.
const PAGE: &str = "src/reference/rules.md";

const HEAD: &str = "\
<!-- Generated: RULES_TABLE=src/reference/rules.md cargo test -p proofs --test rules -->
# The model keeps each ordering rule in a place that has a name {#rules}

> **Rule.** Look a rule up by its number, in the source or in a report: it names what keeps it and what shows it.

The sentences are ours; *Manual* names the text that each follows, in the CUDA 13.5 documentation, read on 2026-11-30.
*Kept by* lists the functions and types of `crates/cumodel` and `crates/cumodel-driver` whose documentation cites the rule.
*Shown by* lists [litmus tests](litmus.md) and the tests of these crates that cite it.
No GPU has run them yet, so what hardware does is <span class=\"badge waived\">○ waived</span>.
";

/// The page, or what is missing.
fn render(groups: &[table::Group], kept: &Citations, shown: &Citations) -> Result<String> {
    let mut page = String::from(HEAD);
    let mut missing = Vec::new();
    for (heading, rules) in groups {
        let _ = write!(page, "\n## {heading}\n\n| Rule | What holds | Manual | Kept by | Shown by |\n|---|---|---|---|---|\n");
        for (rule, holds, manual) in *rules {
            let mut list = |from: &Citations, of: &str| {
                let places = from.get(*rule).map(Vec::as_slice).unwrap_or_default();
                if places.is_empty() {
                    missing.push(format!("{rule} has no {of}"));
                }
                places.join(", ")
            };
            let kept = list(kept, "function or type of the model that cites it");
            let shown = list(shown, "test that cites it");
            let _ = writeln!(page, "| {rule} | {holds} | {manual} | {kept} | {shown} |");
        }
    }
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    Ok(page)
}

fn citations() -> Result<(Citations, Citations)> {
    let root = proofs::root();
    let mut kept = BTreeMap::new();
    for (package, folder) in [
        ("cumodel", "crates/cumodel/src"),
        ("cumodel_driver", "crates/cumodel-driver/src"),
    ] {
        find::in_documentation(package, &root.join(folder), &mut kept)?;
    }
    let litmus = fs::read_to_string(root.join("src/reference/litmus.md"))
        .context("reading the litmus tests")?;
    let mut shown = find::in_litmus_table(&litmus);
    for folder in ["crates/cumodel/tests", "crates/cumodel-driver/tests"] {
        find::in_tests(&root.join(folder), &mut shown)?;
    }
    Ok((kept, shown))
}

#[test]
fn every_rule_is_kept_and_shown_and_the_page_says_where() -> Result<()> {
    let (kept, shown) = citations()?;
    let page = render(&table::GROUPS, &kept, &shown)?;
    let path = env::var("RULES_TABLE");
    let file = File {
        path: path.clone().unwrap_or(PAGE.to_owned()),
        content: Some(page),
    };
    if path.is_ok() {
        file.bless(&proofs::root())?;
    }
    ensure!(
        file.now(&proofs::root())? == file.content,
        "{PAGE} is stale; `RULES_TABLE={PAGE} cargo test -p proofs --test rules` writes it again"
    );
    Ok(())
}

#[test]
fn a_rule_that_nothing_keeps_or_nothing_shows_is_noticed() -> Result<()> {
    let planted: [table::Group; 1] = [("Planted", &[("R99", "Nothing.", "no manual")])];
    let cited = |rule: &str| Citations::from([(rule.to_owned(), vec!["somewhere".to_owned()])]);
    let error = |kept: &Citations, shown: &Citations| {
        render(&planted, kept, shown)
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(
        error(&cited("R98"), &cited("R99")).as_deref(),
        Some("R99 has no function or type of the model that cites it")
    );
    assert_eq!(
        error(&cited("R99"), &cited("R98")).as_deref(),
        Some("R99 has no test that cites it")
    );
    assert_eq!(error(&cited("R99"), &cited("R99")), None);
    Ok(())
}

#[test]
fn a_rule_that_the_model_cites_is_in_the_table() -> Result<()> {
    let known: Vec<&str> = table::GROUPS
        .iter()
        .flat_map(|(_, rules)| rules.iter().map(|(rule, ..)| *rule))
        .collect();
    let (kept, shown) = citations()?;
    for rule in kept.keys().chain(shown.keys()) {
        ensure!(
            known.contains(&rule.as_str()),
            "{rule} is cited, but it is not in the table"
        );
    }
    Ok(())
}
