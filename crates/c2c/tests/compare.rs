//! `c2c compare` as its user meets it: which nodes it names, what it writes, what it refuses.
//!
//! The records are those of one real run with planted times, so that nothing is measured here but
//! once, and no duration is asserted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::{json, Value};
use tempfile::TempDir;

fn c2c() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_c2c"));
    command.env_remove("LD_LIBRARY_PATH");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A record of this machine, whose passes all took the same: nothing of it is chance.
static STEADY: LazyLock<Value> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.json");
    let mut command = c2c();
    let output = command.args(["measure", "--max-size", "4KiB", "--json"]);
    let output = output.arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut record = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    set_times(&mut record, 1000.0);
    for ceiling in record["ceilings"].as_array_mut().unwrap() {
        if ceiling["gb_per_s"].is_object() {
            ceiling["gb_per_s"] = json!({"median": 10.0, "min": 10.0, "max": 10.0, "iqr": 0.0});
        }
    }
    record
});

fn set_times(record: &mut Value, ns: f64) {
    for case in record["testcases"].as_array_mut().unwrap() {
        if let Some(total) = case.pointer_mut("/figures/total_ns") {
            *total = json!({"median": ns, "min": ns, "max": ns, "iqr": 0.0});
        }
    }
}

/// How many cases of the record have figures.
fn measured(record: &Value) -> usize {
    let cases = record["testcases"].as_array().unwrap().iter();
    cases.filter(|case| case["status"] == "passed").count()
}

/// A folder with the records of a fleet.
struct Fleet {
    folder: TempDir,
    records: Vec<PathBuf>,
}

impl Fleet {
    /// One node for each time of its cases, in nanoseconds: `node0`, `node1` and so on.
    fn new(times: &[f64]) -> Self {
        let mut fleet = Self {
            folder: TempDir::new().unwrap(),
            records: Vec::new(),
        };
        for (index, &ns) in times.iter().enumerate() {
            let mut record = STEADY.clone();
            set_times(&mut record, ns);
            fleet.add(&format!("node{index}"), record.to_string());
        }
        fleet
    }

    fn add(&mut self, node: &str, content: impl AsRef<[u8]>) {
        let path = self.path(&format!("{node}.json"));
        fs::write(&path, content).unwrap();
        self.records.push(path);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compare(&self, arguments: &[&str]) -> Output {
        let mut command = c2c();
        command.arg("compare").args(&self.records).args(arguments);
        command.current_dir(&self.folder).output().unwrap()
    }
}

#[test]
fn the_slow_node_is_named_in_every_format() {
    let fleet = Fleet::new(&[1000.0, 1010.0, 3000.0, 990.0]);
    let output = fleet.compare(&["--json", "out", "--svg", "fleet.svg"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let cases = measured(&STEADY);
    let sentence = format!("1 of 4 nodes is an outlier: node2 (slower in {cases} of ");
    assert!(printed.contains(&sentence), "{printed}");
    assert_eq!(printed.matches("┆ node2 ┆").count(), cases, "{printed}");

    let result: Value =
        serde_json::from_str(&fs::read_to_string(fleet.path("out")).unwrap()).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/compare.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&result));
    assert!(!validator.is_valid(&json!({"format": "c2c compare"})));
    let outliers = result["nodes"].as_array().unwrap().iter();
    let outliers: Vec<_> = outliers
        .map(|node| node["outliers"].as_u64().unwrap())
        .collect();
    assert_eq!(outliers, [0, 0, cases as u64, 0]);

    let svg = fs::read_to_string(fleet.path("fleet.svg")).unwrap();
    assert!(svg.contains("<title>") && svg.contains("prefers-color-scheme: dark"));
    let drawn = |node: &str| svg.lines().filter(|line| line.trim() == node).count();
    assert_eq!(drawn("node2"), svg.matches("#D55E00").count());
    assert!(drawn("node2") > 0 && drawn("node1") == 0);
}

#[test]
fn a_fleet_without_an_outlier_exits_with_0() {
    let output = Fleet::new(&[1000.0, 1010.0, 990.0]).compare(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("None of 3 nodes is an outlier"));
}

#[test]
fn the_tolerance_decides() {
    let fleet = Fleet::new(&[1000.0, 1000.0, 1500.0, 1000.0]);
    assert_eq!(fleet.compare(&[]).status.code(), Some(1));
    assert_eq!(fleet.compare(&["--tolerance", "49"]).status.code(), Some(1));
    assert_eq!(fleet.compare(&["--tolerance", "50"]).status.code(), Some(0));
}

#[test]
fn a_figure_that_a_node_lacks_is_counted_and_the_others_are_judged() {
    let mut fleet = Fleet::new(&[1000.0, 1000.0, 3000.0]);
    let mut record = STEADY.clone();
    record["testcases"] = json!([]);
    fleet.add("node3", record.to_string());
    let output = fleet.compare(&["--json", "out"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let result: Value =
        serde_json::from_str(&fs::read_to_string(fleet.path("out")).unwrap()).unwrap();
    assert_eq!(result["nodes"][3]["missing"], measured(&STEADY));
    assert_eq!(result["nodes"][2]["missing"], 0);
}

// ---- Bad input ----

/// One sentence, exit code 2, nothing printed and no file that was not there.
fn refused(fleet: &Fleet, arguments: &[&str], says: &str) {
    let before = fs::read_dir(&fleet.folder).unwrap().count();
    let output = fleet.compare(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{says}: {stderr}");
    assert!(stderr.contains(says), "{says}: {stderr}");
    let sentence = stderr.starts_with("c2c: ") && stderr.lines().count() == 1;
    assert!(sentence || stderr.starts_with("error: "), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        fs::read_dir(&fleet.folder).unwrap().count(),
        before,
        "{says}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let outputs = ["--json", "out", "--svg", "fleet.svg"];
    refused(&Fleet::new(&[]), &[], "required arguments");
    refused(
        &Fleet::new(&[1000.0]),
        &outputs,
        "at least 3 nodes, and here is 1",
    );
    refused(
        &Fleet::new(&[1000.0, 9000.0]),
        &outputs,
        "at least 3 nodes, and here is 2",
    );

    let steady = [1000.0; 3];
    for content in [
        "",
        "{",
        "null",
        "[1, 2]",
        "{\"format\": \"fio\"}",
        "size,ns",
    ] {
        let mut fleet = Fleet::new(&steady);
        fleet.add("bad", content);
        refused(&fleet, &outputs, "bad.json is no record");
    }
    let mut truncated = Fleet::new(&steady);
    let whole = STEADY.to_string();
    truncated.add("bad", &whole[..whole.len() / 2]);
    refused(&truncated, &outputs, "bad.json is no record");

    let mut absent = Fleet::new(&steady);
    absent.records.push("none.json".into());
    refused(&absent, &outputs, "reading none.json");

    let mut twice = Fleet::new(&steady);
    twice.records.push(twice.records[0].clone());
    refused(&twice, &outputs, "two records are called node0");

    let mut simulated = Fleet::new(&[]);
    for node in ["a", "b", "c"] {
        let mut record = STEADY.clone();
        for list in ["testcases", "ceilings"] {
            for figure in record[list].as_array_mut().unwrap() {
                figure["simulated"] = json!(true);
            }
        }
        simulated.add(node, record.to_string());
    }
    refused(&simulated, &outputs, "not simulated");

    for times in [[1e3, 1e3, 1e300], [1e-320, 1e-320, 1e3]] {
        refused(&Fleet::new(&times), &outputs, "node2 takes ");
    }

    let fleet = Fleet::new(&steady);
    for tolerance in ["-1", "NaN", "inf", "much"] {
        let tolerance = &format!("--tolerance={tolerance}");
        refused(&fleet, &[tolerance, "--svg", "fleet.svg"], "tolerance");
    }
    refused(&fleet, &["--json", "none/out"], "none/out");
    refused(
        &fleet,
        &["--json", "out", "--svg", "none/fleet.svg"],
        "none/fleet.svg",
    );
    refused(&fleet, &["--svg", "/"], "is a folder");
}
