//! Captured machines: each gives exactly the findings that it should, and a planted fault is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use doctor::capture::{Capture, Manifest};
use doctor::checks::CHECKS;
use doctor::report::{Report, Status};
use doctor::tree::Tree;
use doctor::{archive, capture};

/// A machine as the files in `trees/` describe it: the comment at the top names the source.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    finding: BTreeSet<String>,
    measure: BTreeSet<String>,
    manifest: Manifest,
    files: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees")
}

fn fixture(name: &str) -> Fixture {
    let path = folder().join(name).with_extension("toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("# "),
        "{name} does not say where it comes from"
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Fixture {
    fn capture(&self) -> Capture {
        Capture {
            manifest: self.manifest.clone(),
            files: self.files.clone(),
        }
    }

    fn report(&self) -> Report {
        Report::of(&Tree::new(self.capture()).unwrap())
    }

    /// The same machine after `change`.
    fn with(&self, change: impl Fn(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    fn file(self, path: &str, text: &str) -> Self {
        self.with(|it| {
            it.files.insert(path.to_owned(), text.to_owned());
        })
    }

    fn variable(self, name: &str, value: &str) -> Self {
        self.with(|it| {
            let environment = &mut it.manifest.environment;
            environment.insert(name.to_owned(), value.to_owned());
        })
    }
}

fn of(report: &Report, status: Status) -> BTreeSet<String> {
    let rows = report.checks.iter().filter(|row| row.status == status);
    rows.map(|row| row.check.clone()).collect()
}

fn status(report: &Report, check: &str) -> Status {
    let row = report.checks.iter().find(|row| row.check == check);
    row.unwrap_or_else(|| panic!("no check {check}")).status
}

#[test]
fn each_captured_machine_gives_its_findings_and_no_other() {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 13);
    let schema: serde_json::Value =
        serde_json::from_str(&fs::read_to_string("../../schemas/doctor.schema.json").unwrap())
            .unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in names {
        let fixture = fixture(&name);
        let report = fixture.report();
        assert_eq!(of(&report, Status::Finding), fixture.finding, "{name}");
        assert_eq!(of(&report, Status::Measure), fixture.measure, "{name}");
        assert_eq!(report.checks.len(), CHECKS.len(), "{name}");
        assert!(validator.is_valid(&serde_json::to_value(&report).unwrap()));

        // What can be read on a whole machine is read: WSL2 shows no driver under /proc.
        let unknown: Vec<&str> = match name.as_str() {
            "wsl2" => vec!["driver", "registration-limit"],
            _ => Vec::new(),
        };
        let unknown = unknown.into_iter().map(str::to_owned).collect();
        assert_eq!(of(&report, Status::Unknown), unknown, "{name}");

        // Through a tar file and through a folder it is the same machine.
        let scratch = tempfile::tempdir().unwrap();
        let tar = scratch.path().join("a.tar");
        fs::write(&tar, archive::pack(&fixture.capture()).unwrap()).unwrap();
        let read = archive::read(&tar).unwrap();
        assert_eq!(Report::of(&Tree::new(read).unwrap()), report, "{name}");
        let laid_out = scratch.path().join("laid-out");
        fs::create_dir(&laid_out).unwrap();
        tar::Archive::new(fs::File::open(&tar).unwrap())
            .unpack(&laid_out)
            .unwrap();
        let read = Capture::folder(&laid_out).unwrap();
        assert_eq!(Report::of(&Tree::new(read).unwrap()), report, "{name}");
    }
}

#[test]
fn each_check_finds_its_planted_fault() {
    let good = || fixture("gh200-64k");
    let none = |it: Fixture, file: &str| {
        it.with(|it| {
            it.files.remove(file);
        })
    };
    let device = |it: Fixture, change: &dyn Fn(&mut measure::machine::Device)| {
        it.with(|it| change(it.manifest.device.as_mut().unwrap()))
    };
    let other = |name: &str| fixture(name);
    use Status::{Finding, Measure};
    // The check, the machine without the fault, the same with it, and what it is called then.
    let planted = [
        (
            "c2c",
            good(),
            device(good(), &|it| it.uses_host_page_tables = Some(false)),
            Finding,
        ),
        ("coherent-mode", other("cdmm"), good(), Measure),
        (
            "wsl2",
            good(),
            good().file(
                "proc/sys/kernel/osrelease",
                "6.6.0-microsoft-standard-WSL2\n",
            ),
            Finding,
        ),
        (
            "registration-limit",
            other("gb10"),
            other("gb10").with(|it| {
                let meminfo = it.files.get_mut("proc/meminfo").unwrap();
                *meminfo = meminfo.replacen("MemTotal: 124780544", "MemTotal: 624780544", 1);
            }),
            Finding,
        ),
        (
            "driver",
            other("gb300").file("proc/driver/nvidia/version", "NVRM version: X  610.43.03\n"),
            other("gb300"),
            Finding,
        ),
        ("write-combined", other("h200-pcie"), good(), Measure),
        ("gpu-node", other("gb300"), other("remote-bound"), Finding),
        ("gpu-node", other("gb300"), other("gb200"), Measure),
        (
            "gpu-node",
            other("gb300"),
            other("gb300").with(|it| it.manifest.memory_policy = Some("bind:1".to_owned())),
            Finding,
        ),
        (
            "hbm-nodes",
            good(),
            good().with(|it| it.manifest.memory_policy = Some("bind:1".to_owned())),
            Finding,
        ),
        (
            "numa-balancing",
            good(),
            good().file("proc/sys/kernel/numa_balancing", "1\n"),
            Finding,
        ),
        (
            "numa-balancing",
            other("h200-pcie"),
            other("h200-pcie").file("proc/self/status", "Cpus_allowed_list:\t0-55\n"),
            Finding,
        ),
        (
            "page-size",
            good(),
            good().with(|it| it.manifest.page_bytes = 4096),
            Finding,
        ),
        (
            "huge-pages",
            none(good(), "sys/kernel/mm/transparent_hugepage/enabled"),
            good(),
            Measure,
        ),
        (
            "huge-pages-defrag",
            good(),
            good().file(
                "sys/kernel/mm/transparent_hugepage/defrag",
                "[always] never\n",
            ),
            Finding,
        ),
        (
            "hugetlb",
            good().file("proc/meminfo", &hugetlb(8, 4)),
            good().file("proc/meminfo", &hugetlb(8, 0)),
            Finding,
        ),
        (
            "fragmentation",
            good(),
            good().file("proc/vmstat", "compact_stall 40000\ncompact_fail 10000\n"),
            Finding,
        ),
        (
            "fragmentation",
            good(),
            good().file("proc/buddyinfo", "Node 0, zone Normal 99999 0 0 0 0 0\n"),
            Finding,
        ),
        (
            "compaction",
            good().file("proc/sys/vm/compaction_proactiveness", "0\n"),
            good(),
            Measure,
        ),
        (
            "compact-unevictable",
            good().file("proc/sys/vm/compact_unevictable_allowed", "0\n"),
            good(),
            Measure,
        ),
        (
            "init-on-alloc",
            good(),
            good().file("proc/cmdline", "init_on_alloc=0 init_on_alloc=1\n"),
            Finding,
        ),
        (
            "governor",
            good(),
            good().file(
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "ondemand\n",
            ),
            Finding,
        ),
        (
            "memlock",
            good(),
            good().file("proc/self/limits", "Max locked memory 65536 65536 bytes\n"),
            Finding,
        ),
        (
            "container-memory",
            good(),
            good().file("sys/fs/cgroup/memory.max", "1073741824\n"),
            Finding,
        ),
        (
            "container-processors",
            good(),
            good().file("sys/fs/cgroup/cpu.max", "100000 100000\n"),
            Finding,
        ),
        (
            "pytorch-settings",
            good(),
            good().variable("PYTORCH_ALLOC_CONF", "pinned_max_cached_size_mb:0"),
            Finding,
        ),
        (
            "pytorch-settings",
            good(),
            good().variable(
                "PYTORCH_CUDA_ALLOC_CONF",
                "expandable_segments:True,pinned_use_host_register:True",
            ),
            Finding,
        ),
        (
            "pytorch-settings",
            good(),
            good()
                .variable("PYTORCH_ALLOC_CONF", "a:1")
                .variable("PYTORCH_CUDA_ALLOC_CONF", "a:2"),
            Finding,
        ),
        (
            "malloc-settings",
            good(),
            good().variable("MALLOC_MMAP_THRESHOLD_", "1"),
            Finding,
        ),
        (
            "malloc-settings",
            good().variable("MIMALLOC_PURGE_DELAY", "-1"),
            good().variable("MIMALLOC_PURGE_DELAY", "0"),
            Finding,
        ),
    ];
    for (check, without, with, expected) in &planted {
        let found = status(&with.report(), check);
        assert_eq!(found, *expected, "{check} misses its fault");
        let calm = status(&without.report(), check);
        assert!(
            calm != Status::Finding && calm != *expected,
            "{check} finds what is not there: {calm:?}"
        );
    }
    let covered: BTreeSet<&str> = planted.iter().map(|(check, ..)| *check).collect();
    let all: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(covered, all);
}

fn hugetlb(total: u32, free: u32) -> String {
    let text = fixture("gh200-64k").files["proc/meminfo"].clone();
    text.replace("HugePages_Total: 0", &format!("HugePages_Total: {total}"))
        .replace("HugePages_Free: 0", &format!("HugePages_Free: {free}"))
}

#[test]
fn a_machine_of_which_nothing_is_known_has_no_finding() {
    let bare = fixture("gh200-64k").with(|it| {
        it.files.clear();
        it.manifest.device = None;
    });
    let report = bare.report();
    assert_eq!(of(&report, Status::Finding), BTreeSet::new());
    assert_eq!(of(&report, Status::Measure), BTreeSet::new());
    assert!(report.counts.unknown >= 4, "{}", report.render());
}

#[test]
fn memory_without_processors_is_no_binding() {
    let expander = fixture("h200-pcie")
        .file("sys/devices/system/node/node1/cpulist", "\n")
        .file("sys/devices/system/node/node0/cpulist", "0-111\n");
    let report = expander.report();
    assert_ne!(status(&report, "numa-balancing"), Status::Finding);
    assert_eq!(status(&report, "hbm-nodes"), Status::NotHere);
}

#[test]
fn nonsense_in_every_file_is_no_panic() {
    let nonsense = [
        "",
        "\n\n\n",
        "\u{1}] [ :: 99999999999999999999999 kB\n",
        "-1\n",
        "0-4294967295\n",
        "Node 0, zone Normal 18446744073709551615 18446744073709551615\n",
        "18446744073709551615 0\n",
        "Max locked memory\n",
        "NVRM version: 1.2\n",
        "NVRM version: 99999999999.1\n",
        "[always]\n",
    ];
    for text in nonsense {
        let spoilt = fixture("gb200").with(|it| {
            for content in it.files.values_mut() {
                *content = text.to_owned();
            }
        });
        assert_eq!(spoilt.report().checks.len(), CHECKS.len());
    }
}

#[test]
fn every_finding_says_what_to_do_and_who_says_so() {
    for check in CHECKS {
        assert!(
            !check.sources.is_empty() && check.why.ends_with('.'),
            "{}",
            check.id
        );
        for source in check.sources {
            assert!(source.url.starts_with("https://") && !source.date.is_empty());
        }
    }
}

#[test]
fn the_page_of_the_book_has_every_check_and_its_sources() {
    let page = fs::read_to_string("../../src/measure/doctor.md").unwrap();
    for check in CHECKS {
        assert!(
            page.contains(&format!("| `{}` |", check.id)),
            "{}",
            check.id
        );
        for source in check.sources {
            assert!(page.contains(source.url), "{}: {}", check.id, source.url);
        }
    }
}

#[test]
fn this_machine_says_the_same_live_and_captured() {
    let live = Capture::live(false).unwrap();
    assert_eq!(live.manifest.host_name, None);
    let packed = archive::pack(&live).unwrap();
    let scratch = tempfile::NamedTempFile::new().unwrap();
    fs::write(scratch.path(), &packed).unwrap();
    let read = archive::read(scratch.path()).unwrap();
    assert_eq!(read.files, live.files);
    let of_live = Report::of(&Tree::new(live).unwrap());
    assert_eq!(Report::of(&Tree::new(read).unwrap()), of_live);
    // A capture of the library's own making is what the library reads.
    assert!(capture::manifest("{}").is_err());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let text = String::from_utf8_lossy(&packed);
    // Split so that a path stays one word: a host may be called `vm`, as a folder under /proc/sys is.
    let words = text.split(|char: char| char.is_whitespace() || "\"'@():,=\0".contains(char));
    assert!(
        words
            .filter(|word| !word.is_empty())
            .all(|word| word != host.trim()),
        "the host is named"
    );
}
