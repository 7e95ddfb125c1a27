//! The record as a person reads it in a terminal.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::format::{bytes, digits, percent, seconds};
use crate::kind::Direction;
use crate::record::{Phase, Record, Status, Testcase};

/// Marks figures of the driver model wherever they stand.
pub const SIMULATED: &str = "simulated";

/// The phases are shown at the largest size up to this one, in bytes: every kind has it.
const SHOWN_BYTES: u64 = 64 << 20;

/// The machine, the tables, what was not measured and the verdict.
pub fn render(record: &Record) -> String {
    let mut text = format!("{}\n\n{}\n", machine(record), tables(record));
    for sentence in &record.verdict {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

/// The tables, and what was not measured.
pub fn tables(record: &Record) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Ceilings\n{}\n", ceilings(record));
    for direction in directions(record) {
        let cases: Vec<&Testcase> = of_direction(record, direction).collect();
        let simulated = if cases.iter().any(|case| case.simulated) {
            format!(" ({SIMULATED}: the link is the driver model's)")
        } else {
            String::new()
        };
        let title = direction.word().replace('_', " ");
        let _ = writeln!(
            text,
            "{title}{simulated}: GB/s by buffer size\n{}\n",
            sizes(&cases)
        );
        if let Some(size) = shown_size(&cases) {
            let _ = writeln!(
                text,
                "{title}{simulated}: one buffer of {}, the middle pass\n{}\n",
                bytes(size),
                phases(&cases, size)
            );
        }
    }
    text.push_str(&not_measured(record));
    let counts = record.counts;
    let _ = writeln!(
        text,
        "{} passed, {} of them {SIMULATED}; {} waived; {} failed",
        counts.passed, counts.simulated, counts.waived, counts.failed
    );
    text
}

/// One line that names the machine.
pub fn machine(record: &Record) -> String {
    let machine = &record.machine;
    let unknown = || "unknown".to_owned();
    let device = match (&machine.device, &machine.no_device_because) {
        (Some(device), _) => format!("{} ({})", device.name, device.driver),
        (None, Some(reason)) => format!("no device: {reason}"),
        (None, None) => "no device".to_owned(),
    };
    let load = machine
        .load_average
        .map_or_else(unknown, |load| format!("{:.2}", load[0]));
    format!(
        "{}{}, {} threads, Linux {}, pages of {}, THP {}, load {load}; {device}; {}",
        machine.cpu.clone().unwrap_or_else(unknown),
        if machine.virtual_machine == Some(true) {
            " (virtual machine)"
        } else {
            ""
        },
        machine.threads,
        machine.kernel.clone().unwrap_or_else(unknown),
        bytes(machine.page_bytes),
        machine.thp.clone().unwrap_or_else(unknown),
        record.date,
    )
}

fn directions(record: &Record) -> BTreeSet<Direction> {
    let passed = record
        .testcases
        .iter()
        .filter(|case| case.figures.is_some());
    passed.map(|case| case.direction).collect()
}

fn of_direction(record: &Record, direction: Direction) -> impl Iterator<Item = &Testcase> {
    let is_it = move |case: &&Testcase| case.direction == direction && case.figures.is_some();
    record.testcases.iter().filter(is_it)
}

/// The size whose phases are shown.
pub fn shown_size(cases: &[&Testcase]) -> Option<u64> {
    let sizes = cases.iter().map(|case| case.buffer_bytes);
    sizes.filter(|&size| size <= SHOWN_BYTES).max()
}

/// The name of a case without its direction.
pub fn short_name(case: &Testcase) -> String {
    let (_, name) = case.name.split_once('/').unwrap_or(("", &case.name));
    name.replace(['_', '/'], " ")
}

/// An empty table: the first column to the left, all others to the right.
pub fn table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    let columns = header.len();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn ceilings(record: &Record) -> Table {
    let header = ["ceiling", "threads", "buffer", "GB/s", "spread"];
    let mut table = table(header.map(str::to_owned).into());
    for ceiling in &record.ceilings {
        let simulated = if ceiling.simulated {
            format!(" ({SIMULATED})")
        } else {
            String::new()
        };
        let (median, spread) = match &ceiling.gb_per_s {
            Some(summary) => (
                digits(summary.median),
                percent(summary.iqr / summary.median),
            ),
            None => ("waived".to_owned(), String::new()),
        };
        table.add_row(vec![
            format!("{}{simulated}", ceiling.name),
            ceiling.threads.to_string(),
            bytes(ceiling.buffer_bytes),
            median,
            spread,
        ]);
    }
    table
}

fn sizes(cases: &[&Testcase]) -> Table {
    let sizes: BTreeSet<u64> = cases.iter().map(|case| case.buffer_bytes).collect();
    let mut header = vec!["memory".to_owned()];
    header.extend(sizes.iter().map(|&size| bytes(size)));
    let mut table = table(header);
    for name in names(cases) {
        let cell = |&size: &u64| {
            let is_it = |case: &&&Testcase| case.buffer_bytes == size && short_name(case) == name;
            let figures = cases
                .iter()
                .find(is_it)
                .and_then(|case| case.figures.as_ref());
            figures.map_or_else(String::new, |figures| digits(figures.gb_per_s.median))
        };
        let mut row = vec![name.clone()];
        row.extend(sizes.iter().map(cell));
        table.add_row(row);
    }
    table
}

/// The names of the cases in the order of the record, each once.
pub fn names(cases: &[&Testcase]) -> Vec<String> {
    let mut names = Vec::new();
    for case in cases {
        let name = short_name(case);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn phases(cases: &[&Testcase], size: u64) -> Table {
    let mut header = vec!["memory".to_owned()];
    header.extend(Phase::ALL.map(|phase| phase.word().to_owned()));
    header.extend(["total", "spread", "minor faults", "nodes"].map(str::to_owned));
    let mut table = table(header);
    for case in cases.iter().filter(|case| case.buffer_bytes == size) {
        let Some(figures) = &case.figures else {
            continue;
        };
        let mut row = vec![short_name(case)];
        row.extend(Phase::ALL.map(|phase| {
            let figures = figures.phases.get(&phase);
            figures.map_or_else(String::new, |figures| seconds(figures.ns))
        }));
        row.push(seconds(figures.total_ns.median));
        row.push(percent(figures.total_ns.iqr / figures.total_ns.median));
        row.push(format!("{:.0}", figures.minor_faults.median));
        let nodes = figures.pages_on_nodes.iter().flatten();
        row.push(
            nodes
                .map(|(node, _)| node.as_str())
                .collect::<Vec<_>>()
                .join(" "),
        );
        table.add_row(row);
    }
    table
}

/// One line for each reason, with what it concerns.
fn not_measured(record: &Record) -> String {
    let mut text = String::new();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for case in &record.testcases {
        if let (Status::Waived | Status::Failed, Some(reason)) = (case.status, &case.reason) {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(&case.name),
                None => reasons.push((reason, vec![&case.name])),
            }
        }
    }
    for (reason, names) in reasons {
        let more = match names.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let _ = writeln!(text, "not measured: {}{more}: {reason}", names[0]);
    }
    text
}
