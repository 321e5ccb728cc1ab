//! The middle of repetitions, and how far it can be trusted.

use serde::{Deserialize, Serialize};

/// Chance that the true median lies outside of the spread, on each side.
const TAIL: f64 = 0.025;

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

    /// Median of `samples`, and the interval that holds the true one in at least 95 of 100 runs; `None`
    /// when there are no samples or one is not a finite number.
    ///
    /// The interval is taken between order statistics, so it supposes nothing about how the samples are
    /// distributed, and no sample is rejected. Below six samples no such interval exists; then it is
    /// everything between the smallest and the largest.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let cut = outside(sorted.len());
        Some(Self {
            n: sorted.len() as u64,
            median: f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]),
            low: sorted[cut],
            high: sorted[last - cut],
        })
    }

    /// Whether `self` and `other` are further apart than their spreads explain.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.high < other.low || other.high < self.low
    }

    /// Half the width of the spread as a share of the median: 0.02 for ±2 %. 0 for an exact figure.
    pub fn relative_spread(&self) -> f64 {
        let width = self.high - self.low;
        if width <= 0.0 {
            0.0
        } else if self.median == 0.0 {
            f64::INFINITY
        } else {
            width / 2.0 / self.median.abs()
        }
    }

    /// The same figure in another unit, `factor` times as large.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let (low, high) = (self.low * factor, self.high * factor);
        Self {
            n: self.n,
            median: self.median * factor,
            low: low.min(high),
            high: low.max(high),
        }
    }

    /// `numerator` over it, such as bytes per second from seconds per byte; the ends change places.
    #[must_use]
    pub fn inverted(&self, numerator: f64) -> Self {
        Self {
            n: self.n,
            median: numerator / self.median,
            low: numerator / self.high,
            high: numerator / self.low,
        }
    }

    /// `self` over `other`, as far apart as the two spreads allow.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self {
            n: self.n.min(other.n),
            median: self.median / other.median,
            low: self.low / other.high,
            high: self.high / other.low,
        }
    }
}

/// How many of `n` sorted samples lie below the interval, and as many above: the most for which a fair
/// coin thrown `n` times shows fewer heads than that, plus one, with a chance of at most [`TAIL`].
fn outside(n: usize) -> usize {
    // The chance of no head at all is 2^-n, which a double cannot hold beyond n = 1074; the normal
    // approximation is exact to the last sample long before that.
    if n > 500 {
        let half = n as f64 / 2.0;
        return (half - 1.96 * half.sqrt() / std::f64::consts::SQRT_2).floor() as usize - 1;
    }
    let mut chance = 0.5_f64.powi(n as i32);
    let mut sum = chance;
    let mut cut = 0;
    while sum <= TAIL {
        chance *= (n - cut) as f64 / (cut + 1) as f64;
        sum += chance;
        cut += 1;
    }
    cut.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn up_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn the_interval_is_the_one_in_the_tables_of_the_sign_test() {
        // Ranks for 95 %: n = 6 -> 1 and 6; 10 -> 2 and 9; 15 -> 4 and 12; 25 -> 8 and 18; 100 -> 40 and 61.
        for (n, low, high) in [
            (6, 1.0, 6.0),
            (10, 2.0, 9.0),
            (15, 4.0, 12.0),
            (25, 8.0, 18.0),
            (100, 40.0, 61.0),
        ] {
            let measured = Measured::of(&up_to(n)).unwrap();
            assert!(
                (measured.low - low).abs() < 1e-9 && (measured.high - high).abs() < 1e-9,
                "{n}: {measured:?}"
            );
        }
    }

    #[test]
    fn the_approximation_for_many_samples_agrees_with_the_exact_count() {
        let exact = Measured::of(&up_to(500)).unwrap();
        let near = Measured::of(&up_to(502)).unwrap();
        assert!((exact.low - near.low).abs() <= 2.0, "{exact:?} {near:?}");
        assert!(near.high - near.low >= exact.high - exact.low - 1.0);
    }

    #[test]
    fn few_samples_give_everything_that_was_seen() {
        let measured = Measured::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (measured.n, measured.median, measured.low, measured.high),
            (3, 2.0, 1.0, 3.0)
        );
        assert!((Measured::of(&[1.0, 2.0]).unwrap().median - 1.5).abs() < 1e-12);
    }

    #[test]
    fn one_wild_sample_moves_neither_the_median_nor_the_interval() {
        let mut samples = up_to(25);
        let calm = Measured::of(&samples).unwrap();
        samples[24] = 1e9;
        assert_eq!(Measured::of(&samples).unwrap(), calm);
    }

    #[test]
    fn nothing_and_what_is_not_a_number_are_no_figure() {
        assert!(Measured::of(&[]).is_none());
        assert!(Measured::of(&[1.0, f64::NAN]).is_none());
        assert!(Measured::of(&[1.0, f64::INFINITY]).is_none());
    }

    #[test]
    fn figures_whose_spreads_overlap_are_not_told_apart() {
        let one = Measured::of(&up_to(25)).unwrap();
        let same = one.scaled(1.2);
        let other = one.scaled(3.0);
        assert!(!one.differs_from(&same) && !same.differs_from(&one));
        assert!(one.differs_from(&other) && other.differs_from(&one));
    }

    #[test]
    fn a_ratio_and_an_inverse_carry_their_spread() {
        let one = Measured {
            n: 9,
            median: 10.0,
            low: 8.0,
            high: 20.0,
        };
        let inverse = one.inverted(40.0);
        assert_eq!((inverse.low, inverse.median, inverse.high), (2.0, 4.0, 5.0));
        let ratio = one.over(&Measured::exact(2.0));
        assert_eq!((ratio.low, ratio.median, ratio.high), (4.0, 5.0, 10.0));
        assert!((one.relative_spread() - 0.6).abs() < 1e-12);
    }
}
