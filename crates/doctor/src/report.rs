//! A diagnosis: what `--json` writes and what a person reads.
//!
//! `schemas/doctor.schema.json` is generated from these types.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::{Answer, CHECKS};
use crate::tree::Tree;

/// What `format` says in every diagnosis.
pub const FORMAT: &str = "c2c doctor";
/// The version of the format; it changes when a key changes its meaning or goes away.
pub const VERSION: u32 = 1;
/// The table's width in characters; the evidence is broken into lines.
const WIDTH: u16 = 100;

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Something costs time or fails, and there is a fix: `c2c doctor` exits with 1.
    Finding,
    /// Sources disagree, or nobody has measured it: measure it here.
    Measure,
    /// It could not be read.
    Unknown,
    /// As it should be.
    Fine,
    /// It does not matter on this machine.
    NotHere,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Finding => "FINDING",
            Self::Measure => "measure",
            Self::Unknown => "unknown",
            Self::Fine => "fine",
            Self::NotHere => "not here",
        }
    }
}

/// Where a claim comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Who says it.
    pub title: String,
    /// Where.
    pub url: String,
    /// When it was written, or read.
    pub date: String,
}

/// One check and what it saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The check's name, which stays.
    pub check: String,
    /// What came of it.
    pub status: Status,
    /// What was seen on this machine.
    pub evidence: String,
    /// Why it matters for a copy.
    pub why: String,
    /// What to do; null where there is nothing to do.
    pub fix: Option<String>,
    /// Where that comes from.
    pub sources: Vec<Reference>,
}

/// How many checks came to which status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Findings.
    pub finding: usize,
    /// Things to measure here.
    pub measure: usize,
    /// What could not be read.
    pub unknown: usize,
    /// As it should be.
    pub fine: usize,
    /// What does not matter here.
    pub not_here: usize,
}

/// A whole diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Always `c2c doctor`.
    pub format: String,
    /// The version of this format.
    pub format_version: u32,
    /// The version of the program.
    pub tool_version: String,
    /// When the machine was looked at: UTC, RFC 3339, to the second.
    pub date: String,
    /// The machine's name, if the capture was asked to keep it.
    pub host_name: Option<String>,
    /// The processor, the kernel and the device in one line.
    pub machine: String,
    /// How many checks came to which status.
    pub counts: Counts,
    /// Every check, the findings first.
    pub checks: Vec<Row>,
}

impl Report {
    /// Makes every check on a machine.
    pub fn of(tree: &Tree) -> Self {
        let mut rows: Vec<Row> = CHECKS
            .iter()
            .map(|check| {
                let (status, evidence, fix) = match (check.look)(tree) {
                    Answer::Finding { evidence, fix } => (Status::Finding, evidence, Some(fix)),
                    Answer::Measure { evidence, fix } => (Status::Measure, evidence, Some(fix)),
                    Answer::Unknown(evidence) => (Status::Unknown, evidence, None),
                    Answer::Fine(evidence) => (Status::Fine, evidence, None),
                    Answer::NotHere(evidence) => (Status::NotHere, evidence, None),
                };
                let reference = |source: &crate::sources::Source| Reference {
                    title: source.title.to_owned(),
                    url: source.url.to_owned(),
                    date: source.date.to_owned(),
                };
                Row {
                    check: check.id.to_owned(),
                    status,
                    evidence,
                    why: check.why.to_owned(),
                    fix,
                    sources: check.sources.iter().copied().map(reference).collect(),
                }
            })
            .collect();
        rows.sort_by_key(|row| row.status as u8);
        let count = |status| rows.iter().filter(|row| row.status == status).count();
        Self {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: tree.manifest.date.clone(),
            host_name: tree.manifest.host_name.clone(),
            machine: machine(tree),
            counts: Counts {
                finding: count(Status::Finding),
                measure: count(Status::Measure),
                unknown: count(Status::Unknown),
                fine: count(Status::Fine),
                not_here: count(Status::NotHere),
            },
            checks: rows,
        }
    }

    /// The diagnosis as a person reads it: the table, then what to do.
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(["", "check", "what is here"]);
        for row in &self.checks {
            table.add_row([row.status.word(), &row.check, &row.evidence]);
        }
        let mut text = format!("{}\n\n{table}\n", self.machine);
        for row in &self.checks {
            let Some(fix) = &row.fix else { continue };
            let _ = write!(
                text,
                "\n{}: {}\n  Here: {}\n  Why:  {}\n  Do:   {fix}\n",
                row.check,
                row.status.word(),
                row.evidence,
                row.why
            );
            for source in &row.sources {
                let _ = writeln!(
                    text,
                    "  From: {}, {}: {}",
                    source.title, source.date, source.url
                );
            }
        }
        let counts = self.counts;
        let _ = writeln!(
            text,
            "\n{} findings, {} to measure, {} unknown, {} fine, {} not here",
            counts.finding, counts.measure, counts.unknown, counts.fine, counts.not_here
        );
        printable(&text)
    }
}

/// A capture may come from anybody: nothing in it may command the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|&char| char == '\n' || !char.is_control())
        .collect()
}

fn machine(tree: &Tree) -> String {
    let machine = &tree.machine;
    let unknown = || "unknown".to_owned();
    let device = match (&machine.device, &machine.no_device_because) {
        (Some(device), _) => format!("{} ({})", device.name, device.driver),
        (None, Some(reason)) => format!("no device: {reason}"),
        (None, None) => "no device".to_owned(),
    };
    format!(
        "{} ({}), Linux {}, pages of {} bytes; {device}",
        machine.cpu.clone().unwrap_or_else(unknown),
        machine.architecture,
        machine.kernel.clone().unwrap_or_else(unknown),
        machine.page_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the published schema lies, from this crate.
    const PUBLISHED: &str = "../../schemas/doctor.schema.json";

    /// `DOCTOR_SCHEMA=write cargo test -p doctor` writes it anew.
    #[test]
    fn the_published_schema_is_current() {
        let schema = schemars::schema_for!(Report);
        let current = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("DOCTOR_SCHEMA").is_some() {
            std::fs::write(PUBLISHED, &current).unwrap();
        }
        let published = std::fs::read_to_string(PUBLISHED).unwrap_or_default();
        assert!(
            published == current,
            "DOCTOR_SCHEMA=write cargo test -p doctor"
        );
    }

    #[test]
    fn a_capture_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a[2Jb\nc");
    }
}
