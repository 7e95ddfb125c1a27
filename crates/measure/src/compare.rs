//! Two records beside each other, and one against its baseline.

use std::fmt::Write;

use anyhow::{ensure, Result};

use crate::format::{bytes, seconds};
use crate::record::{Figures, Record};
use crate::table;

/// The same case in two records.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The name of the case.
    pub name: &'a str,
    /// The size of its buffer in bytes.
    pub buffer_bytes: u64,
    /// Its figures in the first record.
    pub before: &'a Figures,
    /// Its figures in the second record.
    pub after: &'a Figures,
}

impl Change<'_> {
    /// The total time of the second, as a multiple of the first one's.
    pub fn ratio(&self) -> f64 {
        self.after.total_ns.median / self.before.total_ns.median
    }

    /// Whether the second is slower: its median is above the first one's median by more than
    /// `tolerance`, a share, and above the first one's slowest pass.
    pub fn is_slower(&self, tolerance: f64) -> bool {
        let median = self.after.total_ns.median;
        let before = &self.before.total_ns;
        median > before.median * (1.0 + tolerance) && median > before.max
    }
}

/// The cases that both records measured, in the order of the first. Simulated ones are left out.
///
/// # Errors
/// When there is none.
pub fn changes<'a>(before: &'a Record, after: &'a Record) -> Result<Vec<Change<'a>>> {
    let real = before.testcases.iter().filter(|case| !case.simulated);
    let change = |case: &'a crate::record::Testcase| {
        let (name, size) = (case.name.as_str(), case.buffer_bytes);
        Some(Change {
            name,
            buffer_bytes: size,
            before: case.figures.as_ref()?,
            after: after.figures(name, size)?,
        })
    };
    let changes: Vec<_> = real.filter_map(change).collect();
    ensure!(
        !changes.is_empty(),
        "the two records have no measured case in common"
    );
    Ok(changes)
}

/// Both machines, what differs between them, and a table of the cases.
///
/// # Errors
/// When the records have no case in common.
pub fn render(before: &Record, after: &Record) -> Result<String> {
    let changes = changes(before, after)?;
    let mut text = format!(
        "a: {}\nb: {}\n",
        table::machine(before),
        table::machine(after)
    );
    let (other, setting) = (
        before.machine.is_other_than(&after.machine),
        before.machine.set_up_other_than(&after.machine),
    );
    for difference in other.iter().chain(&setting) {
        let difference = difference
            .replace(" here,", " in a,")
            .replace(" there", " in b");
        let _ = writeln!(text, "{difference}");
    }
    let mut table = table::table(
        ["case", "buffer", "a", "b", "b / a"]
            .map(str::to_owned)
            .into(),
    );
    for change in &changes {
        table.add_row(vec![
            change.name.to_owned(),
            bytes(change.buffer_bytes),
            seconds(change.before.total_ns.median),
            seconds(change.after.total_ns.median),
            format!("{:.2}", change.ratio()),
        ]);
    }
    let _ = writeln!(text, "{table}");
    Ok(text)
}

/// One sentence for each case that is slower than in the baseline by more than `tolerance`.
///
/// # Errors
/// When the records have no case in common.
pub fn slower(baseline: &Record, record: &Record, tolerance: f64) -> Result<Vec<String>> {
    let changes = changes(baseline, record)?;
    let slower = changes.iter().filter(|change| change.is_slower(tolerance));
    let sentence = |change: &Change| {
        format!(
            "{} of {} takes {}, {:.2} times the {} of the baseline",
            change.name,
            bytes(change.buffer_bytes),
            seconds(change.after.total_ns.median),
            change.ratio(),
            seconds(change.before.total_ns.median)
        )
    };
    Ok(slower.map(sentence).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Direction;
    use crate::record::fixture;

    fn record(ns: f64) -> Record {
        let case = fixture::case(Direction::HostToHost, "reused_pageable", ns, 0.0);
        fixture::record(vec![case])
    }

    #[test]
    fn slower_is_beyond_the_tolerance_and_beyond_every_pass() {
        let count = |before: &Record, ns| slower(before, &record(ns), 0.25).map(|it| it.len());
        let steady = record(100.0);
        assert_eq!(count(&steady, 125.0).unwrap(), 0);
        assert_eq!(count(&steady, 126.0).unwrap(), 1);
        assert_eq!(count(&steady, 50.0).unwrap(), 0);
        let mut unsteady = record(100.0);
        if let Some(figures) = &mut unsteady.testcases[0].figures {
            figures.total_ns.max = 150.0;
        }
        assert_eq!(count(&unsteady, 126.0).unwrap(), 0);
        assert_eq!(count(&unsteady, 151.0).unwrap(), 1);
    }

    #[test]
    fn simulated_cases_and_strangers_are_not_compared() {
        let mut simulated = record(100.0);
        simulated.testcases[0].simulated = true;
        assert!(slower(&simulated, &record(900.0), 0.25).is_err());
        assert!(changes(&record(1.0), &fixture::record(Vec::new())).is_err());
    }

    #[test]
    fn the_ratio_is_the_second_over_the_first() {
        let text = render(&record(100.0), &record(250.0)).unwrap();
        assert!(text.contains(" 2.50 "), "{text}");
    }
}
