//! The distribution: one row for each case, one point for each node.

use std::collections::BTreeMap;

use anyhow::Result;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;

use super::report::{label, Report};
use super::rule::Figure;
use crate::format::digits;
use crate::svg::{self, COLOURS, GRID};

/// How much longer than the farthest point the axis is, so that its node's name has room.
const ROOM_FOR_NAME: f64 = 1.25;
/// The height of a row in pixels.
const ROW: u32 = 22;

/// The whole SVG document.
///
/// # Errors
/// When it cannot be drawn.
pub fn draw(report: &Report) -> Result<String> {
    let rows: Vec<&Figure> = rows(&report.figures);
    let labels: Vec<String> = rows.iter().map(|figure| label(&figure.key)).collect();
    let title = "each node's time, as a multiple of the fleet's median";
    let (ordinary, outlier) = (COLOURS[4], COLOURS[0]);
    let most = rows
        .iter()
        .map(|figure| farthest(figure))
        .fold(1.0, f64::max)
        * ROOM_FOR_NAME;
    let svg = svg::draw(110 + ROW * rows.len() as u32, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(330)
            .build_cartesian_2d(0.0..most, (0..rows.len()).into_segmented())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .disable_y_mesh()
            .y_labels(rows.len() + 1)
            .x_desc("times the median of the nodes; of each case the size with the slowest node")
            .y_label_formatter(&|row| match row {
                SegmentValue::CenterOf(row) => labels.get(*row).cloned().unwrap_or_default(),
                _ => String::new(),
            })
            .draw()?;
        for (row, figure) in rows.iter().enumerate() {
            for (node, &times) in &figure.nodes {
                let at = (times, SegmentValue::CenterOf(row));
                if figure.outliers.iter().any(|it| it.node == *node) {
                    chart.draw_series([EmptyElement::at(at)
                        + Circle::new((0, 0), 5, outlier.filled())
                        + Text::new(node.clone(), (9, -7), ("sans-serif", 13))])?;
                } else {
                    chart.draw_series([Circle::new(at, 4, ordinary.filled())])?;
                }
            }
        }
        Ok(())
    })?;
    let points = rows.iter().rev();
    let points = points.map(|it| format!("{} up to {}", label(&it.key), digits(farthest(it))));
    let description = format!(
        "{} Times the median: {}.",
        report.verdict,
        points.collect::<Vec<_>>().join("; ")
    );
    Ok(svg::finished(title, &description, &svg))
}

/// For each name one figure: one with an outlier before one without, then the one whose slowest node
/// is farthest out. The first is drawn at the bottom.
fn rows(figures: &[Figure]) -> Vec<&Figure> {
    let mut rows: BTreeMap<_, &Figure> = BTreeMap::new();
    let rank = |figure: &Figure| (!figure.outliers.is_empty(), farthest(figure));
    for figure in figures {
        let row = rows
            .entry((&figure.key.name, figure.key.threads))
            .or_insert(figure);
        if rank(figure) > rank(row) {
            *row = figure;
        }
    }
    rows.into_values().rev().collect()
}

/// The multiple of the slowest node.
fn farthest(figure: &Figure) -> f64 {
    figure.nodes.values().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::rule::{Key, Outlier};

    fn figure(buffer_bytes: u64, times: f64, outlier: bool) -> Figure {
        let node = "node0".to_owned();
        let outliers = outlier.then(|| Outlier {
            node: node.clone(),
            times_median: times,
        });
        Figure {
            key: Key {
                name: "host_to_host/reused_pageable".to_owned(),
                buffer_bytes,
                threads: None,
            },
            median_ns: 1.0,
            deviation_ns: 0.0,
            nodes: BTreeMap::from([(node, times)]),
            outliers: outliers.into_iter().collect(),
        }
    }

    #[test]
    fn an_outlier_is_not_hidden_by_a_node_that_was_disturbed() {
        let figures = [
            figure(1, 2.0, true),
            figure(2, 9.0, false),
            figure(3, 3.0, true),
            figure(4, 2.5, true),
        ];
        let rows = rows(&figures);
        let sizes: Vec<u64> = rows.iter().map(|row| row.key.buffer_bytes).collect();
        assert_eq!(sizes, [3]);
    }
}
