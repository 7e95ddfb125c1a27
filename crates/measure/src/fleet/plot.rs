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
            .x_desc("times the median of the nodes; of each case the size that differs most")
            .y_label_formatter(&|row| match row {
                SegmentValue::CenterOf(row) => labels.get(*row).cloned().unwrap_or_default(),
                _ => String::new(),
            })
            .draw()?;
        for (row, figure) in rows.iter().enumerate() {
            for (node, &times) in &figure.nodes {
                let at = (times, SegmentValue::CenterOf(row));
                if figure.outliers.iter().any(|it| it.node == *node) {
                    chart.draw_series([Circle::new(at.clone(), 5, outlier.filled())])?;
                    chart.draw_series([Text::new(
                        format!("  {node}"),
                        at,
                        ("sans-serif", 13).into_font(),
                    )])?;
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

/// For each name the figure that differs most; the first is drawn at the bottom.
fn rows(figures: &[Figure]) -> Vec<&Figure> {
    let mut rows: BTreeMap<_, &Figure> = BTreeMap::new();
    for figure in figures {
        let row = rows
            .entry((&figure.key.name, figure.key.threads))
            .or_insert(figure);
        if farthest(figure) > farthest(row) {
            *row = figure;
        }
    }
    rows.into_values().rev().collect()
}

/// The multiple of the slowest node.
fn farthest(figure: &Figure) -> f64 {
    figure.nodes.values().copied().fold(0.0, f64::max)
}
