//! Draws the trace of a run as a mermaid sequence diagram.
//!
//! Two steps: [`steps`] says each event of the trace in the diagram's words, [`fold`] shortens what repeats.

mod fold;
mod steps;

use anyhow::Result;

use steps::Steps;

const HEADER: &str = "\
%% Recorded by cargo xtask bless from a run on the model, schedule last.
sequenceDiagram
    participant H as Host
";

/// The diagram of the run whose `CUMODEL_TRACE` is `trace`, or `None` when the program neither gave a stream anything
/// to do nor waited for one.
///
/// Steps that repeat with other numbers are drawn twice and then counted.
///
/// # Errors
/// When a line of the trace is not JSON, or tells of an operation that was never enqueued.
pub fn mermaid(trace: &str) -> Result<Option<String>> {
    let steps = Steps::read(trace)?;
    if steps.streams.is_empty() {
        return Ok(None);
    }
    let mut diagram = HEADER.to_owned();
    for (number, name) in (1..).zip(&steps.streams) {
        diagram += &format!("    participant S{number} as {}\n", steps::escape(name));
    }
    let everybody = format!("H,S{}", steps.streams.len());
    for line in fold::fold(&steps.list, &everybody) {
        diagram += &format!("    {line}\n");
    }
    Ok(Some(diagram))
}
