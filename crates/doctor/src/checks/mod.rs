//! The checks. Each looks at one thing, and says what it saw.
//!
//! A check that does not apply says so; one that cannot read what it needs says that, and never
//! takes the unknown for good.

mod allocator;
mod device;
mod limits;
mod pages;
mod placement;

use crate::sources::Source;
use crate::tree::Tree;

/// What a check saw.
#[derive(Debug)]
pub enum Answer {
    /// Something costs time or fails, and there is a fix.
    Finding {
        /// What was seen.
        evidence: String,
        /// What to do.
        fix: String,
    },
    /// Sources disagree, or nobody has measured it.
    Measure {
        /// What was seen.
        evidence: String,
        /// How to measure it here.
        fix: String,
    },
    /// It could not be read.
    Unknown(String),
    /// As it should be.
    Fine(String),
    /// It does not matter on this machine.
    NotHere(String),
}

impl Answer {
    fn finding(evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Finding {
            evidence: evidence.into(),
            fix: fix.into(),
        }
    }

    fn measure(evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Measure {
            evidence: evidence.into(),
            fix: fix.into(),
        }
    }

    fn unknown(evidence: impl Into<String>) -> Self {
        Self::Unknown(evidence.into())
    }

    fn fine(evidence: impl Into<String>) -> Self {
        Self::Fine(evidence.into())
    }

    fn not_here(evidence: impl Into<String>) -> Self {
        Self::NotHere(evidence.into())
    }
}

/// A check.
pub struct Check {
    /// Its name, which stays.
    pub id: &'static str,
    /// Why it matters for a copy.
    pub why: &'static str,
    /// Where that comes from.
    pub sources: &'static [&'static Source],
    /// Looks at a machine.
    pub look: fn(&Tree) -> Answer,
}

/// Every check, in the order in which a diagnosis shows checks of the same status.
pub static CHECKS: [&Check; 23] = [
    &device::C2C,
    &device::COHERENT_MODE,
    &device::WSL2,
    &device::REGISTRATION_LIMIT,
    &device::DRIVER,
    &device::WRITE_COMBINED,
    &placement::GPU_NODE,
    &placement::HBM_NODES,
    &placement::NUMA_BALANCING,
    &pages::PAGE_SIZE,
    &pages::HUGE_PAGES,
    &pages::HUGE_PAGES_DEFRAG,
    &pages::HUGETLB,
    &pages::FRAGMENTATION,
    &pages::COMPACTION,
    &pages::COMPACT_UNEVICTABLE,
    &pages::INIT_ON_ALLOC,
    &limits::GOVERNOR,
    &limits::MEMLOCK,
    &limits::CONTAINER_MEMORY,
    &limits::CONTAINER_PROCESSORS,
    &allocator::PYTORCH_SETTINGS,
    &allocator::MALLOC_SETTINGS,
];

/// The measurement that settles what a setting does on this machine.
fn compare(change: &str, rows: &str) -> String {
    format!(
        "run `c2c measure --json before.json`, {change}, run `c2c measure --json after.json`, \
         and compare {rows} with `c2c measure --compare before.json after.json`"
    )
}
