//! The figures for node_exporter's textfile collector.

use anyhow::{Context, Result};
use prometheus::{GaugeVec, Opts, Registry, TextEncoder};

use crate::record::{Figures, Record, Testcase};

/// The whole textfile. Simulated figures carry the label `simulated="true"`.
///
/// # Errors
/// When two cases have the same labels.
pub fn render(record: &Record) -> Result<String> {
    let registry = Registry::new();
    let labels = ["name", "buffer_bytes", "simulated"];
    let gauge = |name: &str, help: &str, more: &[&str]| -> Result<GaugeVec> {
        let labels = [&labels[..], more].concat();
        let gauge = GaugeVec::new(Opts::new(name, help), &labels)
            .with_context(|| format!("describing {name}"))?;
        registry
            .register(Box::new(gauge.clone()))
            .with_context(|| format!("adding {name}"))?;
        Ok(gauge)
    };
    let total = gauge(
        "c2c_measure_seconds",
        "Median time of a whole pass for one buffer.",
        &[],
    )?;
    let phases = gauge(
        "c2c_measure_phase_seconds",
        "Time of one phase for one buffer, in the pass whose total is the median.",
        &["phase"],
    )?;
    let faults = gauge(
        "c2c_measure_minor_faults",
        "Minor page faults of this process for one buffer, the median of the passes.",
        &[],
    )?;
    let measured = record
        .testcases
        .iter()
        .filter_map(|case| Some((case, case.figures.as_ref()?)));
    for (case, figures) in measured {
        let values = values(case);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        total
            .with_label_values(&values)
            .set(figures.total_ns.median / 1e9);
        faults
            .with_label_values(&values)
            .set(figures.minor_faults.median);
        set_phases(&phases, &values, figures);
    }
    let cases = GaugeVec::new(
        Opts::new("c2c_measure_cases", "How many cases came to which end."),
        &["status"],
    )
    .context("describing c2c_measure_cases")?;
    registry
        .register(Box::new(cases.clone()))
        .context("adding c2c_measure_cases")?;
    let counts = record.counts;
    for (status, count) in [
        ("passed", counts.passed),
        ("waived", counts.waived),
        ("failed", counts.failed),
    ] {
        cases.with_label_values(&[status]).set(count as f64);
    }
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .context("writing the metrics as text")
}

fn values(case: &Testcase) -> [String; 3] {
    [
        case.name.clone(),
        case.buffer_bytes.to_string(),
        case.simulated.to_string(),
    ]
}

fn set_phases(gauge: &GaugeVec, values: &[&str], figures: &Figures) {
    for (phase, of_phase) in &figures.phases {
        let values = [values, &[phase.word()]].concat();
        gauge.with_label_values(&values).set(of_phase.ns / 1e9);
    }
}
