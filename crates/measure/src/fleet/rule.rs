//! What an outlier is: far from the fleet's median by two measures that a few bad nodes cannot move.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Fleet;
use crate::record::{Ceiling, Record, Testcase};
use crate::stats::Summary;

/// Fewer nodes have no middle that could be told from an outlier.
pub const LEAST_NODES: usize = 3;

/// How many deviations from the median are ordinary.
pub const DEVIATIONS: f64 = 3.0;

/// The median absolute deviation times this is the standard deviation, if figures are normally
/// distributed: 1 / Φ⁻¹(3/4).
const NORMAL: f64 = 1.4826;

/// What a figure is the figure of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The name of the case, or of the ceiling.
    pub name: String,
    /// The size of its buffer in bytes.
    pub buffer_bytes: u64,
    /// The threads of a ceiling; null for a case, whose name has them.
    pub threads: Option<usize>,
}

/// A figure of one node, as a time, so that more is slower.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    median: f64,
    fastest: f64,
}

/// A figure of a node that is far from the fleet's median.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outlier {
    /// The node.
    pub node: String,
    /// How many times the fleet's median it takes.
    pub times_median: f64,
}

/// A figure that enough nodes have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is the figure of.
    pub key: Key,
    /// The median over the nodes in nanoseconds for a buffer; for a ceiling for each 10^9 bytes.
    pub median_ns: f64,
    /// The median absolute deviation from it, in the same unit.
    pub deviation_ns: f64,
    /// What each node takes, as a multiple of the median.
    pub nodes: BTreeMap<String, f64>,
    /// The outliers, the slowest first.
    pub outliers: Vec<Outlier>,
}

/// Every figure that at least [`LEAST_NODES`] nodes have, judged. What is simulated is no figure.
///
/// A node is an outlier of a figure when all of these hold:
///
/// 1. its time is above the median over the nodes by more than `tolerance`, a share;
/// 2. its time is above that median by more than [`DEVIATIONS`] times the median absolute
///    deviation, scaled to a standard deviation;
/// 3. the fastest of its passes is above that median, too: a node that was disturbed now and then
///    is not slow.
///
/// A node that is faster is no outlier.
pub fn judge(fleet: &Fleet, tolerance: f64) -> Vec<Figure> {
    let mut figures: BTreeMap<Key, BTreeMap<&str, Time>> = BTreeMap::new();
    for (node, record) in fleet {
        for (key, time) in times(record) {
            figures.entry(key).or_default().insert(node, time);
        }
    }
    let enough = figures
        .into_iter()
        .filter(|(_, nodes)| nodes.len() >= LEAST_NODES);
    enough
        .filter_map(|(key, nodes)| figure(key, &nodes, tolerance))
        .collect()
}

fn figure(key: Key, nodes: &BTreeMap<&str, Time>, tolerance: f64) -> Option<Figure> {
    let times: Vec<f64> = nodes.values().map(|time| time.median).collect();
    let median = Summary::of(&times)?.median;
    let distances: Vec<f64> = times.iter().map(|time| (time - median).abs()).collect();
    let deviation = Summary::of(&distances)?.median;
    let is_outlier = |time: &Time| {
        time.median > median * (1.0 + tolerance)
            && time.median > median + DEVIATIONS * NORMAL * deviation
            && time.fastest > median
    };
    let mut outliers: Vec<Outlier> = nodes
        .iter()
        .filter(|(_, time)| is_outlier(time))
        .map(|(node, time)| Outlier {
            node: (*node).to_owned(),
            times_median: time.median / median,
        })
        .collect();
    outliers.sort_by(|a, b| b.times_median.total_cmp(&a.times_median));
    let ratio = |(node, time): (&&str, &Time)| ((*node).to_owned(), time.median / median);
    Some(Figure {
        key,
        median_ns: median,
        deviation_ns: deviation,
        nodes: nodes.iter().map(ratio).collect(),
        outliers,
    })
}

/// The figures of a record that are of this machine and no model's.
fn times(record: &Record) -> impl Iterator<Item = (Key, Time)> + '_ {
    let cases = record.testcases.iter().filter(|case| !case.simulated);
    let ceilings = record.ceilings.iter().filter(|ceiling| !ceiling.simulated);
    cases
        .filter_map(time_of_case)
        .chain(ceilings.filter_map(time_of_ceiling))
}

fn time_of_case(case: &Testcase) -> Option<(Key, Time)> {
    let total = &case.figures.as_ref()?.total_ns;
    let key = Key {
        name: case.name.clone(),
        buffer_bytes: case.buffer_bytes,
        threads: None,
    };
    let time = Time {
        median: total.median,
        fastest: total.min,
    };
    Some((key, time))
}

/// A bandwidth in GB/s of 10^9 bytes is the inverse of the seconds for 10^9 bytes.
fn time_of_ceiling(ceiling: &Ceiling) -> Option<(Key, Time)> {
    let bandwidth = ceiling.gb_per_s.as_ref()?;
    let ns = |gb_per_s: f64| 1e9 / gb_per_s;
    let key = Key {
        name: ceiling.name.clone(),
        buffer_bytes: ceiling.buffer_bytes,
        threads: Some(ceiling.threads),
    };
    let time = Time {
        median: ns(bandwidth.median),
        fastest: ns(bandwidth.max),
    };
    // A ceiling of nothing would make every median infinite.
    (bandwidth.median > 0.0).then_some((key, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Direction;
    use crate::record::{fixture, Status};

    /// A fleet of one figure: what each node takes, in nanoseconds.
    fn fleet(times: &[f64]) -> Fleet {
        let record = |ns| {
            let case = fixture::case(Direction::HostToHost, "reused_pageable", ns, 0.0);
            fixture::record(vec![case])
        };
        let node = |(index, &ns)| (format!("node{index}"), record(ns));
        times.iter().enumerate().map(node).collect()
    }

    fn named(fleet: &Fleet, tolerance: f64) -> Vec<String> {
        let figures = judge(fleet, tolerance);
        let outliers = figures.iter().flat_map(|figure| &figure.outliers);
        outliers.map(|outlier| outlier.node.clone()).collect()
    }

    #[test]
    fn the_slow_node_is_named_and_no_other() {
        let fleet = fleet(&[100.0, 102.0, 300.0, 98.0]);
        let figures = judge(&fleet, 0.25);
        assert_eq!(
            (figures[0].median_ns, figures[0].deviation_ns),
            (101.0, 2.0)
        );
        assert_eq!(named(&fleet, 0.25), ["node2"]);
        assert!((figures[0].outliers[0].times_median - 300.0 / 101.0).abs() < 1e-12);
    }

    #[test]
    fn a_difference_within_the_tolerance_is_none() {
        let fleet = fleet(&[100.0, 100.0, 125.0, 100.0]);
        assert_eq!(named(&fleet, 0.25), Vec::<String>::new());
        assert_eq!(named(&fleet, 0.24), ["node2"]);
    }

    #[test]
    fn nodes_that_scatter_widely_have_no_outlier_near_by() {
        // The deviation is 50, so that 3 · 1.4826 · 50 above the median of 150 is 372.39.
        assert_eq!(
            named(&fleet(&[100.0, 150.0, 200.0, 100.0, 372.0]), 0.25).len(),
            0
        );
        assert_eq!(
            named(&fleet(&[100.0, 150.0, 200.0, 100.0, 373.0]), 0.25),
            ["node4"]
        );
    }

    #[test]
    fn a_faster_node_is_no_outlier() {
        assert_eq!(named(&fleet(&[100.0, 100.0, 10.0]), 0.25).len(), 0);
    }

    #[test]
    fn a_node_with_a_pass_as_fast_as_the_others_is_disturbed_and_not_slow() {
        let mut fleet = fleet(&[100.0, 100.0, 300.0]);
        let case = &mut fleet.get_mut("node2").unwrap().testcases[0];
        case.figures.as_mut().unwrap().total_ns.min = 100.0;
        assert_eq!(named(&fleet, 0.25).len(), 0);
    }

    #[test]
    fn the_slowest_comes_first() {
        let fleet = fleet(&[100.0, 200.0, 300.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!(named(&fleet, 0.25), ["node2", "node1"]);
    }

    #[test]
    fn two_nodes_have_no_figure() {
        assert_eq!(judge(&fleet(&[100.0, 300.0]), 0.25), []);
    }

    #[test]
    fn a_missing_figure_leaves_the_others_to_judge() {
        let mut four = fleet(&[100.0, 100.0, 300.0, 100.0]);
        let case = &mut four.get_mut("node0").unwrap().testcases[0];
        (case.status, case.figures) = (Status::Waived, None);
        assert_eq!(named(&four, 0.25), ["node2"]);
        assert_eq!(judge(&four, 0.25)[0].nodes.len(), 3);
        four.remove("node1");
        assert_eq!(judge(&four, 0.25), []);
    }

    #[test]
    fn simulated_figures_do_not_count() {
        let mut fleet = fleet(&[100.0, 100.0, 300.0, 100.0]);
        for record in fleet.values_mut() {
            record.testcases[0].simulated = true;
        }
        assert_eq!(judge(&fleet, 0.25), []);
    }

    #[test]
    fn a_low_ceiling_is_a_long_time() {
        let mut fleet = fleet(&[1.0; 4]);
        for (node, record) in &mut fleet {
            let gb_per_s = if node == "node1" { 5.0 } else { 10.0 };
            record.testcases.clear();
            record.ceilings = vec![fixture::ceiling("triad", gb_per_s)];
        }
        assert_eq!(named(&fleet, 0.25), ["node1"]);
        assert_eq!(judge(&fleet, 0.25)[0].outliers[0].times_median, 2.0);
    }
}
