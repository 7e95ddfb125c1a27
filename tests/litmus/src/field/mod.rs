//! Mistakes from the field, each as a small program, with its repair.
//!
//! They retell public reports; the number and the address lead to the report. In the broken form the wrong value or code
//! comes out under `last`, with the hazard that explains it. In the repaired form the right one comes out under every
//! schedule, without a hazard.

mod download;
mod graphs;
mod memory;
mod reuse;
mod threads;
mod upload;

use crate::lab::Lab;
use crate::litmus::Outcome;

/// A mistake and its repair.
#[derive(Clone, Copy)]
pub struct Case {
    /// F01 to F44, with a letter where a report has two forms.
    pub id: &'static str,
    /// What was reported.
    pub title: &'static str,
    /// Where.
    pub source: &'static str,
    /// The mistake.
    pub broken: fn(&mut Lab) -> Outcome,
    /// What it shows.
    pub wrong: &'static str,
    /// The ids of what the model reports about it.
    pub hazards: &'static [&'static str],
    /// The repair.
    pub fixed: fn(&mut Lab) -> Outcome,
    /// What that shows.
    pub right: &'static str,
    /// On some GPUs or drivers the broken form gets away with it, gate or not.
    pub depends_on_machine: bool,
}

/// All cases, by id.
pub fn all() -> Vec<Case> {
    let mut all = [
        download::ALL,
        graphs::ALL,
        memory::ALL,
        reuse::ALL,
        threads::ALL,
        upload::ALL,
    ]
    .concat();
    all.sort_by_key(|case| case.id);
    all
}
