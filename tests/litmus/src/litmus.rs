//! What a litmus test is.

use crate::lab::Lab;

/// What a program saw: values, codes.
pub type Outcome = String;

/// An outcome set that holds everything: what the documentation leaves undefined.
pub const ANYTHING: &str = "anything";

/// A report list that holds whatever the model says.
pub const ANY_REPORT: &str = "any";

/// A small program with what may come of it.
#[derive(Clone)]
pub struct Litmus {
    /// L01 to L63 on the driver's functions, C01 to C13 on safe cudarc.
    pub id: &'static str,
    /// The steps, in the words of the table.
    pub steps: &'static str,
    /// The rules that decide it.
    pub rules: &'static str,
    /// The program.
    pub run: fn(&mut Lab) -> Outcome,
    /// Every outcome that the documentation permits, without a gate.
    pub allowed: &'static [&'static str],
    /// Every outcome of `allowed` is one that some schedule of the model shows.
    pub complete: bool,
    /// Every outcome that the documentation permits with a gate.
    pub gated: &'static [&'static str],
    /// The marked outcome: what the schedule `last` shows, every time.
    pub last: &'static str,
    /// The same where copies of pageable memory are direct.
    pub direct: &'static str,
    /// What the schedule `eager` shows.
    pub eager: &'static str,
    /// What the model reports under `last`, in any order.
    pub reports: &'static [&'static str],
    /// Whether a call waits is not documented: what a GPU did is noted, and never fails the test.
    pub soft: bool,
}

/// A test whose only outcome is `outcome`, under every schedule.
pub const fn test(
    id: &'static str,
    rules: &'static str,
    steps: &'static str,
    outcome: &'static [&'static str; 1],
    run: fn(&mut Lab) -> Outcome,
) -> Litmus {
    Litmus {
        id,
        steps,
        rules,
        run,
        allowed: outcome,
        complete: true,
        gated: outcome,
        last: outcome[0],
        direct: outcome[0],
        eager: outcome[0],
        reports: &[],
        soft: false,
    }
}

impl Litmus {
    /// Without a gate, all of these may come out.
    pub const fn ungated(mut self, allowed: &'static [&'static str]) -> Litmus {
        self.allowed = allowed;
        self
    }

    /// The documentation permits more than the model shows.
    pub const fn incomplete(mut self) -> Litmus {
        self.complete = false;
        self
    }

    /// With a gate, too, all of these may come out.
    pub const fn also_gated(mut self, allowed: &'static [&'static str]) -> Litmus {
        self.gated = allowed;
        self.allowed = allowed;
        self
    }

    /// What `eager` shows instead.
    pub const fn eager(mut self, outcome: &'static str) -> Litmus {
        self.eager = outcome;
        self
    }

    /// What `last` shows where pageable copies are direct.
    pub const fn direct(mut self, outcome: &'static str) -> Litmus {
        self.direct = outcome;
        self
    }

    /// What the model reports: `H01`, or `H01/H13` for a hazard with its cause.
    pub const fn reports(mut self, reports: &'static [&'static str]) -> Litmus {
        self.reports = reports;
        self
    }

    /// Whether a call waits is not documented.
    pub const fn soft(mut self) -> Litmus {
        self.soft = true;
        self
    }

    /// Is this an outcome that the documentation permits?
    pub fn allows(&self, outcome: &str, gated: bool) -> bool {
        let allowed = if gated { self.gated } else { self.allowed };
        allowed.contains(&outcome) || allowed.contains(&ANYTHING)
    }
}
