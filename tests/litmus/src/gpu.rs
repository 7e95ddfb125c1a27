//! What must hold on a GPU: nothing but permitted outcomes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{ensure, Context as _, Result};

use crate::cuda;
use crate::field::Case;
use crate::lab::Lab;
use crate::litmus::{Litmus, Outcome};

/// How often each test runs without a gate, for each size.
pub const RUNS: usize = 200;
/// Sizes of buffers in bytes: one that is done in no time, one that takes a while.
pub const SIZES: [usize; 2] = [4 << 10, 64 << 20];

/// What hardware did.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The outcomes.
    pub outcomes: BTreeSet<Outcome>,
    /// What it was seen to do besides, and how often.
    pub notes: BTreeMap<String, usize>,
}

/// Keeps the primary context for as long as the suite runs: making it takes longer than a test.
///
/// # Errors
/// When there is no device.
pub fn hold_context() -> Result<()> {
    cuda::init(0).ok();
    let (code, device) = cuda::device(0);
    ensure!(code.0 == 0, "looking for a device: code {code}");
    let (code, _) = cuda::retain(device);
    ensure!(code.0 == 0, "making a context: code {code}");
    Ok(())
}

/// An outcome must be one that the documentation permits.
///
/// # Errors
/// When it is not.
pub fn judge(litmus: &Litmus, outcome: &str, gated: bool) -> Result<()> {
    let allowed = if gated { litmus.gated } else { litmus.allowed };
    ensure!(
        litmus.allows(outcome, gated),
        "{}, {}: \"{outcome}\" is not permitted, only {allowed:?}",
        litmus.id,
        if gated { "gated" } else { "without a gate" }
    );
    Ok(())
}

/// Runs a litmus test in all sizes, without a gate and with one.
///
/// # Errors
/// When an outcome is not permitted.
pub fn observe(litmus: &Litmus) -> Result<Observed> {
    let mut observed = Observed::default();
    for bytes in SIZES {
        for gated in [false; RUNS].into_iter().chain([true]) {
            let mut lab = Lab::new(bytes, gated);
            let outcome = (litmus.run)(&mut lab);
            for note in lab.end() {
                *observed.notes.entry(note).or_default() += 1;
            }
            judge(litmus, &outcome, gated).with_context(|| format!("buffers of {bytes} bytes"))?;
            observed.outcomes.insert(outcome);
        }
    }
    Ok(observed)
}

/// Behind gates, the broken form goes wrong, unless that depends on the machine, and the repaired form goes right.
///
/// # Errors
/// When it is otherwise.
pub fn field_case(case: &Case) -> Result<()> {
    for (program, expected, certain) in [
        (case.broken, case.wrong, !case.depends_on_machine),
        (case.fixed, case.right, true),
    ] {
        let mut lab = Lab::new(SIZES[1], true);
        let outcome = program(&mut lab);
        lab.end();
        ensure!(
            outcome == expected || !certain,
            "{}: \"{outcome}\", not \"{expected}\"",
            case.id
        );
    }
    Ok(())
}
