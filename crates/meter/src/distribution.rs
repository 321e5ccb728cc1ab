//! How often what was how much, in buckets that the quantity brings along.

use serde::Serialize;

/// Upper bounds for the age of tickets, in milliseconds: 1 s to 7 days, the longest that TLS 1.3 allows
/// (RFC 8446, section 4.6.1).
pub const TICKET_AGE_BOUNDS_MILLIS: [u64; 12] = [
    1_000,
    10_000,
    60_000,
    300_000,
    900_000,
    3_600_000,
    14_400_000,
    43_200_000,
    86_400_000,
    172_800_000,
    345_600_000,
    604_800_000,
];

/// Upper bounds for the life of connections, in milliseconds: 10 ms to a day.
pub const LIFETIME_BOUNDS_MILLIS: [u64; 12] = [
    10, 100, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 21_600_000,
    86_400_000,
];

/// Upper bounds for the number of requests on one connection.
pub const REQUESTS_BOUNDS: [u64; 12] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000];

/// How often what was how much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// Upper bounds of the buckets, inclusive, rising; empty before anything is known.
    pub bounds: &'static [u64],
    /// Number per bucket, not cumulative: as many as there are bounds, and one for what is beyond.
    pub counts: Vec<u64>,
    /// Sum of all values, in the unit of the bounds.
    pub sum: u64,
}

impl Distribution {
    /// Nothing taken in yet.
    pub fn new(bounds: &'static [u64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0,
        }
    }

    /// Takes one value in.
    pub fn add(&mut self, value: u64) {
        let bucket = self.bounds.iter().filter(|&&bound| value > bound).count();
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
            self.sum = self.sum.saturating_add(value);
        }
    }

    /// How many values were taken in.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another one of the same bounds holds. One that holds nothing takes the other's bounds.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_the_bound_belongs_below_it() {
        let mut requests = Distribution::new(&REQUESTS_BOUNDS);
        for value in [0, 1, 1, 3, 10_000, 10_001] {
            requests.add(value);
        }
        assert_eq!(requests.counts, [1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((requests.count(), requests.sum), (6, 20_006));
    }

    #[test]
    fn an_empty_one_takes_the_bounds_of_the_first_that_is_merged() {
        let mut lifetimes = Distribution::new(&LIFETIME_BOUNDS_MILLIS);
        lifetimes.add(7);
        let mut sum = Distribution::default();
        sum.merge(&lifetimes);
        sum.merge(&lifetimes);
        assert_eq!((sum.count(), sum.sum), (2, 14));
    }
}
