//! All schedules of a small program, one run after the other.
//!
//! A run is a sequence of choices; the next run takes the last choice that has an untaken alternative differently.
//! Only operations that take part in a race, or whose completion the program can observe, are worth a choice: all others
//! commute with everything that happens, so one order stands for all.
//! Which they are is found by running: when a run finds new ones, the search starts again with them.

use std::collections::BTreeSet;

use crate::op::OpId;

#[derive(Clone, Copy, Debug)]
struct Choice {
    options: usize,
    taken: usize,
}

/// The state of the search.
#[derive(Clone, Debug, Default)]
pub struct Explorer {
    /// Operations that are worth a choice.
    visible: BTreeSet<OpId>,
    /// The same, as this run found them.
    found: BTreeSet<OpId>,
    /// The choices of this run: first those that lead to where it differs from the last, then the first option each.
    choices: Vec<Choice>,
    /// Choices taken so far in this run.
    depth: usize,
    runs: u64,
}

impl Explorer {
    /// Is the operation worth a choice?
    pub fn is_visible(&self, op: OpId) -> bool {
        self.visible.contains(&op)
    }

    /// The program can tell when the operation runs.
    pub fn found(&mut self, op: OpId) {
        self.found.insert(op);
    }

    /// Takes one of `options` ways; `options` is not 0.
    pub fn choose(&mut self, options: usize) -> usize {
        if options == 1 {
            return 0;
        }
        if self.depth == self.choices.len() {
            self.choices.push(Choice { options, taken: 0 });
        }
        let choice = &mut self.choices[self.depth];
        self.depth += 1;
        // A program that is not deterministic by itself can offer fewer ways than it did in the last run.
        choice.options = options;
        choice.taken = choice.taken.min(options - 1);
        choice.taken
    }

    /// Prepares the next run; false when every schedule has been run.
    pub fn next_run(&mut self) -> bool {
        self.runs += 1;
        let new = !self.found.is_subset(&self.visible);
        self.visible.append(&mut self.found);
        if new {
            self.choices.clear();
        } else {
            self.choices.truncate(self.depth);
            while let Some(last) = self.choices.last_mut() {
                last.taken += 1;
                if last.taken < last.options {
                    break;
                }
                self.choices.pop();
            }
        }
        let more = new || !self.choices.is_empty();
        self.depth = 0;
        if !more {
            *self = Explorer {
                runs: self.runs,
                ..Explorer::default()
            };
        }
        more
    }

    /// Runs completed so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_of_choices_is_taken_once() {
        let mut explorer = Explorer::default();
        let mut seen = Vec::new();
        loop {
            let first = explorer.choose(2);
            // The number of later choices depends on the earlier ones, as in a real program.
            let second = if first == 0 { explorer.choose(3) } else { 0 };
            seen.push((first, second));
            if !explorer.next_run() {
                break;
            }
        }
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 0)]);
    }

    #[test]
    fn a_new_visible_operation_starts_the_search_again() {
        let mut explorer = Explorer::default();
        explorer.found(5);
        assert!(!explorer.is_visible(5));
        assert!(explorer.next_run());
        assert!(explorer.is_visible(5));
        explorer.choose(2);
        explorer.found(5);
        assert!(explorer.next_run());
        assert_eq!(explorer.choose(2), 1);
        assert!(!explorer.next_run());
        assert_eq!(explorer.runs(), 3);
    }
}
