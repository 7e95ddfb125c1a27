//! All schedules of a small program, one run after the other.
//!
//! A run is a sequence of choices; the next run takes the last choice that has an untaken alternative differently.
//! Only operations that take part in a race, or whose completion the program can observe, are worth a choice: all others
//! commute with everything that happens, so one order stands for all.
//! Which they are is found by running: when a run finds new ones, the search starts again with them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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
    /// Is this one schedule that was asked for by its name, not the start of a search?
    named: bool,
}

/// The name of the present run's schedule: the operations that are worth a choice, and the choices.
///
/// `3.5/1.0.2` says that operations 3 and 5 are, and that the second, the first and the third way were taken; later
/// choices take the first way. Nothing is written for the start of a search.
impl fmt::Display for Explorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.visible.is_empty() && self.choices.is_empty() {
            return Ok(());
        }
        let visible: Vec<String> = self.visible.iter().map(OpId::to_string).collect();
        let mut taken: Vec<usize> = self.choices.iter().map(|choice| choice.taken).collect();
        while taken.last() == Some(&0) {
            taken.pop();
        }
        let taken: Vec<String> = taken.iter().map(usize::to_string).collect();
        write!(f, "{}/{}", visible.join("."), taken.join("."))
    }
}

/// A name that no schedule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASchedule;

impl FromStr for Explorer {
    type Err = NotASchedule;

    /// The one schedule of that name, to be run once.
    fn from_str(name: &str) -> Result<Explorer, NotASchedule> {
        let (visible, taken) = name.split_once('/').ok_or(NotASchedule)?;
        let choices = numbers(taken)?;
        Ok(Explorer {
            visible: numbers(visible)?.into_iter().collect(),
            choices: choices
                .into_iter()
                .map(|taken| Choice {
                    options: usize::MAX,
                    taken,
                })
                .collect(),
            named: true,
            ..Explorer::default()
        })
    }
}

fn numbers<T: FromStr>(text: &str) -> Result<Vec<T>, NotASchedule> {
    let numbers = text.split('.').filter(|number| !number.is_empty());
    numbers
        .map(|number| number.parse().map_err(|_| NotASchedule))
        .collect()
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

    /// Prepares the next run; false when every schedule has been run, or the one that was asked for.
    pub fn next_run(&mut self) -> bool {
        self.runs += 1;
        if self.named {
            self.depth = 0;
            return false;
        }
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

    #[test]
    fn a_run_is_repeated_by_its_name() {
        let mut explorer = Explorer::default();
        explorer.found(5);
        explorer.found(3);
        assert_eq!(explorer.to_string(), "");
        loop {
            assert!(explorer.next_run());
            let taken = [3, 2, 3].map(|options| explorer.choose(options));
            let name = explorer.to_string();
            let mut named: Explorer = name.parse().expect("the explorer wrote it");
            assert!(named.is_visible(3) && named.is_visible(5) && !named.is_visible(4));
            assert_eq!([3, 2, 3].map(|options| named.choose(options)), taken);
            assert_eq!(named.to_string(), name);
            assert!(!named.next_run());
            if taken == [1, 0, 2] {
                assert_eq!(name, "3.5/1.0.2");
                break;
            }
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "3", "3.x/", "/1,2", "3/-1"] {
            assert_eq!(name.parse::<Explorer>().err(), Some(NotASchedule), "{name}");
        }
    }
}
