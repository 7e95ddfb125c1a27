//! The recorder: how a run is watched, which files come of it, and how it is drawn.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use proofs::checks::driver;
use tempfile::TempDir;
use xtask::examples::{self, Example};
use xtask::files::{self, File};
use xtask::record::{record, Driver, Env, WAIVED};
use xtask::timeline::mermaid;

// ---- A run ----

/// A program that is a shell script, and a place where it can be run as a listing on the model.
struct Script {
    folder: TempDir,
    program: PathBuf,
}

impl Script {
    fn new(text: &str) -> Script {
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("script");
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // `scripts/with-driver` looks for the model beside a program; the script never loads it.
        fs::create_dir(folder.path().join("deps")).unwrap();
        fs::write(folder.path().join("deps/libcumodel_driver.so"), "").unwrap();
        Script { folder, program }
    }

    fn run(&self, time_limit: Duration) -> anyhow::Result<xtask::record::Recorded> {
        assert!(self.folder.path().exists());
        let env = Env {
            time_limit,
            ..Env::new(&proofs::root(), Driver::Model, "fifo")
        };
        record(&example(None), &self.program, &env)
    }

    fn complaint(&self) -> String {
        format!("{:#}", self.run(Duration::from_secs(60)).unwrap_err())
    }
}

fn example(hazard: Option<&str>) -> Example {
    Example {
        slug: "a_listing".to_owned(),
        claim: "A claim.".to_owned(),
        hazard: hazard.map(str::to_owned),
        of_the_machine: false,
    }
}

const MODEL: &str = "echo 'driver: model 0.1.0, schedule fifo' >&2";

#[test]
fn a_run_is_recorded() {
    let script = Script::new(&format!(
        r#"{MODEL}
echo "in order $CUMODEL_SCHEDULE"
echo '{{"t":"start"}}' > "$CUMODEL_TRACE"
echo '{{"id":"H02","severity":"hazard","text":"two"}}' >> "$CUMODEL_REPORT"
echo '{{"id":"H01","severity":"hazard","text":"one"}}' >> "$CUMODEL_REPORT"
echo '{{"id":"H02","severity":"hazard","text":"two again"}}' >> "$CUMODEL_REPORT"
echo '{{"id":"H11","severity":"note","text":"could be better"}}' >> "$CUMODEL_REPORT""#
    ));
    let recorded = script.run(Duration::from_secs(60)).unwrap();
    assert_eq!(recorded.stdout, "in order fifo\n");
    assert_eq!(recorded.driver(), Some("model 0.1.0, schedule fifo"));
    assert_eq!(recorded.waived(), None);
    assert_eq!(recorded.trace, "{\"t\":\"start\"}\n");
    assert_eq!(recorded.hazards(), ["H01", "H02"]);
    assert_eq!(recorded.reports[2].text, "two again");
}

#[test]
fn a_waived_listing_says_why() {
    let script = Script::new(&format!("{MODEL}\necho 'waived: no root' >&2\nexit 77"));
    let recorded = script.run(Duration::from_secs(60)).unwrap();
    assert_eq!(recorded.waived(), Some("no root"));
    assert_eq!(WAIVED, lab::WAIVED);
}

#[test]
fn a_listing_that_hangs_is_killed_and_named() {
    let script = Script::new("echo before\nexec sleep 600");
    let error = script.run(Duration::from_secs(1)).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "examples/a_listing/main.rs: it was killed because it had not ended after 1 s; it printed:\nbefore\n"
    );
}

#[test]
fn a_listing_that_fails_is_named_with_what_it_said() {
    assert_eq!(
        Script::new("echo 'Error: no memory' >&2; exit 1").complaint(),
        "examples/a_listing/main.rs: it ended with exit status: 1, and said:\nError: no memory\n"
    );
}

#[test]
fn a_listing_on_another_driver_is_found() {
    assert_eq!(
        Script::new("echo 'driver: NVIDIA 13.0, NVIDIA H200' >&2").complaint(),
        "examples/a_listing/main.rs: it ran on another driver than it should: \
         \"NVIDIA 13.0, NVIDIA H200\" does not start with \"model \""
    );
    assert_eq!(
        Script::new("exit 0").complaint(),
        "examples/a_listing/main.rs: it did not say which driver serves it: \
         does `main` start with `lab::announce()?`"
    );
}

#[test]
fn the_tests_insist_on_the_driver_that_was_asked_for() {
    let version = || "1.0".to_owned();
    let model = lab::Driver::Model { version: version() };
    let nvidia = lab::Driver::Nvidia { version: version() };
    for (asked, got, agreed) in [
        ("", &model, Some(Driver::Model)),
        ("auto", &nvidia, Some(Driver::Gpu)),
        ("model", &model, Some(Driver::Model)),
        ("gpu", &nvidia, Some(Driver::Gpu)),
        ("gpu", &model, None),
        ("model", &nvidia, None),
    ] {
        let answer = driver::agree(asked, got).ok().map(|(driver, _)| driver);
        assert_eq!(answer, agreed, "{asked} {got:?}");
    }
}

// ---- The first lines of a listing ----

#[test]
fn the_first_lines_are_claim_and_hazard() {
    let source = "//! The claim,\n//! in two lines.\n//! hazard: H09\n//! stdout: of the machine\n\nfn main() {}\n";
    let example = examples::parse("a_listing_broken", source).unwrap();
    assert_eq!(example.claim, "The claim, in two lines.");
    assert_eq!(example.hazard.as_deref(), Some("H09"));
    assert!(example.of_the_machine);
    let example = examples::parse("a_listing", "//! The claim.\n//! hazard: none\n").unwrap();
    assert_eq!((example.hazard, example.of_the_machine), (None, false));
}

// ---- The recorded files ----

#[test]
fn files_are_recorded_when_they_change() {
    let root = TempDir::new().unwrap();
    fs::create_dir_all(root.path().join("examples/a_listing")).unwrap();
    let file = |content: Option<&str>| File {
        path: "examples/a_listing/timeline.mmd".to_owned(),
        content: content.map(str::to_owned),
    };
    assert!(file(Some("one")).bless(root.path()).unwrap());
    assert!(!file(Some("one")).bless(root.path()).unwrap());
    assert!(file(Some("two")).bless(root.path()).unwrap());
    assert_eq!(file(None).now(root.path()).unwrap().as_deref(), Some("two"));
    assert!(file(None).bless(root.path()).unwrap());
    assert_eq!(file(None).now(root.path()).unwrap(), None);
    assert!(!file(None).bless(root.path()).unwrap());
    let left = fs::read_dir(root.path().join("examples/a_listing")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn only_a_listing_with_a_hazard_has_a_report() {
    let script = Script::new(&format!(
        r#"{MODEL}
printf '%s\n' '{{"id":"H01","severity":"hazard","text":"one\n"}}' >> "$CUMODEL_REPORT"
echo '{{"id":"H01","severity":"hazard","text":"again"}}' >> "$CUMODEL_REPORT""#
    ));
    let recorded = script.run(Duration::from_secs(60)).unwrap();
    let report = |hazard| {
        files::of(&example(hazard), &recorded).unwrap()[2]
            .content
            .clone()
    };
    assert_eq!(report(Some("H01")).as_deref(), Some("one\n\nagain\n"));
    assert_eq!(report(None), None);
}

// ---- The diagram ----

fn op(op: u64, what: &str, stream: &str) -> String {
    format!(
        r#"{{"t":"op","op":{op},"call":"c","what":"{what}","stream":"{stream}","site":"main.rs:1"}}"#
    )
}

fn run(op: u64) -> String {
    format!(r#"{{"t":"run","op":{op}}}"#)
}

fn wait(call: &str, on: &str) -> String {
    format!(r#"{{"t":"wait","call":"{call}","on":"{on}","site":"main.rs:1"}}"#)
}

fn waited(call: &str, on: &str) -> String {
    format!(r#"{{"t":"waited","call":"{call}","on":"{on}"}}"#)
}

fn host(access: &str, what: &str) -> String {
    format!(r#"{{"t":"host","access":"{access}","what":"{what}","site":"main.rs:1"}}"#)
}

fn hazard(id: &str, name: &str, a: Option<u64>, b: Option<u64>) -> String {
    let number = |op: Option<u64>| op.map_or("null".to_owned(), |op| op.to_string());
    let (a, b) = (number(a), number(b));
    format!(r#"{{"t":"hazard","id":"{id}","name":"{name}","a":{a},"b":{b}}}"#)
}

/// The lines of the diagram without its header.
fn drawn(trace: &[String]) -> Vec<String> {
    let diagram = mermaid(&trace.join("\n")).unwrap().unwrap();
    let mut lines = diagram.lines();
    assert!(lines.next().unwrap().starts_with("%% "));
    assert_eq!(lines.next(), Some("sequenceDiagram"));
    assert_eq!(lines.next(), Some("    participant H as Host"));
    lines.map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn a_copy_a_wait_and_a_read() {
    assert_eq!(
        drawn(&[
            r#"{"t":"start","version":"0.1.0","schedule":"last","pageable":"staged"}"#.to_owned(),
            r#"{"t":"stream","name":"default stream"}"#.to_owned(),
            r#"{"t":"of another version"}"#.to_owned(),
            op(1, "fill 4 MiB device #1", "default stream"),
            op(2, "copy 4 MiB device #1 → pinned #1", "default stream"),
            wait("cuStreamSynchronize", "default stream"),
            run(1),
            run(2),
            waited("cuStreamSynchronize", "default stream"),
            host("read", "pinned #1"),
            op(3, "free device #1", "default stream"),
        ]),
        [
            "participant S1 as default stream",
            "H->>S1: #35;1 fill 4 MiB device #35;1",
            "H->>S1: #35;2 copy 4 MiB device #35;1 → pinned #35;1",
            "H->>S1: wait",
            "Note over S1: #35;1, #35;2 run",
            "S1-->>H: done",
            "Note over H: reads pinned #35;1",
        ]
    );
}

#[test]
fn a_hazard_stands_out_where_it_happened() {
    assert_eq!(
        drawn(&[
            op(1, "copy 4 MiB device #1 → pinned #1", "stream 1"),
            hazard("H01", "READ-BEFORE-COPY", Some(1), None),
            op(2, "fill 4 MiB device #1", "stream 2"),
            hazard("H09", "STREAM-RACE-WAR", Some(1), Some(2)),
            hazard("H27", "SOMETHING-ELSE", None, None),
        ]),
        [
            "participant S1 as stream 1",
            "participant S2 as stream 2",
            "H->>S1: #35;1 copy 4 MiB device #35;1 → pinned #35;1",
            "rect rgba(255, 0, 0, 0.2)",
            "Note over H,S1: H01 READ-BEFORE-COPY",
            "end",
            "H->>S2: #35;2 fill 4 MiB device #35;1",
            "rect rgba(255, 0, 0, 0.2)",
            "Note over S1,S2: H09 STREAM-RACE-WAR",
            "end",
            "rect rgba(255, 0, 0, 0.2)",
            "Note over H: H27 SOMETHING-ELSE",
            "end",
        ]
    );
}

#[test]
fn events_go_from_the_stream_that_records_them() {
    assert_eq!(
        drawn(&[
            // Never recorded, so it waits for nothing.
            op(1, "wait for event 1", "stream 1"),
            op(2, "record event 1", "stream 1"),
            op(3, "wait for event 1", "stream 2"),
            op(4, "wait for event 1", "stream 1"),
            wait("cuEventSynchronize", "event 1"),
            run(1),
            run(2),
            waited("cuEventSynchronize", "event 1"),
            wait("cuEventSynchronize", "event 2"),
            waited("cuEventSynchronize", "event 2"),
            wait("cuMemFree_v2", "the context"),
            waited("cuMemFree_v2", "the context"),
        ]),
        [
            "participant S1 as stream 1",
            "participant S2 as stream 2",
            "H->>S1: #35;2 record event 1",
            "S1-->>S2: #35;3 wait for event 1",
            "H->>S1: #35;4 wait for event 1",
            "H->>S1: wait for event 1",
            "Note over S1: #35;2 runs",
            "S1-->>H: event 1 is complete",
            "Note over H: waits for event 2",
            "Note over H: has waited for event 2",
            "Note over H: waits for the context inside cuMemFree_v2",
            "Note over H: has waited for the context",
        ]
    );
}

#[test]
fn rounds_that_are_alike_are_counted() {
    let mut trace = vec![op(1, "fill 4 MiB device #1", "stream 1")];
    for round in 0..10 {
        let first = 2 + 2 * round;
        trace.extend([
            op(first, "fill 8 MiB device #1", "stream 1"),
            op(first + 1, "copy 8 MiB device #1 → pinned #1", "stream 1"),
            wait("cuStreamSynchronize", "stream 1"),
            run(first),
            run(first + 1),
            waited("cuStreamSynchronize", "stream 1"),
        ]);
    }
    trace.push(host("read", "pinned #1"));
    assert_eq!(
        drawn(&trace),
        [
            "participant S1 as stream 1",
            "H->>S1: #35;1 fill 4 MiB device #35;1",
            "H->>S1: #35;2 fill 8 MiB device #35;1",
            "H->>S1: #35;3 copy 8 MiB device #35;1 → pinned #35;1",
            "H->>S1: wait",
            "Note over S1: #35;2, #35;3 run",
            "S1-->>H: done",
            "H->>S1: #35;4 fill 8 MiB device #35;1",
            "H->>S1: #35;5 copy 8 MiB device #35;1 → pinned #35;1",
            "H->>S1: wait",
            "Note over S1: #35;4, #35;5 run",
            "S1-->>H: done",
            "Note over H,S1: and 8 more like this",
            "Note over H: reads pinned #35;1",
        ]
    );
}

#[test]
fn copies_of_different_sizes_are_not_alike() {
    let trace: Vec<String> = (1..=4)
        .map(|n| op(n, &format!("fill {n} MiB device #1"), "stream 1"))
        .collect();
    assert_eq!(drawn(&trace).len(), 1 + 4);
}

#[test]
fn text_cannot_end_a_line_of_the_diagram() {
    assert_eq!(
        drawn(&[op(1, "fill; or not", "stream 1")])[1],
        "H->>S1: #35;1 fill#59; or not"
    );
}

#[test]
fn a_program_without_operations_has_no_diagram() {
    assert_eq!(mermaid("").unwrap(), None);
    let start = r#"{"t":"start","version":"0.1.0","schedule":"last","pageable":"staged"}"#;
    assert_eq!(mermaid(start).unwrap(), None);
}

#[test]
fn a_trace_that_cannot_be_is_an_error_with_its_line() {
    let error = mermaid(&[op(1, "a", "stream 1"), run(7)].join("\n")).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "line 2 of the trace: {\"t\":\"run\",\"op\":7}: operation 7 was never enqueued"
    );
    assert!(mermaid("{\"t\":").is_err());
}
