//! Shortens what repeats: ten rounds of a loop become two rounds and a count.

use super::steps::Step;

/// Rounds that are drawn before the rest is counted: the second one shows what changes.
const DRAWN: usize = 2;

/// A stretch of steps that is the same `period` steps over and over, but for its numbers.
struct Repetition {
    start: usize,
    period: usize,
    rounds: usize,
}

impl Repetition {
    fn end(&self) -> usize {
        self.start + self.period * self.rounds
    }

    /// How many steps shorter it gets; the count takes a line, too.
    fn saving(&self) -> usize {
        (self.period * self.rounds.saturating_sub(DRAWN)).saturating_sub(1)
    }
}

/// The lines of all steps, with a note over `everybody` in place of what only repeats.
pub(super) fn fold(steps: &[Step], everybody: &str) -> Vec<String> {
    let Some(found) = longest(steps) else {
        return lines(steps);
    };
    let drawn = found.start + found.period * DRAWN;
    let mut folded = fold(&steps[..found.start], everybody);
    folded.extend(lines(&steps[found.start..drawn]));
    folded.push(format!(
        "Note over {everybody}: and {} more like this",
        found.rounds - DRAWN
    ));
    folded.extend(fold(&steps[found.end()..], everybody));
    folded
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps.iter().flat_map(|step| step.lines.clone()).collect()
}

/// The repetition that saves most. Of equals it is the last: a round that is cut off then stands before the rounds,
/// where loops start differently, and not after them.
fn longest(steps: &[Step]) -> Option<Repetition> {
    let mut best: Option<Repetition> = None;
    for start in 0..steps.len() {
        for period in 1..=(steps.len() - start) / (DRAWN + 1) {
            let rest = &steps[start..];
            let alike = rest
                .iter()
                .zip(&rest[period..])
                .take_while(|(one, next)| one.pattern == next.pattern)
                .count();
            let found = Repetition {
                start,
                period,
                rounds: alike / period + 1,
            };
            let saving = found.saving();
            if saving > 0 && best.as_ref().is_none_or(|best| saving >= best.saving()) {
                best = Some(found);
            }
        }
    }
    best
}
