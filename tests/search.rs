//! The clinic is found by what people see, through the site's own search.

use std::collections::BTreeSet;
use std::fs;

use c2c::{build, Book};
use regex::Regex;
use tempfile::TempDir;

use crate::browser::{waive_without_chromium, Browser, Look};
use crate::{assert_none, lines, repository};

/// Each field case, the words in which its report tells the symptom, and its entry.
const SYMPTOMS: [(&str, &str, &str); 39] = [
    (
        "F01",
        "tensor on the CPU is zeros after non_blocking copy",
        "wrong-after-download.html#zeros-or-old-values",
    ),
    (
        "F03",
        "asynchronous copy blocks the host while the GPU is busy",
        "slow-copies.html#async-copy-blocks",
    ),
    (
        "F04",
        "gradient offload and backward do not overlap",
        "slow-copies.html#no-overlap",
    ),
    (
        "F05",
        "one batch shows up in another",
        "wrong-after-upload.html#values-of-another-batch",
    ),
    (
        "F07",
        "nonsense after staging became pinned",
        "wrong-after-upload.html#wrong-since-pinned",
    ),
    (
        "F08",
        "accuracy fell to zero without an error",
        "wrong-after-upload.html#accuracy-zero",
    ),
    (
        "F09",
        "test passes with ten elements",
        "wrong-after-upload.html#small-test-passes",
    ),
    (
        "F11",
        "memory grows with every read, callback hangs",
        "threads-and-processes.html#leak-in-a-callback",
    ),
    (
        "F12",
        "NaN gradients with activation offload streams",
        "wrong-after-download.html#nan-gradients",
    ),
    (
        "F13",
        "logger prints numbers never computed",
        "wrong-after-download.html#numbers-never-computed",
    ),
    (
        "F15",
        "intermittent garbled generations with restored blocks",
        "wrong-after-download.html#garbled-after-restore",
    ),
    (
        "F17",
        "loss still falls, stale activations",
        "wrong-after-download.html#stale-activations",
    ),
    (
        "F18",
        "NaN or garbage images with streamed offload",
        "wrong-after-download.html#nan-with-transfer-stream",
    ),
    (
        "F19",
        "rare weight corruption when layers are offloaded",
        "wrong-after-download.html#weights-corrupted",
    ),
    (
        "F21",
        "output of a step arrives only with the next step",
        "wrong-after-download.html#one-step-late",
    ),
    (
        "F23",
        "tail or end of an upload missing, not written",
        "wrong-after-upload.html#tail-missing",
    ),
    (
        "F25",
        "replay fine until another request runs in between",
        "wrong-after-upload.html#graph-reads-again",
    ),
    (
        "F26",
        "replaying a captured model crashes, junk shapes",
        "wrong-after-upload.html#graph-of-a-temporary",
    ),
    (
        "F27",
        "pinning a tensor inside a capture fails",
        "wrong-after-upload.html#capture-fails",
    ),
    (
        "F28",
        "latency spikes at high concurrency",
        "pinned-memory.html#pinning-in-each-call",
    ),
    (
        "F29",
        "whole node freezes while a process pins",
        "pinned-memory.html#node-freezes",
    ),
    (
        "F30",
        "host out of memory although the pinned size fits",
        "pinned-memory.html#twice-the-size",
    ),
    (
        "F32",
        "resident memory stays at its peak after tensors are gone",
        "pinned-memory.html#never-comes-back",
    ),
    (
        "F33",
        "host cache takes tens of minutes to set up",
        "pinned-memory.html#registration-takes-minutes",
    ),
    (
        "F34",
        "error surfaces in an unrelated call, already registered",
        "pinned-memory.html#registered-twice",
    ),
    (
        "F36",
        "pinning a memory-mapped file fails",
        "pinned-memory.html#file-cannot-be-pinned",
    ),
    (
        "F37",
        "pinned, then the next kernel launch runs out of memory",
        "pinned-memory.html#half-a-terabyte",
    ),
    (
        "F38",
        "out of memory from pinning, WSL2 memlock",
        "pinned-memory.html#how-much-can-i-pin",
    ),
    (
        "F39",
        "reading a downloaded buffer is slow",
        "slow-copies.html#slow-to-read",
    ),
    (
        "F40",
        "a third of the bandwidth, NUMA nodes",
        "slow-copies.html#remote-numa",
    ),
    (
        "F41",
        "loading weights mmap takes minutes, idle disk and cores",
        "slow-copies.html#file-mapping",
    ),
    (
        "F42",
        "polling thread stalls for milliseconds",
        "slow-copies.html#numa-balancing",
    ),
    (
        "F43",
        "checkpoint of a forked child contains later state",
        "threads-and-processes.html#fork-is-no-snapshot",
    ),
    (
        "F44",
        "invalid context from a worker thread",
        "threads-and-processes.html#wrong-context",
    ),
    (
        "S01",
        "listings fail with unresolved crates on newer Rust",
        "book-tooling.html#skeptic-finds-nothing",
    ),
    (
        "S02",
        "E0464 multiple candidates for a crate",
        "book-tooling.html#two-builds-of-a-crate",
    ),
    (
        "S03",
        "unable to parse the input, broken pipe",
        "book-tooling.html#preprocessor-cannot-parse",
    ),
    (
        "S04",
        "unable to parse the input, only the downloaded binary",
        "book-tooling.html#prebuilt-preprocessor",
    ),
    (
        "S05",
        "diagrams published as text, unreadable in dark theme",
        "book-tooling.html#raw-diagrams",
    ),
];

fn none() -> Vec<String> {
    Vec::new()
}

/// An entry must be among so many first hits.
const HITS: usize = 3;

#[test]
fn every_field_case_has_its_symptom() {
    let litmus = fs::read_to_string(repository().join("src/reference/litmus.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (F\d\d)").unwrap();
    let tested: BTreeSet<String> = row
        .captures_iter(&litmus)
        .map(|row| row[1].to_owned())
        .collect();
    let told: BTreeSet<String> = SYMPTOMS.iter().map(|it| it.0.to_owned()).collect();
    assert!(
        tested.len() > 20,
        "the table of field cases has another form"
    );
    let untold: Vec<&String> = tested.difference(&told).collect();
    assert!(untold.is_empty(), "without an entry here: {untold:?}");
}

#[test]
fn every_field_case_is_found_by_its_symptom() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    // Built once, and not served: a server builds anew when somebody edits a page meanwhile.
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("book");
    let problems = build::build(&Book::open(&repository()).unwrap(), &out).unwrap();
    assert_none(&lines(&problems));
    let front = format!("file://{}", out.join("introduction.html").display());
    // The control: words that no page has find nothing.
    assert_eq!(first_hits(&mut browser, &front, "xyzzy"), none());

    let mut missed = Vec::new();
    for (case, words, entry) in SYMPTOMS {
        let hits = first_hits(&mut browser, &front, words);
        if !hits.iter().any(|hit| hit.ends_with(entry)) {
            missed.push(format!("{case}: `{words}` finds {hits:?}, and not {entry}"));
        }
    }
    assert_none(&missed);
}

/// The addresses of the first hits, as the page lists them when it is opened with a search.
fn first_hits(browser: &mut Browser, front: &str, words: &str) -> Vec<String> {
    browser.open(
        &format!("{front}?search={}", words.replace(' ', "+")),
        Look::Light,
    );
    // It says how many there are, or that there are none, once the index is loaded.
    browser.wait_until(
        "document.getElementById('mdbook-searchresults-header').textContent.trim() !== ''",
    );
    let hits = browser.evaluate(&format!(
        "[...document.querySelectorAll('#mdbook-searchresults a')].slice(0, {HITS})
            .map((link) => new URL(link.href)).map((url) => url.pathname + url.hash)"
    ));
    let hits = hits.as_array().cloned().unwrap_or_default();
    hits.iter()
        .filter_map(|hit| hit.as_str().map(str::to_owned))
        .collect()
}
