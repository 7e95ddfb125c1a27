//! The result of a comparison: a table of nodes, a table of outliers, a sentence; and JSON.
//!
//! `schemas/compare.schema.json` is generated from these types.

use std::fmt::Write;

use anyhow::{bail, ensure, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::rule::{judge, Figure, Key, LEAST_NODES};
use super::Fleet;
use crate::format::{bytes, percent, seconds};
use crate::table;

/// What `format` says in every comparison.
const FORMAT: &str = "c2c compare";
/// The version of the format; it changes when a key changes its meaning or goes away.
const VERSION: u32 = 1;

/// A node that takes this many times the median was not measured: a record is damaged.
const MOST_TIMES: f64 = 1e9;

/// A comparison of the nodes of a fleet.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Always `c2c compare`.
    pub format: String,
    /// The version of this format.
    pub format_version: u32,
    /// How much slower than the median a figure may be, as a share.
    pub tolerance: f64,
    /// The result in a sentence.
    pub verdict: String,
    /// The nodes, by their names.
    pub nodes: Vec<Node>,
    /// The figures that at least three nodes have.
    pub figures: Vec<Figure>,
}

/// A node: a record.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What its file is called, without the ending.
    pub name: String,
    /// How many of its figures could be compared.
    pub compared: usize,
    /// How many figures of the fleet it does not have.
    pub missing: usize,
    /// In how many figures it is an outlier.
    pub outliers: usize,
    /// How many of its cases failed: wrong data, or a call that failed.
    pub failed: usize,
    /// In which respects it is another machine, or set up in another way, than the first node.
    pub differs: Vec<String>,
}

impl Node {
    fn is_named(&self) -> bool {
        self.outliers > 0 || self.failed > 0
    }
}

impl Report {
    /// Judges the fleet; `tolerance` is a share.
    ///
    /// # Errors
    /// When there are fewer than three nodes, or no figure that three of them have, or
    /// one that is no duration.
    pub fn of(fleet: &Fleet, tolerance: f64) -> Result<Self> {
        ensure!(
            fleet.len() >= LEAST_NODES,
            "an outlier needs the records of at least {LEAST_NODES} nodes, and here is {}; `c2c measure --compare` shows two beside each other",
            fleet.len()
        );
        let figures = judge(fleet, tolerance);
        ensure!(
            !figures.is_empty(),
            "no {LEAST_NODES} of the records have a figure in common that is not simulated"
        );
        for figure in &figures {
            let absurd = figure.nodes.iter().find(|(_, times)| **times > MOST_TIMES);
            if let Some((node, times)) = absurd {
                bail!(
                    "{node} takes {times:e} times the median in {}; that is no duration, so measure it again",
                    label(&figure.key)
                );
            }
        }
        let nodes = nodes(fleet, &figures);
        Ok(Self {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            tolerance,
            verdict: verdict(&nodes, &figures, tolerance),
            nodes,
            figures,
        })
    }

    /// Whether a node is named.
    pub fn has_outlier(&self) -> bool {
        self.nodes.iter().any(Node::is_named)
    }

    /// The tables and the sentence.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for node in self.nodes.iter().filter(|node| !node.differs.is_empty()) {
            let _ = writeln!(text, "{}: {}", node.name, node.differs.join("; "));
        }
        let _ = writeln!(text, "{}\n", self.table_of_nodes());
        if self.nodes.iter().any(|node| node.outliers > 0) {
            let _ = writeln!(text, "{}\n", self.table_of_outliers());
        }
        let _ = writeln!(text, "{}", self.verdict);
        text
    }

    fn table_of_nodes(&self) -> comfy_table::Table {
        let header = ["node", "compared", "missing", "outliers", "failed"];
        let mut table = table::table(header.map(str::to_owned).into());
        for node in &self.nodes {
            table.add_row(vec![
                node.name.clone(),
                node.compared.to_string(),
                node.missing.to_string(),
                node.outliers.to_string(),
                node.failed.to_string(),
            ]);
        }
        table
    }

    fn table_of_outliers(&self) -> comfy_table::Table {
        let header = ["figure", "node", "takes", "median", "times"];
        let mut table = table::table(header.map(str::to_owned).into());
        for figure in &self.figures {
            for outlier in &figure.outliers {
                table.add_row(vec![
                    label(&figure.key),
                    outlier.node.clone(),
                    seconds(outlier.times_median * figure.median_ns),
                    seconds(figure.median_ns),
                    format!("{:.2}", outlier.times_median),
                ]);
            }
        }
        table
    }
}

/// What a figure is called in tables and plots.
pub(super) fn label(key: &Key) -> String {
    let size = bytes(key.buffer_bytes);
    match key.threads {
        None => format!("{} of {size}", key.name),
        Some(1) => format!("{} of 1 GB, 1 thread", key.name),
        Some(threads) => format!("{} of 1 GB, {threads} threads", key.name),
    }
}

fn nodes(fleet: &Fleet, figures: &[Figure]) -> Vec<Node> {
    let first = fleet.iter().next();
    let count = |is_it: &dyn Fn(&Figure) -> bool| figures.iter().filter(|it| is_it(it)).count();
    let node = |(name, record): (&String, &crate::record::Record)| {
        let compared = count(&|figure| figure.nodes.contains_key(name));
        let differs = first.map_or_else(Vec::new, |(first_name, first)| {
            let machine = record.machine.is_other_than(&first.machine);
            let setting = record.machine.set_up_other_than(&first.machine);
            let of_both = machine.into_iter().chain(setting);
            of_both
                .map(|it| it.replace(" there", &format!(" on {first_name}")))
                .collect()
        });
        Node {
            name: name.clone(),
            compared,
            missing: figures.len() - compared,
            outliers: count(&|figure| figure.outliers.iter().any(|it| it.node == *name)),
            failed: record.counts.failed,
            differs,
        }
    };
    fleet.iter().map(node).collect()
}

fn verdict(nodes: &[Node], figures: &[Figure], tolerance: f64) -> String {
    let mut named: Vec<&Node> = nodes.iter().filter(|node| node.is_named()).collect();
    // The first one is the one to look at first.
    named.sort_by_key(|node| std::cmp::Reverse(node.outliers));
    let compared = match figures.len() {
        1 => "1 figure".to_owned(),
        count => format!("{count} figures"),
    };
    if named.is_empty() {
        return format!(
            "None of {} nodes is an outlier in {compared}: none is slower than the median by more than {} and beyond the others' spread.",
            nodes.len(),
            percent(tolerance)
        );
    }
    let described: Vec<String> = named.iter().map(|node| described(node, figures)).collect();
    format!(
        "{} of {} nodes {}: {}.",
        named.len(),
        nodes.len(),
        if named.len() == 1 {
            "is an outlier"
        } else {
            "are outliers"
        },
        described.join("; ")
    )
}

fn described(node: &Node, figures: &[Figure]) -> String {
    let own = figures.iter().flat_map(|figure| {
        let own = figure.outliers.iter().filter(|it| it.node == node.name);
        own.map(move |outlier| (outlier.times_median, figure))
    });
    let worst = own.max_by(|a, b| a.0.total_cmp(&b.0));
    let mut parts = Vec::new();
    if let Some((times, figure)) = worst {
        parts.push(format!(
            "slower in {} of {} figures, most in {} with {times:.2} times the median",
            node.outliers,
            node.compared,
            label(&figure.key)
        ));
    }
    if node.failed > 0 {
        parts.push(format!("{} of its cases failed", node.failed));
    }
    format!("{} ({})", node.name, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::kind::Direction;
    use crate::record::fixture;

    fn fleet(times: &[f64]) -> Fleet {
        let record = |ns| {
            let kinds = ["fresh_pageable", "reused_pageable"];
            let case = |kind| fixture::case(Direction::HostToHost, kind, ns, 0.0);
            fixture::record(kinds.map(case).into())
        };
        let node = |(index, &ns)| (format!("node{index}"), record(ns));
        times.iter().enumerate().map(node).collect()
    }

    #[test]
    fn the_sentence_names_the_node_and_its_worst_figure() {
        let mut fleet = fleet(&[100.0, 100.0, 300.0, 100.0]);
        let case = &mut fleet.get_mut("node2").unwrap().testcases[1];
        case.figures.as_mut().unwrap().total_ns.median = 400.0;
        let report = Report::of(&fleet, 0.25).unwrap();
        assert!(report.has_outlier());
        assert_eq!(
            report.verdict,
            "1 of 4 nodes is an outlier: node2 (slower in 2 of 2 figures, \
             most in host_to_host/reused_pageable of 64 MiB with 4.00 times the median)."
        );
        assert!(report.render().contains(" 3.00 "), "{}", report.render());
    }

    #[test]
    fn a_quiet_fleet_has_no_table_of_outliers() {
        let report = Report::of(&fleet(&[100.0, 101.0, 99.0]), 0.25).unwrap();
        assert!(!report.has_outlier());
        assert_eq!(
            report.verdict,
            "None of 3 nodes is an outlier in 2 figures: \
             none is slower than the median by more than 25 % and beyond the others' spread."
        );
        assert!(!report.render().contains("times"));
    }

    #[test]
    fn two_records_are_too_few() {
        let error = Report::of(&fleet(&[100.0, 300.0]), 0.25).unwrap_err();
        assert!(error.to_string().contains("at least 3 nodes"), "{error}");
    }

    #[test]
    fn a_node_where_a_case_failed_is_named() {
        let mut fleet = fleet(&[100.0; 3]);
        fleet.get_mut("node1").unwrap().counts.failed = 2;
        let report = Report::of(&fleet, 0.25).unwrap();
        assert!(report.has_outlier());
        assert_eq!(
            report.verdict,
            "1 of 3 nodes is an outlier: node1 (2 of its cases failed)."
        );
    }

    #[test]
    fn what_a_node_lacks_is_counted() {
        let mut fleet = fleet(&[100.0; 4]);
        fleet.get_mut("node3").unwrap().testcases.pop();
        let report = Report::of(&fleet, 0.25).unwrap();
        let missing: Vec<usize> = report.nodes.iter().map(|node| node.missing).collect();
        assert_eq!(missing, [0, 0, 0, 1]);
    }

    #[test]
    fn another_machine_is_told() {
        let mut fleet = fleet(&[100.0; 3]);
        fleet.get_mut("node2").unwrap().machine.threads = 8;
        let report = Report::of(&fleet, 0.25).unwrap();
        assert_eq!(report.nodes[2].differs, ["threads: 8 here, 0 on node0"]);
    }

    /// Where the published schema lies, from this crate.
    const PUBLISHED: &str = "../../schemas/compare.schema.json";

    /// `MEASURE_SCHEMA=write cargo test -p measure` writes it anew.
    #[test]
    fn the_published_schema_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PUBLISHED);
        let schema = schemars::schema_for!(Report);
        let current = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("MEASURE_SCHEMA").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == current,
            "MEASURE_SCHEMA=write cargo test -p measure"
        );
    }
}
