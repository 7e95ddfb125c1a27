//! Habits that no other tool keeps; and for each, that its checker can say no.

use std::fs;
use std::path::Path;
use std::process::Command;

use proofs::checks::tidy;
use tempfile::TempDir;

/// A repository of these files, each a path and its text.
fn planted(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn listing(header: &str, shown_lines: usize) -> String {
    format!(
        "{header}\nfn main() {{\n    // ANCHOR: idea\n{}    // ANCHOR_END: idea\n}}\n",
        "    work();\n".repeat(shown_lines)
    )
}

const RIGHT: &str = "//! A claim.\n//! hazard: none\n";
const BROKEN: &str = "//! A claim.\n//! hazard: H01\n";

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn nothing_is_left_for_later() {
    assert_eq!(tidy::unfinished(&proofs::root()).unwrap(), none());
}

#[test]
fn what_is_left_for_later_is_found() {
    let later = format!("fn main() {{\n    {}!()\n}}\n", "todo");
    let root = planted(&[
        ("crates/a/src/lib.rs", &later),
        ("tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n"),
    ]);
    assert_eq!(
        tidy::unfinished(root.path()).unwrap(),
        [
            format!("crates/a/src/lib.rs:2: {}!(…) was left in", "todo"),
            "tests/a.rs:2: `#[ignore = \"…\"]` must say why".to_owned(),
        ]
    );
}

#[test]
fn listings_have_the_form_of_listings() {
    assert_eq!(tidy::form(&proofs::root()).unwrap(), none());
}

#[test]
fn a_listing_of_another_form_is_found() {
    let unwraps = listing(RIGHT, 8).replacen("work()", "work().unwrap()", 1);
    let root = planted(&[
        ("examples/a/main.rs", &unwraps),
        ("examples/a/stdout.txt", ""),
        ("examples/b/main.rs", &listing(RIGHT, 46)),
        ("examples/c/main.rs", RIGHT),
        ("examples/c/stdout.txt", ""),
        ("examples/d/main.rs", &listing(BROKEN, 8)),
        ("examples/d/stdout.txt", ""),
        ("examples/d/timeline.mmd", ""),
    ]);
    assert_eq!(
        tidy::form(root.path()).unwrap(),
        [
            "examples/a/main.rs: errors go to `main` with `?`, not into `unwrap`",
            "examples/b/main.rs: a page shows 46 lines of it; it should be 8 to 45",
            "examples/b/stdout.txt: `cargo xtask bless` has not recorded it",
            "examples/c/main.rs: `// ANCHOR: idea` and `// ANCHOR_END: idea` must enclose what a page shows",
            "examples/d/main.rs: a listing with a hazard, and no other, is named `…_broken`",
            "examples/d/report.txt: `cargo xtask bless` has not recorded it",
        ]
    );
}

#[test]
fn a_listing_without_its_first_lines_is_an_error_that_names_it() {
    for (header, missing) in [
        (
            "//! A claim.",
            "the line `//! hazard: none`, or with the id of the hazard, is missing",
        ),
        (
            "//! hazard: none",
            "the first line must be `//!` and the claim in one sentence",
        ),
        (
            "//! A claim.\n//! hazard: race",
            "`//! hazard: race` must be `none` or an id such as H01",
        ),
    ] {
        let root = planted(&[("examples/a/main.rs", &listing(header, 8))]);
        let error = tidy::form(root.path()).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            format!("in examples/a/main.rs: {missing}")
        );
    }
}

#[test]
fn the_citation_can_be_read() {
    assert_eq!(tidy::citation(&proofs::root()).unwrap(), none());
}

#[test]
fn a_citation_that_cannot_be_read_is_found() {
    let root = planted(&[(
        "CITATION.cff",
        "cff-version: 1.2.0\ntitle: a\nauthors: [b]\n",
    )]);
    assert_eq!(
        tidy::citation(root.path()).unwrap(),
        ["CITATION.cff: the key message is missing"]
    );
    let root = planted(&[("CITATION.cff", "title: \"a\nauthors: b")]);
    let found = tidy::citation(root.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("CITATION.cff: it is not YAML"),
        "{found:?}"
    );
}

#[test]
fn the_model_exports_what_cudarc_looks_up() {
    let bindings = bindings();
    // All of CUDA 12.8, or the checker has read nothing.
    assert!(tidy::bound(&bindings).len() > 400);
    assert_eq!(
        tidy::not_exported(&proofs::root(), &bindings).unwrap(),
        none()
    );
}

#[test]
fn a_function_that_the_model_lacks_is_found() {
    let bindings = "\
pub unsafe fn cuInit(Flags: u32) -> CUresult {
#[cfg(any(feature = \"cuda-12080\", feature = \"cuda-12090\"))]
pub unsafe fn cuNew(count: usize) -> CUresult {
#[cfg(any(feature = \"cuda-13000\"))]
pub unsafe fn cuNewer(count: usize) -> CUresult {
";
    let root = planted(&[("crates/cumodel-driver/symbols.txt", "cuInit\n")]);
    assert_eq!(
        tidy::not_exported(root.path(), bindings).unwrap(),
        ["crates/cumodel-driver/symbols.txt: cudarc looks up cuNew, which is not listed"]
    );
}

/// The source in which cudarc declares the driver's functions.
fn bindings() -> String {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(proofs::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let cudarc = packages.iter().find(|it| it["name"] == "cudarc").unwrap();
    let manifest = Path::new(cudarc["manifest_path"].as_str().unwrap());
    fs::read_to_string(manifest.with_file_name("src/driver/sys/mod.rs")).unwrap()
}

#[test]
fn the_readme_shows_the_listing_as_it_is() {
    assert_eq!(tidy::readme(&proofs::root()).unwrap(), none());
}

#[test]
fn a_readme_that_shows_something_else_is_found() {
    let root = planted(&[
        ("README.md", "let a = 1;\nread 7\n"),
        (
            "examples/pinned_reuse/main.rs",
            "    // ANCHOR: idea\n    let a = 2;\n    // ANCHOR_END: idea\n",
        ),
        ("examples/pinned_reuse/stdout.txt", "read 7\n"),
    ]);
    assert_eq!(
        tidy::readme(root.path()).unwrap(),
        ["README.md: the listing is not that of examples/pinned_reuse any more"]
    );
}
