//! `c2c measure` as its user meets it: the files that it writes, and what it says to bad input.
//!
//! Durations are never asserted; counts, values, marks and exit codes are.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{json, Value};
use tempfile::TempDir;

/// Small enough for a run of a second, large enough for two sizes and batches of buffers.
const SIZE: &str = "16KiB";

fn c2c(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_c2c"));
    command.arg("measure").args(arguments);
    command
}

/// Without a driver on the library path, so that all of it is the machine's own.
fn without_driver(arguments: &[&str]) -> Command {
    let mut command = c2c(arguments);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Says on the real stderr what did not run; libtest would hide `eprintln!`.
fn waive(what: &str) {
    let line = format!("waived: {what}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A run that writes everything; the folder, the record and what was printed.
struct Ran {
    folder: TempDir,
    record: Value,
    printed: String,
}

impl Ran {
    fn new(command: fn(&[&str]) -> Command) -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (json, svg, prom) = (path("a.json"), path("plots"), path("a.prom"));
        let arguments = [
            "--max-size",
            SIZE,
            "--json",
            &json,
            "--svg",
            &svg,
            "--prom",
            &prom,
        ];
        let output = command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let record = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        Self {
            folder,
            record,
            printed: text(&output.stdout),
        }
    }

    fn json(&self) -> PathBuf {
        self.folder.path().join("a.json")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn cases(&self) -> &Vec<Value> {
        self.record["testcases"].as_array().unwrap()
    }

    fn case(&self, name: &str, bytes: u64) -> &Value {
        let is_it = |case: &&Value| case["name"] == name && case["buffer_bytes"] == bytes;
        self.cases()
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{name} of {bytes}"))
    }
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/measure.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn page_bytes(ran: &Ran) -> u64 {
    ran.record["machine"]["page_bytes"].as_u64().unwrap()
}

#[test]
fn a_run_on_a_machine_without_a_driver() {
    let ran = Ran::new(without_driver);
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&ran.record)
        .map(|it| it.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    python_agrees(&ran.json());

    // Base pages are asked for by name, because elsewhere the kernel may give larger ones.
    for bytes in [4 << 10, 16 << 10] {
        let faults = &ran.case("host_to_host/base_pages", bytes)["figures"]["minor_faults"];
        let expected = bytes.div_ceil(page_bytes(&ran)) as f64;
        let counted = faults["median"].as_f64().unwrap();
        assert!(
            (counted / expected - 1.0).abs() < 0.01,
            "{counted} of {expected}"
        );
    }
    let reused = ran.case("host_to_host/reused_pageable", 16 << 10);
    let phases = reused["figures"]["phases"].as_object().unwrap();
    assert_eq!(phases.keys().collect::<Vec<_>>(), ["copy"]);

    // Nothing of a device is left out in silence: it is waived, once for each kind.
    let waived = |case: &&Value| case["status"] == "waived" && case["direction"] != "host_to_host";
    assert!(ran.cases().iter().filter(waived).count() >= 25);
    assert_eq!(ran.record["counts"]["failed"], 0);
    assert_eq!(ran.record["counts"]["simulated"], 0);
    assert_eq!(ran.record["interrupted"], false);
    assert!(ran.record["machine"]["no_device_because"].is_string());

    let verdict = ran.record["verdict"][0].as_str().unwrap();
    assert!(
        verdict.contains("with a fresh destination costs"),
        "{verdict}"
    );
    assert!(ran.printed.contains(verdict));
    assert!(!ran.printed.contains("simulated:"), "{}", ran.printed);
    assert!(ran.printed.contains("no CUDA driver"), "{}", ran.printed);
    assert!(ran
        .read("a.prom")
        .contains("c2c_measure_seconds{buffer_bytes=\"4096\""));
    for plot in ["bandwidth", "phases"] {
        let svg = ran.read(&format!("plots/host-to-host-{plot}.svg"));
        assert!(svg.contains("<title>") && svg.contains("<desc>"), "{svg}");
        assert!(svg.contains("prefers-color-scheme: dark"));
    }
}

#[test]
fn what_goes_over_the_models_link_is_marked_everywhere() {
    if !has_model() {
        return waive("c2c measure on the model: it is not on the library path; run `cargo test`");
    }
    let ran = Ran::new(c2c);
    let validator = jsonschema::validator_for(&schema()).unwrap();
    assert!(validator.is_valid(&ran.record));
    for case in ran.cases() {
        let over_link = case["direction"] != "host_to_host";
        assert_eq!(case["simulated"], over_link, "{case}");
    }
    assert_eq!(ran.record["counts"]["failed"], 0, "{}", ran.printed);
    let down = ran.case("device_to_host/reused_pinned", 4096);
    assert_eq!(down["status"], "passed");
    assert_eq!(
        ran.case("both_ways/reused_pinned", 4096)["status"],
        "passed"
    );
    for ceiling in ran.record["ceilings"].as_array().unwrap() {
        let link = ceiling["name"].as_str().unwrap().ends_with("_ce");
        assert_eq!(ceiling["simulated"], link, "{ceiling}");
    }
    for sentence in ran.record["verdict"].as_array().unwrap() {
        let sentence = sentence.as_str().unwrap();
        let speaks_of_link = sentence.contains("download") || sentence.contains("link carries");
        assert!(!speaks_of_link, "{sentence}");
    }
    assert!(ran.printed.contains("device to host (simulated"));
    assert!(ran
        .read("plots/device-to-host-phases.svg")
        .contains("simulated"));
    let prom = ran.read("a.prom");
    for line in prom.lines().filter(|line| line.contains("device_to_host/")) {
        assert!(line.contains("simulated=\"true\""), "{line}");
    }
}

/// The runner puts the model into a folder `cumodel` on the library path.
fn has_model() -> bool {
    std::env::var("LD_LIBRARY_PATH").is_ok_and(|path| path.contains("/cumodel"))
}

/// Another reader of the same schema.
fn python_agrees(json: &Path) {
    let program = "import json, sys, jsonschema\n\
                   schema, record = (json.load(open(path)) for path in sys.argv[1:])\n\
                   jsonschema.validate(record, schema)\n";
    let has = Command::new("python3")
        .args(["-c", "import jsonschema"])
        .output();
    if !has.is_ok_and(|output| output.status.success()) {
        return waive(
            "validation by Python: no python3 with jsonschema (python3 -m pip install jsonschema)",
        );
    }
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/measure.schema.json");
    let python = |record: &Path| {
        let mut command = Command::new("python3");
        command.arg("-c").arg(program).arg(&schema).arg(record);
        command.output().unwrap()
    };
    let output = python(json);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The reader can say no.
    let wrong = json.with_file_name("wrong.json");
    fs::write(&wrong, "{\"format\": \"c2c measure\"}").unwrap();
    assert!(!python(&wrong).status.success());
}

#[test]
fn a_baseline_decides_the_exit_code() {
    let ran = Ran::new(without_driver);
    let baseline = ran.folder.path().join("baseline.json");
    let judged = |factor: f64| {
        let mut record = ran.record.clone();
        for case in record["testcases"].as_array_mut().unwrap() {
            let total = case.pointer_mut("/figures/total_ns");
            if let Some(total) = total.and_then(Value::as_object_mut) {
                for value in total.values_mut() {
                    *value = json!(value.as_f64().unwrap() * factor);
                }
            }
        }
        fs::write(&baseline, record.to_string()).unwrap();
        let path = baseline.to_str().unwrap();
        let arguments = [
            "--max-size",
            "4KiB",
            "--baseline",
            path,
            "--tolerance",
            "50",
        ];
        without_driver(&arguments).output().unwrap()
    };
    let faster_before = judged(1e-6);
    assert_eq!(
        faster_before.status.code(),
        Some(1),
        "{}",
        text(&faster_before.stderr)
    );
    assert!(text(&faster_before.stdout).contains("slower: host_to_host/"));
    let slower_before = judged(1e6);
    assert_eq!(
        slower_before.status.code(),
        Some(0),
        "{}",
        text(&slower_before.stdout)
    );
    assert!(text(&slower_before.stdout).contains("\n0 cases are slower"));
}

#[test]
fn two_records_stand_beside_each_other() {
    let ran = Ran::new(without_driver);
    let path = ran.json();
    let output = c2c(&["--compare"]).args([&path, &path]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    let measured = ran.cases().iter().filter(|case| case["status"] == "passed");
    assert_eq!(
        printed.matches(" 1.00 ").count(),
        measured.count(),
        "{printed}"
    );
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let folder = TempDir::new().unwrap();
    let json = folder.path().join("a.json");
    let mut run = without_driver(&["--max-size", "64MiB", "--json", json.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The line comes after the ceilings, when the first of many cases is about to begin.
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let estimate = lines.next().unwrap().unwrap();
    assert!(estimate.contains("cases, about"), "{estimate}");
    let pid = run.id().to_string();
    assert!(Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap()
        .success());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let record: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(record["interrupted"], true);
    assert!(jsonschema::validator_for(&schema())
        .unwrap()
        .is_valid(&record));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

// ---- Bad input ----

/// One sentence, the documented exit code, and nothing left behind in `folder`.
fn refused(what: &str, output: &Output, folder: &Path, files: usize) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {stderr}");
    assert!(
        !stderr.contains("panicked") && !stderr.contains("stack backtrace"),
        "{what}: {stderr}"
    );
    let says = stderr.starts_with("c2c: ") && stderr.lines().count() == 1;
    assert!(says || stderr.starts_with("error: "), "{what}: {stderr}");
    assert!(output.stdout.is_empty(), "{what}: {}", text(&output.stdout));
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        files,
        "{what} left a file behind"
    );
}

/// Records that are none, each with a name.
fn spoiled(good: &Value) -> Vec<(&'static str, Vec<u8>)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut record = good.clone();
        change(&mut record);
        record.to_string().into_bytes()
    };
    let whole = good.to_string();
    let passed = good["testcases"].as_array().unwrap().iter();
    let passed = passed
        .clone()
        .position(|case| case["status"] == "passed")
        .unwrap();
    vec![
        ("empty", Vec::new()),
        (
            "truncated in the middle",
            whole.as_bytes()[..whole.len() / 2].to_vec(),
        ),
        (
            "truncated by one byte",
            whole.as_bytes()[..whole.len() - 1].to_vec(),
        ),
        (
            "two records in one file",
            [whole.as_bytes(), whole.as_bytes()].concat(),
        ),
        ("no JSON", b"size,ns\n4096,12\n".to_vec()),
        ("not UTF-8", vec![0xFF, 0xFE, 0x00, 0x7B]),
        ("a list", b"[1, 2, 3]".to_vec()),
        ("null", b"null".to_vec()),
        ("nested too deeply", "[".repeat(100_000).into_bytes()),
        (
            "nvbandwidth's output",
            br#"{"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce"}]}}"#.to_vec(),
        ),
        (
            "another program's format",
            with(&|it| it["format"] = json!("fio")),
        ),
        (
            "another version",
            with(&|it| it["format_version"] = json!(999)),
        ),
        (
            "a version that is no number",
            with(&|it| it["format_version"] = json!("1")),
        ),
        (
            "without its machine",
            with(&|it| {
                it.as_object_mut().unwrap().remove("machine");
            }),
        ),
        (
            "with an unknown key",
            with(&|it| it["colour"] = json!("blue")),
        ),
        (
            "cases that are no list",
            with(&|it| it["testcases"] = json!({})),
        ),
        (
            "a size below zero",
            with(&|it| it["testcases"][0]["buffer_bytes"] = json!(-1)),
        ),
        (
            "a size that is no integer",
            with(&|it| it["testcases"][0]["buffer_bytes"] = json!(1.5)),
        ),
        (
            "an unknown direction",
            with(&|it| it["testcases"][0]["direction"] = json!("sideways")),
        ),
        (
            "an unknown status",
            with(&|it| it["testcases"][0]["status"] = json!("maybe")),
        ),
        (
            "a duration that is text",
            with(&|it| it["testcases"][passed]["figures"]["total_ns"]["median"] = json!("1")),
        ),
        (
            "a duration of zero",
            with(&|it| it["testcases"][passed]["figures"]["total_ns"]["median"] = json!(0.0)),
        ),
        (
            "a duration below zero",
            with(&|it| it["testcases"][passed]["figures"]["total_ns"]["median"] = json!(-5.0)),
        ),
        (
            "a duration that is not finite",
            whole
                .replacen("\"median\":", "\"median\":1e999,\"x\":", 1)
                .into_bytes(),
        ),
        (
            "passed without figures",
            with(&|it| {
                it["testcases"][passed]
                    .as_object_mut()
                    .unwrap()
                    .remove("figures");
            }),
        ),
        ("without any case", with(&|it| it["testcases"] = json!([]))),
    ]
}

#[test]
fn a_file_that_is_no_record_is_refused() {
    let ran = Ran::new(without_driver);
    let folder = TempDir::new().unwrap();
    let good = folder.path().join("good.json");
    let bad = folder.path().join("bad.json");
    fs::copy(ran.json(), &good).unwrap();
    for (what, content) in spoiled(&ran.record) {
        fs::write(&bad, content).unwrap();
        let output = c2c(&["--compare"]).args([&good, &bad]).output().unwrap();
        refused(what, &output, folder.path(), 2);
    }
    // A file of 65 MiB that takes no room.
    fs::File::create(&bad).unwrap().set_len(65 << 20).unwrap();
    let output = c2c(&["--compare"]).args([&bad, &good]).output().unwrap();
    refused("a large file", &output, folder.path(), 2);
    fs::remove_file(&bad).unwrap();
    for path in ["/dev/zero", "/", "/no/such/file", ""] {
        let output = c2c(&["--compare", path]).arg(&good).output().unwrap();
        refused(path, &output, folder.path(), 1);
    }
}

#[test]
fn a_request_that_cannot_be_met_is_refused_before_anything_is_measured() {
    let folder = TempDir::new().unwrap();
    let json = folder.path().join("a.json");
    let json = json.to_str().unwrap();
    let requests: [&[&str]; 17] = [
        &["--max-size", "1EiB", "--json", json],
        &["--max-size", "16777216TiB"],
        &["--max-size", "0"],
        &["--max-size", "1000"],
        &["--max-size", "-4KiB"],
        &["--max-size", "large"],
        &["--max-size", ""],
        &["--tolerance", "10"],
        &["--baseline", "/no/such/file", "--json", json],
        &["--baseline", "/", "--tolerance", "-1"],
        &["--baseline", "/", "--tolerance", "NaN"],
        &["--baseline", "/", "--tolerance", "ten"],
        &["--json", "/no/such/folder/a.json"],
        &["--json", "/"],
        &["--prom", "/proc/a.prom"],
        &["--compare", "one.json"],
        &["--compare", "a.json", "b.json", "--json", json],
    ];
    for request in requests {
        let output = without_driver(request).output().unwrap();
        refused(&request.join(" "), &output, folder.path(), 0);
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = without_driver(&["--svg"]).arg(&file).output().unwrap();
    refused("plots into a file", &output, folder.path(), 1);
}

#[test]
fn a_baseline_of_another_machine_is_refused() {
    let ran = Ran::new(without_driver);
    let folder = TempDir::new().unwrap();
    let baseline = folder.path().join("baseline.json");
    let mut record = ran.record.clone();
    record["machine"]["cpu"] = json!("another processor");
    fs::write(&baseline, record.to_string()).unwrap();
    let output = without_driver(&["--baseline"])
        .arg(&baseline)
        .output()
        .unwrap();
    refused("a baseline of another machine", &output, folder.path(), 1);
    assert!(text(&output.stderr).contains("another processor"));
}

/// Runs a shell script in a mount namespace of its own, or says that this user may not.
fn in_namespace(script: &str) -> Option<Output> {
    let may = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        waive("full disk and hidden /proc: this user may make no mount namespace");
        return None;
    }
    let mut command = Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", script])
        .env_remove("LD_LIBRARY_PATH");
    Some(
        command
            .env("C2C", env!("CARGO_BIN_EXE_c2c"))
            .output()
            .unwrap(),
    )
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let script = "mount -t tmpfs -o size=8k none /mnt && cd /mnt && \
                  $C2C measure --max-size 4KiB --json a.json >/dev/null; \
                  code=$?; ls -A /mnt; exit $code";
    let Some(output) = in_namespace(script) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(text(&output.stdout), "", "nothing is left");
    assert!(stderr.contains("c2c: writing a.json"), "{stderr}");
}

#[test]
fn without_proc_and_sys_the_host_is_measured_all_the_same() {
    let script =
        "mount -t tmpfs none /mnt && mount -t tmpfs none /sys && mount -t tmpfs none /proc && \
                  $C2C measure --max-size 4KiB --json /mnt/a.json >/dev/null && cat /mnt/a.json";
    let Some(output) = in_namespace(script) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let record: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert!(jsonschema::validator_for(&schema())
        .unwrap()
        .is_valid(&record));
    let machine = &record["machine"];
    assert_eq!(
        (&machine["cpu"], &machine["nodes"]),
        (&Value::Null, &json!([]))
    );
    let cases = record["testcases"].as_array().unwrap();
    let fresh = cases
        .iter()
        .find(|case| case["name"] == "host_to_host/fresh_pageable")
        .unwrap();
    assert_eq!(fresh["figures"]["vmstat"], Value::Null);
}
