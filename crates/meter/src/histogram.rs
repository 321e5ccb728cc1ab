//! Times in fixed buckets, so that workers, processes and machines add up exactly.

use serde::Serialize;

/// Upper bounds of the buckets in microseconds, inclusive, from 50 µs to 60 s; one more bucket takes what is longer.
pub const BOUNDS_MICROS: [u64; 19] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Number per bucket, not cumulative: as many as [`BOUNDS_MICROS`] and one more.
    pub buckets: [u64; BOUNDS_MICROS.len() + 1],
    /// Sum of all times in microseconds.
    pub sum_micros: u64,
}

impl Histogram {
    /// Takes one time in.
    pub fn add(&mut self, micros: u64) {
        // No early exit: nineteen comparisons without a branch are cheaper than a mispredicted search.
        let bucket = BOUNDS_MICROS
            .iter()
            .filter(|&&bound| micros > bound)
            .count();
        self.buckets[bucket] += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    /// How many times were taken in.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all times in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_micros as f64 / 1e6
    }

    /// Adds what another one holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_micros = self.sum_micros.saturating_add(other.sum_micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_on_the_bound_belongs_below_it() {
        let mut histogram = Histogram::default();
        for micros in [0, 50, 51, 60_000_000, 60_000_001, u64::MAX] {
            histogram.add(micros);
        }
        assert_eq!(histogram.buckets[0], 2);
        assert_eq!(histogram.buckets[1], 1);
        assert_eq!(histogram.buckets[18], 1);
        assert_eq!(histogram.buckets[19], 2);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.sum_micros, u64::MAX, "saturates");
    }
}
