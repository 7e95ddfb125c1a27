//! Plots of a record as SVG files, readable on a light and on a dark page, and by a screen reader.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{anyhow, Result};
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;

use crate::format::{bytes, digits, seconds};
use crate::kind::Direction;
use crate::record::{Phase, Record, Testcase};
use crate::table::{self, SIMULATED};

const WIDTH: u32 = 960;
/// How much longer than the longest bar, or the highest point, an axis is, so that the legend covers none.
const LEGEND_ROOM: f64 = 1.35;
/// The series of a bandwidth plot, at most as many as there are colours.
const SERIES: [&str; 8] = [
    "fresh pageable",
    "fresh pageable glibc",
    "fresh pageable mimalloc",
    "fresh pageable jemalloc",
    "reused pageable",
    "transparent huge pages",
    "fresh pinned",
    "reused pinned",
];
/// After Okabe and Ito, so that colour-blind readers can tell them apart; each is visible on white and on
/// black.
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xA0, 0x5A, 0x2C),
    RGBColor(0x80, 0x80, 0x80),
    RGBColor(0x9A, 0x8B, 0x1F),
];
/// What is drawn in black, white or the colour of the grid follows the reader's scheme.
pub(crate) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const STYLE: &str = "<style>
text { font-family: system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  [fill=\"#FFFFFF\"] { fill: #16181D; }
  [fill=\"#000000\"] { fill: #E6E6E6; }
  [stroke=\"#000000\"] { stroke: #E6E6E6; }
  [stroke=\"#DDDDDD\"] { stroke: #3A3D45; }
  [fill=\"#0072B2\"] { fill: #4FA8E0; }
  [stroke=\"#0072B2\"] { stroke: #4FA8E0; }
}
</style>";

/// A plot: the name of its file, and its content.
#[derive(Debug)]
pub struct Plot {
    /// Direction and what is drawn, with the ending `.svg`.
    pub file: String,
    /// What a reader who does not see it should know.
    pub description: String,
    /// The SVG document.
    pub svg: String,
}

/// Two plots for each direction that has figures: bandwidth over size, and the phases at one size.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn plots(record: &Record) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    let directions = [
        Direction::HostToHost,
        Direction::DeviceToHost,
        Direction::HostToDevice,
    ];
    for direction in directions {
        let is_it = |case: &&Testcase| case.direction == direction && case.figures.is_some();
        let cases: Vec<&Testcase> = record.testcases.iter().filter(is_it).collect();
        let Some(size) = table::shown_size(&cases) else {
            continue;
        };
        plots.push(bandwidth(record, direction, &cases)?);
        plots.push(phases(record, direction, &cases, size)?);
    }
    Ok(plots)
}

fn heading(direction: Direction, cases: &[&Testcase], what: &str) -> String {
    let mark = match cases.iter().any(|case| case.simulated) {
        true => format!(" ({SIMULATED}: no real link)"),
        false => String::new(),
    };
    format!("{}{mark}: {what}", direction.word().replace('_', " "))
}

fn bandwidth(record: &Record, direction: Direction, cases: &[&Testcase]) -> Result<Plot> {
    let title = heading(
        direction,
        cases,
        "bytes of a buffer over the whole time, GB/s",
    );
    let series: Vec<(&str, Vec<(f64, f64)>)> = SERIES
        .into_iter()
        .map(|name| (name, points(cases, name)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = || series.iter().flat_map(|(_, points)| points);
    let most = all().map(|point| point.1).fold(0.0, f64::max) * LEGEND_ROOM;
    let exponents = span(all().map(|point| point.0));
    let ends = series.iter().filter_map(|(name, points)| {
        let (exponent, value) = points.last()?;
        Some(format!(
            "{name} {} at {}",
            digits(*value),
            size_of(*exponent)
        ))
    });
    let description = format!("GB/s: {}.", ends.collect::<Vec<_>>().join("; "));
    let svg = draw(540, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(&title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(exponents, 0.0..most)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .x_labels(10)
            .x_desc("size of a buffer")
            .y_desc("GB/s (10^9 bytes)")
            .x_label_formatter(&|exponent| size_of(*exponent))
            .draw()?;
        for ((name, points), colour) in series.iter().zip(COLOURS) {
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)).point_size(3))?
                .label(*name)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(GRID)
            .draw()?;
        Ok(())
    })?;
    Ok(finish(
        record,
        direction,
        "bandwidth",
        title,
        description,
        &svg,
    ))
}

fn points(cases: &[&Testcase], name: &str) -> Vec<(f64, f64)> {
    let of_name = cases.iter().filter(|case| table::short_name(case) == name);
    let point = |case: &&Testcase| {
        let figures = case.figures.as_ref()?;
        Some(((case.buffer_bytes as f64).log2(), figures.gb_per_s.median))
    };
    of_name.filter_map(point).collect()
}

fn size_of(exponent: f64) -> String {
    bytes(exponent.exp2().round() as u64)
}

fn span(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    // One size alone still needs an axis with a length.
    least..most.max(least + 1.0)
}

fn phases(record: &Record, direction: Direction, cases: &[&Testcase], size: u64) -> Result<Plot> {
    let of_size: Vec<&Testcase> = cases
        .iter()
        .copied()
        .filter(|case| case.buffer_bytes == size)
        // The first one is drawn at the top.
        .rev()
        .collect();
    let what = format!("phases of one buffer of {}, milliseconds", bytes(size));
    let title = heading(direction, cases, &what);
    let names: Vec<String> = of_size.iter().map(|case| table::short_name(case)).collect();
    let milliseconds = |case: &Testcase, phase: &Phase| {
        let figures = case
            .figures
            .as_ref()
            .and_then(|figures| figures.phases.get(phase));
        figures.map_or(0.0, |figures| figures.ns / 1e6)
    };
    let sum = |case: &&Testcase| {
        Phase::ALL
            .iter()
            .map(|phase| milliseconds(case, phase))
            .sum()
    };
    let most = of_size.iter().map(sum).fold(0.0, f64::max) * LEGEND_ROOM;
    let present: BTreeSet<Phase> = of_size
        .iter()
        .flat_map(|case| {
            case.figures
                .iter()
                .flat_map(|figures| figures.phases.keys())
        })
        .copied()
        .collect();
    let bars = of_size
        .iter()
        .rev()
        .map(|case| format!("{} {}", table::short_name(case), seconds(sum(case) * 1e6)));
    let description = format!("Sums: {}.", bars.collect::<Vec<_>>().join("; "));
    let rows = of_size.len();
    let svg = draw(110 + 26 * rows as u32, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(&title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(200)
            .build_cartesian_2d(0.0..most, (0..rows).into_segmented())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .disable_y_mesh()
            .y_labels(rows + 1)
            .x_desc("milliseconds")
            .y_label_formatter(&|row| match row {
                SegmentValue::CenterOf(row) => names.get(*row).cloned().unwrap_or_default(),
                _ => String::new(),
            })
            .draw()?;
        for (phase, colour) in Phase::ALL
            .into_iter()
            .zip([0, 1, 3, 4, 6].map(|at| COLOURS[at]))
        {
            if !present.contains(&phase) {
                continue;
            }
            let bar = |(row, case): (usize, &&Testcase)| {
                let before = Phase::ALL.iter().take_while(|earlier| **earlier != phase);
                let start: f64 = before.map(|earlier| milliseconds(case, earlier)).sum();
                let end = start + milliseconds(case, &phase);
                let corners = [
                    (start, SegmentValue::Exact(row)),
                    (end, SegmentValue::Exact(row + 1)),
                ];
                let mut bar = Rectangle::new(corners, colour.filled());
                bar.set_margin(4, 4, 0, 0);
                bar
            };
            chart
                .draw_series(of_size.iter().enumerate().map(bar))?
                .label(phase.word())
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(GRID)
            .draw()?;
        Ok(())
    })?;
    Ok(finish(
        record,
        direction,
        "phases",
        title,
        description,
        &svg,
    ))
}

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws on an empty white canvas of this height in pixels.
pub(crate) fn draw(
    height: u32,
    content: impl FnOnce(&Canvas) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<String> {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let drawn = canvas
        .fill(&WHITE)
        .map_err(Into::into)
        .and_then(|()| content(&canvas))
        .and_then(|()| canvas.present().map_err(Into::into));
    drawn.map_err(|error| anyhow!("drawing a plot: {error}"))?;
    drop(canvas);
    Ok(svg)
}

fn finish(
    record: &Record,
    direction: Direction,
    what: &str,
    title: String,
    description: String,
    svg: &str,
) -> Plot {
    let machine = table::machine(record);
    Plot {
        file: format!("{}-{what}.svg", direction.word().replace('_', "-")),
        svg: finished(
            &title,
            &format!("{description} Measured on {machine}."),
            svg,
        ),
        description: format!("{title}. {description}"),
    }
}

/// Adds what plotters does not write: a title, a description and the colours of a dark page.
pub(crate) fn finished(title: &str, description: &str, svg: &str) -> String {
    let head = format!(
        "\n<title>{}</title>\n<desc>{}</desc>\n{STYLE}\n",
        escaped(title),
        escaped(description)
    );
    let start = svg.find("<svg ").unwrap_or(0);
    let end = svg[start..].find('>').map_or(svg.len(), |end| start + end);
    format!("{} role=\"img\">{head}{}", &svg[..end], &svg[end + 1..])
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
