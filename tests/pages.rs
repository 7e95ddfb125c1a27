//! What the pages say and how; and for each check, that it can say no.

use std::env;
use std::fs;
use std::path::Path;

use proofs::checks::book::{clinic, ids, numbers, shown, sources, spelling, template};
use tempfile::TempDir;

/// A page of a listing part, with nothing wrong.
const PAGE: &str = r#"# Wait before you read {#wait}

> **Rule.** Wait for the copy before the host reads, as in cudarc 0.19.10.
>
> **Holds for:** cudarc 0.19.10 · <!-- date-check --> Nov 2026
> **Cell:** host buffer, read after write
> <span class="badge runs-everywhere">✔ model</span>

## Problem

A [stream](../reference/glossary.md#stream) runs late, at 297 GB/s[^link] here.

## Rule

It waits.

## Listing

```rust
{{#rustdoc_include ../../examples/wait/main.rs:idea}}
```

## Output

```text
{{#include ../../examples/wait/stdout.txt}}
```

## Proof

L01 shows it.

## In PyTorch

| PyTorch | cudarc |
|---|---|
| `copy_` | `memcpy_dtoh` |

## Sources

[^link]: [Somebody](https://example.com/a), 2026-11-30: 297 GB/s.
"#;

const CLINIC: &str = "\
# Slow copies {#slow}

## It blocks {#blocks}

**Fix.** Pin it.

**What was wrong.** It was pageable.

**Do you have it?** Time the call.

**Not shown here:** it is time.

**Reported** in [an issue](https://example.com/b), 2026-11-30.
Case F03.
";

const LISTING: &str = "\
//! A claim.
//! hazard: none
fn main() {
    // ANCHOR: idea
    // ANCHOR_END: idea
}
";

/// The front page: ten times the same question.
fn introduction() -> String {
    let question = "| Why does it block? | [pageable](clinic/slow.md#blocks) |\n";
    format!(
        "# Introduction {{#introduction}}\n\n## Ask {{#ten-questions}}\n\n{}",
        question.repeat(10)
    )
}

/// A small repository with nothing wrong.
fn repository() -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, text) in [
        ("src/SUMMARY.md", "# Summary\n"),
        ("src/introduction.md", &introduction()),
        ("src/clinic/slow.md", CLINIC),
        (
            "src/reference/sources.md",
            "# Sources {#sources}\n\n- [Somebody](https://example.com/a), 2026-11-30.\n",
        ),
        ("src/synchronize/wait.md", PAGE),
        (
            "src/reference/litmus.md",
            "# Litmus {#litmus}\n\nA gate of 50 ms.\n\n| Test |\n|---|\n| L01 |\n",
        ),
        (
            "src/reference/the-model.md",
            "# Model {#model}\n\n| Id |\n|---|\n| H01 |\n",
        ),
        ("examples/wait/main.rs", LISTING),
        ("tests/a.rs", "#[test]\nfn it_waits() {}\n"),
        ("tests/checks/listing.rs", "pub fn is_recorded(&self)\n"),
        (
            ids::LOCK,
            "clinic/slow.html#blocks\nclinic/slow.html#slow\nintroduction.html#introduction\n\
             introduction.html#ten-questions\nreference/litmus.html#litmus\n\
             reference/sources.html#sources\nreference/the-model.html#model\n\
             synchronize/wait.html#wait\n",
        ),
    ] {
        write(root.path(), path, text);
    }
    root
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

type Check = fn(&Path) -> anyhow::Result<Vec<String>>;

/// What a check finds after `old`, which must be there, has become `new` on the page.
fn after(check: Check, old: &str, new: &str) -> Vec<String> {
    let root = repository();
    assert!(PAGE.contains(old), "{old}");
    let page = PAGE.replacen(old, new, 1);
    write(root.path(), "src/synchronize/wait.md", &page);
    check(root.path()).unwrap()
}

/// Fails with one line for each complaint.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

// ---- The book ----

#[test]
fn every_page_has_the_form_of_its_kind() {
    assert_none(&template::check(&proofs::root()).unwrap());
}

#[test]
fn every_listing_is_shown_by_one_page() {
    assert_none(&shown::once(&proofs::root()).unwrap());
}

#[test]
fn every_number_has_a_source() {
    assert_none(&numbers::unsourced(&proofs::root()).unwrap());
}

#[test]
fn no_word_is_misspelt() {
    assert_none(&spelling::check(&proofs::root()).unwrap());
}

#[test]
fn published_addresses_stay() {
    if env::var_os(ids::ADD).is_some() {
        ids::add(&proofs::root()).unwrap();
    }
    assert_none(&ids::check(&proofs::root()).unwrap());
}

#[test]
fn every_entry_of_the_clinic_has_its_form() {
    assert_none(&clinic::form(&proofs::root()).unwrap());
}

#[test]
fn the_questions_of_the_front_page_lead_to_answers() {
    assert_none(&clinic::questions(&proofs::root()).unwrap());
}

#[test]
fn every_source_is_listed() {
    assert_none(&sources::unlisted(&proofs::root()).unwrap());
}

// ---- Planted faults ----

#[test]
fn without_a_fault_nothing_is_wrong() {
    let root = repository();
    for check in [
        template::check,
        shown::once,
        numbers::unsourced,
        spelling::check,
        ids::check,
        clinic::form,
        clinic::questions,
        sources::unlisted,
    ] {
        assert_none(&check(root.path()).unwrap());
    }
}

#[test]
fn a_page_of_another_form_is_found() {
    for (old, new, complaint) in [
        (" {#wait}", "", "the title has no `{#id}`"),
        (
            "> **Rule.** Wait",
            "> Wait",
            "the title is not followed by `> **Rule.** …`",
        ),
        (
            "0.19.10.\n",
            "0.19.10. Or do not.\n",
            "the rule is 2 sentences; it should be one",
        ),
        (
            "> **Holds for:** cudarc 0.19.10 · <!-- date-check --> Nov 2026\n",
            "",
            "`> **Holds for:** …` is missing",
        ),
        (
            "> **Cell:** host buffer, read after write\n",
            "",
            "`> **Cell:** …` is missing: which of the four is it about?",
        ),
        ("class=\"badge", "class=\"b", "the box has no badge"),
        (
            "## Proof",
            "## Evidence",
            "the sections Proof are missing or not in their order",
        ),
        (
            "## Problem",
            "## Sources\n\n## Problem",
            // The earlier one is taken for the section, and it has no date.
            "Sources has no entry with a date",
        ),
        (
            "{{#rustdoc_include ../../examples/wait/main.rs:idea}}",
            "work();",
            "Listing includes no program",
        ),
        (
            "{{#include ../../examples/wait/stdout.txt}}",
            "read 7",
            "Output does not include `stdout.txt`",
        ),
        (
            "## Proof",
            "```text\nread 7\n```\n\n## Proof",
            "Output has typed text; include what was recorded",
        ),
        (
            "L01 shows it",
            "It is obvious",
            "Proof names no test, litmus test, rule or hazard",
        ),
        ("L01", "L02", "Proof names L02, which does not exist"),
        (
            "L01 shows it",
            "`it_hopes` shows it",
            "Proof names no test, litmus test, rule or hazard",
        ),
        (
            "L01 shows it",
            "`wiat::is_recorded` shows it",
            "Proof names `wiat::is_recorded`, which is no listing",
        ),
        (", 2026-11-30", "", "Sources has no entry with a date"),
        (
            "It waits.",
            "![](a.svg)",
            "the image in line 15 has no text for those who cannot see it",
        ),
        (
            "It waits.",
            "<img src=\"a.svg\">",
            "the image in line 15 has no text for those who cannot see it",
        ),
        (
            "[stream](../reference/glossary.md#stream)",
            "stream",
            "no term links to the glossary",
        ),
    ] {
        let found = after(template::check, old, new);
        assert!(
            found.contains(&format!("src/synchronize/wait.md: {complaint}")),
            "{old:?} became {new:?}: {found:?}"
        );
    }
}

#[test]
fn a_test_is_a_proof_too() {
    for test in ["`a::it_waits`", "`it_waits`", "`wait::is_recorded`"] {
        let found = after(template::check, "L01 shows it", test);
        assert_none(&found);
    }
}

#[test]
fn a_page_that_is_too_long_is_found() {
    let found = after(template::check, "It waits.", &"It waits.\n\n".repeat(100));
    assert_eq!(
        found,
        ["src/synchronize/wait.md: 241 lines; a page has at most 200"]
    );
}

#[test]
fn a_listing_on_no_page_or_on_two_is_found() {
    let root = repository();
    write(root.path(), "examples/hidden_broken/main.rs", LISTING);
    write(root.path(), "src/again.md", PAGE);
    assert_eq!(
        shown::once(root.path()).unwrap(),
        [
            "examples/hidden_broken/main.rs: no page shows its region `idea`",
            "examples/wait/main.rs: shown by more than one page: src/again.md, src/synchronize/wait.md",
        ]
    );
}

#[test]
fn a_number_without_a_source_is_found() {
    for (text, number) in [
        ("It copies 297 GB/s.", "297 GB/s"),
        ("It copies 2.5 GiB/s, or less.", "2.5 GiB/s"),
        ("A fault takes 340 ns.", "340 ns"),
        ("It took 12ms (twice).", "12ms"),
        ("About 1,184 s in all.", "1,184 s"),
        ("It uses 98 % of it.", "98 %"),
        ("It is 70× slower.", "70×"),
        ("**5 µs** each.", "5 µs"),
    ] {
        let found = after(numbers::unsourced, "It waits.", text);
        assert_eq!(
            found,
            [format!(
                "src/synchronize/wait.md:15: `{number}` has no footnote on its line"
            )],
            "{text}"
        );
    }
}

#[test]
fn what_is_no_measurement_needs_no_source() {
    for text in [
        "The 2×2 of waits, 64 KiB, 4 pages, step 2 so far.",
        "It is arithmetic.\nAt 55 GB/s it takes 19.5 ms.",
        "It prints `12 ms`.",
        "```text\n12 ms\n```",
    ] {
        assert_none(&after(numbers::unsourced, "It waits.", text));
    }
}

#[test]
fn a_page_that_needs_no_exemption_is_found() {
    let root = repository();
    write(root.path(), "src/reference/litmus.md", "# Litmus\n");
    assert_eq!(
        numbers::unsourced(root.path()).unwrap(),
        ["src/reference/litmus.md: it has no such number; strike it off `OWN_SETTINGS`"]
    );
}

#[test]
fn a_misspelt_word_is_found() {
    let found = after(
        spelling::check,
        "It waits.",
        "It waits for the seperate copy.",
    );
    assert_eq!(
        found,
        ["src/synchronize/wait.md:15: seperate should be separate"]
    );
    assert_none(&after(
        spelling::check,
        "It waits.",
        "`seperate` is a name.",
    ));
}

#[test]
fn an_address_that_is_gone_or_new_is_found() {
    let found = after(ids::check, "{#wait}", "{#wait-for-it}");
    assert_eq!(
        found,
        [
            "tests/addresses.lock: synchronize/wait.html#wait was published, \
             and no heading has this id any more",
            "tests/addresses.lock: synchronize/wait.html#wait-for-it is new; \
             `ADD_ADDRESSES=1 cargo test -p proofs --test pages addresses` adds it",
        ]
    );
}

#[test]
fn new_addresses_are_added_and_none_is_removed() {
    let root = repository();
    let page = PAGE.replace("{#wait}", "{#wait-for-it}");
    write(root.path(), "src/synchronize/wait.md", &page);
    ids::add(root.path()).unwrap();
    let locked = fs::read_to_string(root.path().join(ids::LOCK)).unwrap();
    assert!(locked.contains("wait.html#wait\n"), "{locked}");
    assert!(locked.contains("wait.html#wait-for-it\n"), "{locked}");
}

#[test]
fn an_entry_of_another_form_is_found() {
    for (old, new, complaint) in [
        ("**Fix.** ", "", "**Fix.** is missing or not in its order"),
        (
            "**What was wrong.** ",
            "",
            "**What was wrong.** is missing or not in its order",
        ),
        (
            "**Do you have it?** ",
            "",
            "**Do you have it?** is missing or not in its order",
        ),
        (
            "**Reported** in ",
            "",
            "**Reported** in is missing or not in its order",
        ),
        ("Case F03", "F03", "Case is missing or not in its order"),
        (
            "**Fix.** ",
            "A long story.\n\n**Fix.** ",
            "it does not open with the fix",
        ),
        (
            "**Not shown here:** ",
            "",
            "it neither shows a program nor says why not",
        ),
    ] {
        let root = repository();
        let page = CLINIC.replacen(old, new, 1);
        assert_ne!(page, CLINIC);
        write(root.path(), "src/clinic/slow.md", &page);
        assert_eq!(
            clinic::form(root.path()).unwrap(),
            [format!(
                "src/clinic/slow.md: It blocks {{#blocks}}: {complaint}"
            )]
        );
    }
}

#[test]
fn a_question_without_an_answer_is_found() {
    let front = introduction();
    let row = "| Why does it block? | [pageable](clinic/slow.md#blocks) |\n";
    for (new, complaint) in [
        ("", "9 questions; there should be 10"),
        ("| Why? | because |\n", "no answer: | Why? | because |"),
        (
            "| Why? | [so](clinic/slow.md#slow) |\n",
            "clinic/slow.md#slow does not open with an answer",
        ),
    ] {
        let root = repository();
        let page = front.replacen(row, new, 1);
        write(root.path(), "src/introduction.md", &page);
        assert_eq!(
            clinic::questions(root.path()).unwrap(),
            [format!("src/introduction.md: {complaint}")]
        );
    }
}

#[test]
fn a_source_that_is_not_listed_is_found() {
    let found = after(sources::unlisted, "example.com/a", "example.com/c");
    assert_eq!(
        found,
        ["src/synchronize/wait.md: src/reference/sources.md lacks https://example.com/c"]
    );
}
