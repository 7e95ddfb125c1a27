//! The record of a run: what `--json` writes, and what comparisons read.
//!
//! `schemas/measure.schema.json` is generated from these types. Where a key means the same as in
//! nvbandwidth's JSON it has the same name: `testcases`, `name`, `status`,
//! `bandwidth_description`, `bandwidth_matrix`, `sum`, `testSamples`, `useMean`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Allocator, Direction};
use crate::machine::Machine;
use crate::stats::Summary;

/// What `format` says in every record.
pub const FORMAT: &str = "c2c measure";
/// The version of the format; it changes when a key changes its meaning or goes away.
pub const VERSION: u32 = 1;
/// A record is a few hundred KiB; a file beyond this many bytes is something else.
const LARGEST_FILE: u64 = 64 << 20;

/// A run of `c2c measure`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Always `c2c measure`.
    pub format: String,
    /// The version of this format.
    pub format_version: u32,
    /// The version of the program.
    pub tool_version: String,
    /// When the run began: UTC, RFC 3339, to the second.
    pub date: String,
    /// Whether the run was interrupted, so that cases are missing.
    pub interrupted: bool,
    /// Where the run was.
    pub machine: Machine,
    /// How it was measured.
    pub method: Method,
    /// How many cases came to which end.
    pub counts: Counts,
    /// The result in sentences; simulated figures are left out of it.
    pub verdict: Vec<String>,
    /// What the machine reaches at best, measured in the same run.
    pub ceilings: Vec<Ceiling>,
    /// What was measured, in the order in which it was measured.
    pub testcases: Vec<Testcase>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// The clock of all durations.
    pub clock: String,
    /// Which passes are made, and what a figure is.
    pub passes: String,
    /// How the data is verified.
    pub verification: String,
    /// Which counters are whose.
    pub counters: String,
    /// The largest buffer in bytes.
    pub largest_bytes: u64,
}

/// How many cases came to which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Measured on real hardware, with the right data.
    pub passed: usize,
    /// Not measured, because the machine lacks something.
    pub waived: usize,
    /// The data was wrong, or a call failed.
    pub failed: usize,
    /// How many of the passed ones went over the link of the driver model, which is not real.
    pub simulated: usize,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was measured and the data was right.
    Passed,
    /// The machine lacks something; `reason` says what.
    Waived,
    /// The data was wrong, or a call failed; `reason` says which.
    Failed,
}

/// A figure that the others are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// What was run; the link's ceilings have nvbandwidth's names.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Why it was waived or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which bytes are counted, over which time.
    pub bandwidth_description: String,
    /// Whether the link is the driver model's, so that the figure says nothing about hardware.
    pub simulated: bool,
    /// How many threads worked.
    pub threads: usize,
    /// The size of one array in bytes.
    pub buffer_bytes: u64,
    /// How many timed passes there were.
    #[serde(rename = "testSamples")]
    pub test_samples: usize,
    /// Always false: figures are medians.
    #[serde(rename = "useMean")]
    pub use_mean: bool,
    /// The link's ceilings as nvbandwidth writes them: one row, one device, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_matrix: Option<Vec<Vec<String>>>,
    /// The sum of the matrix, or the one figure, in GB/s of 10^9 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
    /// GB/s of 10^9 bytes over the passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<Summary>,
}

/// A case: one kind of memory, one way, one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Testcase {
    /// Direction, kind and variant; with `buffer_bytes` it is unique in the record.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Why it was waived or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the bandwidth is the quotient of.
    pub bandwidth_description: String,
    /// Whether the link is the driver model's, so that no duration says anything about hardware.
    pub simulated: bool,
    /// Which way the bytes go.
    pub direction: Direction,
    /// The kind of host memory.
    pub kind: String,
    /// Where fresh pageable memory comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Allocator>,
    /// How many threads touch the memory before the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The NUMA node that the memory is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// How many streams share the copy.
    pub streams: usize,
    /// The size of a buffer in bytes.
    pub buffer_bytes: u64,
    /// How many buffers a pass handles; durations and faults are those of one buffer.
    pub buffers_per_pass: usize,
    /// How many timed passes there were.
    #[serde(rename = "testSamples")]
    pub test_samples: usize,
    /// Always false: figures are medians.
    #[serde(rename = "useMean")]
    pub use_mean: bool,
    /// The figures, unless the case was waived or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// What the timed passes of a case show, for one buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// GB/s of 10^9 bytes: the bytes of a buffer over the total time.
    pub gb_per_s: Summary,
    /// Nanoseconds from the first call to the last, by a clock of its own.
    pub total_ns: Summary,
    /// Each phase that the case has.
    pub phases: BTreeMap<Phase, PhaseFigures>,
    /// The difference between the total of the middle pass and the sum of its phases, as a share of
    /// the total.
    pub unaccounted_share: f64,
    /// The total of the untimed first pass, in nanoseconds.
    pub warm_up_ns: f64,
    /// Minor page faults of this process in a pass, for one buffer.
    pub minor_faults: Summary,
    /// Major page faults of this process in a pass, for one buffer.
    pub major_faults: Summary,
    /// By how much the machine's counters grew over all timed passes; null where they cannot be
    /// read. Other processes count, too.
    pub vmstat: Option<BTreeMap<String, i64>>,
    /// How many of the looked-up pages lie on which NUMA node; null where the kernel does not say.
    pub pages_on_nodes: Option<BTreeMap<String, u64>>,
}

/// A part of a pass.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The calls that give the memory.
    Allocate,
    /// Writing to every page, or filling the source of an upload.
    Touch,
    /// Registering it with CUDA.
    Register,
    /// The copy, until the host knows that it is complete.
    Copy,
    /// Unregistering and freeing.
    Free,
}

impl Phase {
    /// All of them, in the order of a pass.
    pub const ALL: [Self; 5] = [
        Self::Allocate,
        Self::Touch,
        Self::Register,
        Self::Copy,
        Self::Free,
    ];

    /// The word that the record uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Touch => "touch",
            Self::Register => "register",
            Self::Copy => "copy",
            Self::Free => "free",
        }
    }
}

/// What a phase took, for one buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseFigures {
    /// Nanoseconds in the middle pass, the one whose total is the median: the phases of one pass
    /// add up to its total, medians of phases do not.
    pub ns: f64,
    /// Nanoseconds over all timed passes.
    pub over_passes: Summary,
    /// Minor page faults, the median of the passes.
    pub minor_faults: f64,
}

impl Record {
    /// Reads a record that `c2c measure --json` wrote.
    ///
    /// # Errors
    /// When the file cannot be read, or is no record, or one of another version of the format.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("reading {name}"))?;
        let about = file.metadata().with_context(|| format!("reading {name}"))?;
        ensure!(about.is_file(), "{name} is not a file");
        ensure!(
            about.len() <= LARGEST_FILE,
            "{name} is no record of `c2c measure --json`: it is larger than {} MiB",
            LARGEST_FILE >> 20
        );
        let mut text = String::new();
        file.take(LARGEST_FILE)
            .read_to_string(&mut text)
            .with_context(|| format!("reading {name}"))?;
        Self::parse(&text).with_context(|| format!("{name} is no record of `c2c measure --json`"))
    }

    fn parse(text: &str) -> Result<Self> {
        let head: Head = serde_json::from_str(text)?;
        ensure!(
            head.format.as_deref() == Some(FORMAT),
            "its `format` is not \"{FORMAT}\""
        );
        if head.format_version != Some(VERSION) {
            bail!("its `format_version` is not {VERSION}; measure again with this c2c");
        }
        let record: Self = serde_json::from_str(text)?;
        for case in &record.testcases {
            case.check()
                .with_context(|| format!("case {}", case.name))?;
        }
        Ok(record)
    }

    /// The case with this name and size, if it has figures.
    pub fn figures(&self, name: &str, bytes: u64) -> Option<&Figures> {
        let is_it = |case: &&Testcase| case.name == name && case.buffer_bytes == bytes;
        self.testcases.iter().find(is_it)?.figures.as_ref()
    }

    /// How many cases came to which end.
    pub fn count(testcases: &[Testcase]) -> Counts {
        let count = |status| {
            testcases
                .iter()
                .filter(|case| case.status == status)
                .count()
        };
        let simulated = |case: &&Testcase| case.simulated && case.status == Status::Passed;
        Counts {
            passed: count(Status::Passed),
            waived: count(Status::Waived),
            failed: count(Status::Failed),
            simulated: testcases.iter().filter(simulated).count(),
        }
    }
}

impl Testcase {
    /// What a comparison divides by must be a duration.
    fn check(&self) -> Result<()> {
        ensure!(
            (self.status == Status::Passed) == self.figures.is_some(),
            "figures belong to a passed case, and only to one"
        );
        if let Some(figures) = &self.figures {
            ensure!(figures.total_ns.median > 0.0, "`total_ns` must be positive");
        }
        Ok(())
    }
}

/// What is read first, so that a foreign file is called foreign and not incomplete.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    format_version: Option<u32>,
}

/// Records for the tests of what is made of them.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    fn always(value: f64) -> Summary {
        Summary {
            median: value,
            min: value,
            max: value,
            iqr: 0.0,
        }
    }

    /// A case of 64 MiB whose passes all took `ns`, and of which the first touch took `touch_ns`.
    pub fn case(direction: Direction, kind: &str, ns: f64, touch_ns: f64) -> Testcase {
        let phase = |ns| PhaseFigures {
            ns,
            over_passes: always(ns),
            minor_faults: 0.0,
        };
        Testcase {
            name: format!("{}/{kind}", direction.word()),
            status: Status::Passed,
            reason: None,
            bandwidth_description: String::new(),
            simulated: false,
            direction,
            kind: kind.to_owned(),
            allocator: None,
            threads: None,
            node: None,
            streams: 1,
            buffer_bytes: 64 << 20,
            buffers_per_pass: 1,
            test_samples: 3,
            use_mean: false,
            figures: Some(Figures {
                gb_per_s: always(1.0),
                total_ns: always(ns),
                phases: BTreeMap::from([
                    (Phase::Touch, phase(touch_ns)),
                    (Phase::Copy, phase(ns - touch_ns)),
                ]),
                unaccounted_share: 0.0,
                warm_up_ns: ns,
                minor_faults: always(16384.0),
                major_faults: always(0.0),
                vmstat: None,
                pages_on_nodes: None,
            }),
        }
    }

    /// A ceiling of 256 MiB and one thread whose passes all reached `gb_per_s`.
    pub fn ceiling(name: &str, gb_per_s: f64) -> Ceiling {
        Ceiling {
            name: name.to_owned(),
            status: Status::Passed,
            reason: None,
            bandwidth_description: String::new(),
            simulated: false,
            threads: 1,
            buffer_bytes: 256 << 20,
            test_samples: 3,
            use_mean: false,
            bandwidth_matrix: None,
            sum: Some(gb_per_s),
            gb_per_s: Some(always(gb_per_s)),
        }
    }

    /// A record of these cases.
    pub fn record(testcases: Vec<Testcase>) -> Record {
        Record {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            tool_version: "0".to_owned(),
            date: "2026-11-30T00:00:00Z".to_owned(),
            interrupted: false,
            machine: Machine::default(),
            method: Method {
                clock: String::new(),
                passes: String::new(),
                verification: String::new(),
                counters: String::new(),
                largest_bytes: 64 << 20,
            },
            counts: Record::count(&testcases),
            verdict: Vec::new(),
            ceilings: Vec::new(),
            testcases,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let case = fixture::case(Direction::HostToHost, "reused_pageable", 5.0, 1.0);
        let text = serde_json::to_string(&fixture::record(vec![case.clone()])).unwrap();
        assert_eq!(Record::parse(&text).unwrap().testcases, [case]);
    }

    /// Where the published schema lies, from this crate.
    const PUBLISHED: &str = "../../schemas/measure.schema.json";

    /// `MEASURE_SCHEMA=write cargo test -p measure` writes it anew.
    #[test]
    fn the_published_schema_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PUBLISHED);
        let schema = schemars::schema_for!(Record);
        let current = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("MEASURE_SCHEMA").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &current).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == current,
            "MEASURE_SCHEMA=write cargo test -p measure"
        );
    }
}
