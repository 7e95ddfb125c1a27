//! When ready operations run: the freedom that CUDA's rules leave to a driver.

use std::fmt;
use std::str::FromStr;

use crate::explore::Explorer;

/// Which ready operation runs next, and whether any runs before it must.
///
/// Whatever is chosen, an operation runs only after everything it is ordered after, so every choice is legal.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Nothing runs until a host call forces it, and of the forced operations the latest ready one goes first.
    ///
    /// A missing wait shows its wrong value every time: whatever is not forced has not happened, and every pair
    /// of operations that no rule orders runs in the opposite of program order.
    Last,
    /// Every operation runs at its call, and counts as waited for: the naive fake, kept as a control.
    Eager,
    /// Nothing runs until forced, then in the order of the calls.
    Fifo,
    /// At every call each ready operation runs with probability one half; order by chance, repeatable by seed.
    Random {
        /// The seed.
        seed: u64,
        /// The generator's state.
        rng: fastrand::Rng,
    },
    /// Every order that can make a difference, one after the other, over repeated runs of the program; or one of them.
    Explore(Explorer),
}

impl Schedule {
    /// The schedule `random:seed`.
    pub fn random(seed: u64) -> Schedule {
        Schedule::Random {
            seed,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Which of `count` ready operations, oldest first, runs next? `count` is not 0.
    pub fn pick(&mut self, count: usize) -> usize {
        match self {
            Schedule::Last | Schedule::Explore(_) => count - 1,
            Schedule::Eager | Schedule::Fifo => 0,
            Schedule::Random { rng, .. } => rng.usize(..count),
        }
    }

    /// Does a ready operation run at this call although nothing forces it?
    pub fn runs_unforced(&mut self) -> bool {
        match self {
            Schedule::Last | Schedule::Fifo | Schedule::Explore(_) => false,
            Schedule::Eager => true,
            Schedule::Random { rng, .. } => rng.bool(),
        }
    }

    /// Does the return of a call count as a wait for everything enqueued so far?
    pub fn every_call_waits(&self) -> bool {
        matches!(self, Schedule::Eager)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Last => f.write_str("last"),
            Schedule::Eager => f.write_str("eager"),
            Schedule::Fifo => f.write_str("fifo"),
            Schedule::Random { seed, .. } => write!(f, "random:{seed}"),
            Schedule::Explore(explorer) => {
                let name = explorer.to_string();
                let colon = if name.is_empty() { "" } else { ":" };
                write!(f, "explore{colon}{name}")
            }
        }
    }
}

/// A schedule that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is no schedule; the schedules are last, eager, fifo, random:SEED with a number for SEED, explore, and explore:RUN with the RUN of a report")]
pub struct ScheduleError(String);

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        match text {
            "last" => Ok(Schedule::Last),
            "eager" => Ok(Schedule::Eager),
            "fifo" => Ok(Schedule::Fifo),
            "explore" => Ok(Schedule::Explore(Explorer::default())),
            _ => match text.split_once(':') {
                Some(("random", seed)) => seed.parse().ok().map(Schedule::random),
                Some(("explore", run)) => run.parse().ok().map(Schedule::Explore),
                _ => None,
            }
            .ok_or_else(|| ScheduleError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for name in [
            "last",
            "eager",
            "fifo",
            "random:7",
            "explore",
            "explore:3.5/1.0.2",
        ] {
            assert_eq!(
                name.parse::<Schedule>()
                    .map(|s| s.to_string())
                    .ok()
                    .as_deref(),
                Some(name)
            );
        }
        for name in [
            "",
            "LAST",
            "random",
            "random:",
            "random:x",
            "random:-1",
            "explore:",
            "explore:3",
        ] {
            assert!(name.parse::<Schedule>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        let draw = |seed| {
            let mut schedule = Schedule::random(seed);
            (0..64).map(|_| schedule.pick(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
