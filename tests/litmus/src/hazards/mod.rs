//! For each hazard of the model the smallest program that has it, and a twin that has none.

mod calls;
mod copies;
mod device_memory;
mod graphs;
mod host_functions;
mod host_memory;
mod kernels;
mod streams;
mod waits;

use crate::lab::Lab;

/// A hazard, a program that has it, and one that has none.
#[derive(Clone, Copy)]
pub struct Hazard {
    /// H01 to H34, with a letter where one side is a kernel.
    pub id: &'static str,
    /// The whole report list of the broken program.
    pub report: &'static str,
    /// What the broken program does wrong.
    pub mistake: &'static str,
    /// The program that has it.
    pub broken: fn(&mut Lab),
    /// The same without the mistake.
    pub twin: fn(&mut Lab),
    /// More settings of the model for the broken program.
    pub settings: &'static str,
    /// The mistake may end the process, so the broken program runs in one of its own.
    pub may_die: bool,
}

const fn hazard(
    id: &'static str,
    mistake: &'static str,
    broken: fn(&mut Lab),
    twin: fn(&mut Lab),
) -> Hazard {
    Hazard {
        id,
        report: id,
        mistake,
        broken,
        twin,
        settings: "",
        may_die: false,
    }
}

impl Hazard {
    /// The race that the useless wait explains.
    const fn reported_as(mut self, report: &'static str) -> Hazard {
        self.report = report;
        self
    }

    const fn with(mut self, settings: &'static str) -> Hazard {
        self.settings = settings;
        self
    }

    const fn may_die(mut self) -> Hazard {
        self.may_die = true;
        self
    }
}

/// All hazards, by id.
pub fn all() -> Vec<Hazard> {
    let mut all = [
        calls::ALL,
        copies::ALL,
        device_memory::ALL,
        graphs::ALL,
        host_functions::ALL,
        host_memory::ALL,
        kernels::ALL,
        streams::ALL,
        waits::ALL,
    ]
    .concat();
    all.sort_by_key(|hazard| hazard.id);
    all
}
