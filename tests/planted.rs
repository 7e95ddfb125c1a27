//! Faults that somebody could make, each planted in a copy of the repository: the proofs must name the file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use c2c::check;
use proofs::checks::hidden;
use proofs::checks::listing::{Listing, Verdict};
use tempfile::TempDir;
use walkdir::WalkDir;
use xtask::build::{self, Built};
use xtask::examples::{self, Example};

/// A copy of what the proofs read, to plant faults in.
struct Copy(TempDir);

impl Copy {
    fn new() -> Copy {
        let copy = Copy(TempDir::new().unwrap());
        let root = proofs::root();
        let field = "tests/litmus/src/field";
        for part in [
            "book.toml",
            "CITATION.cff",
            "src",
            "theme",
            "examples",
            "scripts",
            field,
        ] {
            for entry in WalkDir::new(root.join(part)) {
                let entry = entry.unwrap();
                let to = copy
                    .0
                    .path()
                    .join(entry.path().strip_prefix(&root).unwrap());
                if entry.file_type().is_dir() {
                    fs::create_dir_all(to).unwrap();
                } else {
                    fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        copy
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Changes a file; the change must change something.
    fn edit(&self, path: &str, change: impl Fn(&str) -> String) {
        let before = fs::read_to_string(self.path(path)).unwrap();
        let after = change(&before);
        assert_ne!(before, after, "the fault could not be planted in {path}");
        fs::write(self.path(path), after).unwrap();
    }

    fn example(&self, slug: &str) -> Example {
        let all = examples::all(self.0.path()).unwrap();
        all.into_iter().find(|it| it.slug == slug).unwrap()
    }

    fn listing<'a>(&'a self, example: &'a Example, program: &'a Path) -> Listing<'a> {
        Listing {
            root: self.0.path(),
            example,
            program,
        }
    }
}

/// What cargo built of the real repository.
static BUILT: LazyLock<Built> = LazyLock::new(|| build::examples(&proofs::root()).unwrap());

/// What a checker of a listing finds wrong.
fn complaint(verdict: anyhow::Result<Verdict>) -> String {
    match verdict {
        Ok(verdict) => panic!("the fault was not found: {verdict:?}"),
        Err(error) => format!("{error:#}"),
    }
}

/// Compiles a listing of the copy against the libraries that cargo built for the real one, and puts the program where
/// `scripts/with-driver` finds the model beside it.
fn compile(copy: &Copy, slug: &str) -> PathBuf {
    let dependencies = BUILT.libraries["lab"].parent().unwrap();
    let program = copy.path(slug);
    let mut rustc = Command::new("rustc");
    rustc
        .arg(copy.path(&format!("examples/{slug}/main.rs")))
        .args(["--edition=2021", "-Cdebuginfo=line-tables-only", "-o"])
        .arg(&program)
        .arg(format!("-Ldependency={}", dependencies.display()));
    for name in ["anyhow", "cudarc", "lab"] {
        rustc.arg(format!(
            "--extern={name}={}",
            BUILT.libraries[name].display()
        ));
    }
    let output = rustc.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::create_dir(copy.path("deps")).unwrap();
    let model = "libcumodel_driver.so";
    symlink(dependencies.join(model), copy.path("deps").join(model)).unwrap();
    program
}

#[test]
fn without_a_fault_nothing_is_wrong() {
    let copy = Copy::new();
    let example = copy.example("pinned_reuse");
    // Compiled like the faults below, so that it is the fault that makes the difference.
    let program = compile(&copy, "pinned_reuse");
    let listing = copy.listing(&example, &program);
    assert_eq!(listing.is_recorded().unwrap(), Verdict::Proved);
    assert_eq!(listing.is_right_in_every_order().unwrap(), Verdict::Proved);
    assert_eq!(check::check(copy.0.path()).unwrap(), []);
}

#[test]
fn a_removed_wait_is_found() {
    let copy = Copy::new();
    copy.edit("examples/pinned_reuse/main.rs", |source| {
        let lines = source.lines().filter(|it| !it.contains(".synchronize()"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let example = copy.example("pinned_reuse");
    let program = compile(&copy, "pinned_reuse");
    let listing = copy.listing(&example, &program);
    let expected = "examples/pinned_reuse/stdout.txt: line 1 is `step 1: read 1`, \
                    but the listing now gives `step 1: read 0xeeeeeeee instead of 1: WRONG`";
    for found in [listing.is_recorded(), listing.is_right_in_every_order()] {
        let complaint = complaint(found);
        assert!(complaint.starts_with(expected), "{complaint}");
    }
}

#[test]
fn a_broken_listing_does_not_pass_for_a_right_one() {
    let copy = Copy::new();
    let mut example = copy.example("pinned_reuse_broken");
    example.hazard = None;
    let listing = copy.listing(&example, &BUILT.programs["pinned_reuse_broken"]);
    let complaint = complaint(listing.is_right_in_every_order());
    let expected =
        "examples/pinned_reuse_broken/main.rs: it should have the hazards [], but has [\"H01\"]";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_broken_listing_with_another_hazard_is_found() {
    let copy = Copy::new();
    let mut example = copy.example("pinned_reuse_broken");
    example.hazard = Some("H02".to_owned());
    let listing = copy.listing(&example, &BUILT.programs["pinned_reuse_broken"]);
    let complaint = complaint(listing.is_wrong_every_time(1));
    let expected = "examples/pinned_reuse_broken/main.rs: it should have the hazards [\"H02\"], but has [\"H01\"]";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_right_listing_does_not_pass_for_a_broken_one() {
    let copy = Copy::new();
    let mut example = copy.example("pinned_reuse");
    example.hazard = Some("H01".to_owned());
    let listing = copy.listing(&example, &BUILT.programs["pinned_reuse"]);
    assert_eq!(
        complaint(listing.is_wrong_every_time(1)),
        "examples/pinned_reuse/stdout.txt: no line says WRONG, so the listing is not broken"
    );
}

#[test]
fn a_listing_that_goes_wrong_under_eager_is_found() {
    let copy = Copy::new();
    // It prints WRONG whatever the driver does.
    copy.edit("examples/wait_before_read_broken/main.rs", |source| {
        source.replace(
            "lab::announce()?;",
            "lab::announce()?;\n    println!(\"WRONG\");",
        )
    });
    let example = copy.example("wait_before_read_broken");
    let program = compile(&copy, "wait_before_read_broken");
    let complaint = complaint(copy.listing(&example, &program).looks_right_when_eager());
    let expected = "examples/wait_before_read_broken/main.rs: under eager it should look right";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_mistake_of_order_does_not_pass_for_a_refused_call() {
    let copy = Copy::new();
    let example = copy.example("wait_before_read_broken");
    let listing = copy.listing(&example, &BUILT.programs["wait_before_read_broken"]);
    let complaint = complaint(listing.is_refused_when_eager());
    let expected = "examples/wait_before_read_broken/stdout.txt: line 1 is";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn an_edited_recorded_file_is_found() {
    let copy = Copy::new();
    let example = copy.example("wait_before_read_broken");
    let listing = copy.listing(&example, &BUILT.programs["wait_before_read_broken"]);
    for (file, from, to) in [
        ("stdout.txt", "WRONG", "right"),
        ("timeline.mmd", "done", "gone"),
        ("report.txt", "Nothing orders", "Something orders"),
    ] {
        let path = format!("examples/wait_before_read_broken/{file}");
        copy.edit(&path, |text| text.replace(from, to));
        let complaint = complaint(listing.is_recorded());
        assert!(
            complaint.starts_with(&format!("{path}: line ")),
            "{complaint}"
        );
        assert!(
            complaint.ends_with("`cargo xtask bless wait_before_read_broken` records it again"),
            "{complaint}"
        );
        copy.edit(&path, |text| text.replace(to, from));
    }
    fs::remove_file(copy.path("examples/wait_before_read_broken/report.txt")).unwrap();
    let complaint = complaint(listing.is_recorded());
    let expected = "examples/wait_before_read_broken/report.txt: it is missing";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn a_misspelt_anchor_is_found() {
    let copy = Copy::new();
    copy.edit("src/note/cuda-to-cpu.md", |page| {
        page.replacen("pinned_reuse/main.rs:idea", "pinned_reuse/main.rs:idae", 1)
    });
    assert_eq!(files_with_problems(&copy), ["src/note/cuda-to-cpu.md"]);
}

#[test]
fn a_listing_that_no_reader_sees_is_found() {
    let page = "\
```rust
# fn main() {
#
# }
```

```rust
# fn main() {
work();
# }
```

```text
# not Rust
```
";
    assert_eq!(hidden::listings(page), [1]);
}

#[test]
fn a_page_with_an_untagged_fence_is_found() {
    let copy = Copy::new();
    let fence = "# Planted {#planted}\n\n```\nlet x = 1;\n```\n";
    fs::write(copy.path("src/planted.md"), fence).unwrap();
    copy.edit("src/SUMMARY.md", |summary| {
        summary.to_owned() + "\n- [Planted](planted.md)\n"
    });
    assert_eq!(files_with_problems(&copy), ["src/planted.md"]);
}

fn files_with_problems(copy: &Copy) -> Vec<String> {
    let problems = check::check(copy.0.path()).unwrap();
    problems
        .iter()
        .map(|problem| problem.file.display().to_string())
        .collect()
}
