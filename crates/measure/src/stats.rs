//! Median and spread of repeated measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, Max, Median, Min, OrderStatistics};

/// Median and spread of the timed passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The range of the middle half: upper minus lower quartile.
    pub iqr: f64,
}

impl Summary {
    /// Of `samples`, or `None` if there is none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let mut data = Data::new(samples.to_vec());
        Some(Self {
            median: data.median(),
            min: data.min(),
            max: data.max(),
            iqr: data.interquartile_range(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends_are_found() {
        let summary = Summary::of(&[5.0, 1.0, 3.0, 2.0, 100.0]).unwrap();
        assert_eq!(
            (summary.median, summary.min, summary.max),
            (3.0, 1.0, 100.0)
        );
        assert!(summary.iqr > 0.0 && summary.iqr < 99.0);
    }

    #[test]
    fn one_sample_has_no_spread_and_none_has_no_summary() {
        let one = Summary::of(&[2.0]).unwrap();
        assert_eq!((one.median, one.iqr), (2.0, 0.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
