//! The middle of repetitions, and how far it can be trusted.

use serde::{Deserialize, Serialize};

/// A median with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Repetitions.
    pub n: u64,
    /// Median of the repetitions.
    pub median: f64,
    /// Lower end of the spread.
    pub low: f64,
    /// Upper end of the spread.
    pub high: f64,
}

impl Measured {
    /// A count that does not vary, such as bytes of a message.
    pub fn exact(value: f64) -> Self {
        Self {
            n: 1,
            median: value,
            low: value,
            high: value,
        }
    }

    /// Median and quartiles of `samples`; `None` when there are none or one is not a number.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|sample| sample.is_nan()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            n: sorted.len() as u64,
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.25),
            high: quantile(&sorted, 0.75),
        })
    }

    /// Whether `self` and `other` are further apart than their spreads explain.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.high < other.low || other.high < self.low
    }
}

/// Value at `share` of a sorted list, interpolated.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}
