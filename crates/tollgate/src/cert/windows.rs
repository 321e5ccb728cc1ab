//! Full handshakes by kind of certificate over days that may have been observed in pieces. Pure.

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;

/// So much of a day must have been observed for it to count.
const ENOUGH_OF_A_DAY: f64 = 0.9;

/// So many full handshakes a day say something about a share of a thousandth.
pub const ENOUGH_HANDSHAKES: f64 = 1_000.0;

/// Full handshakes between two moments, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// From when.
    pub from: f64,
    /// Until when.
    pub until: f64,
    /// Full handshakes with an RSA certificate.
    pub rsa: f64,
    /// Full handshakes.
    pub all: f64,
}

/// A day counted back from now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Day {
    /// Part of it that was observed, 0 to 1.
    pub observed: f64,
    /// Full handshakes with an RSA certificate.
    pub rsa: f64,
    /// Full handshakes.
    pub all: f64,
}

impl Day {
    /// RSA over all; `None` without a handshake.
    pub fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.rsa / self.all)
    }

    /// What keeps this day from counting as one below `threshold`; `None` when nothing does.
    pub fn objection(&self, threshold: f64) -> Option<String> {
        if self.share().is_some_and(|share| share >= threshold) {
            return Some(format!(
                "{:.3} % of {:.0} full handshakes used RSA, not below {:.3} %",
                self.rsa / self.all * 100.0,
                self.all,
                threshold * 100.0
            ));
        }
        if self.observed < ENOUGH_OF_A_DAY {
            return Some(format!(
                "only {:.1} of 24 hours were observed",
                self.observed * 24.0
            ));
        }
        (self.all < ENOUGH_HANDSHAKES).then(|| {
            format!(
                "{:.0} full handshakes are too few to say; it takes {ENOUGH_HANDSHAKES:.0}",
                self.all
            )
        })
    }
}

/// The last `days` days before `now`, the newest first. A period counts for a day by the part that falls into it;
/// what two periods both cover counts once for the time, so hand in periods that do not overlap.
pub fn days(periods: &[Period], now: f64, days: u32) -> Vec<Day> {
    (0..days)
        .map(|back| {
            let until = now - f64::from(back) * DAY;
            let mut day = Day::default();
            for period in periods {
                let common = period.until.min(until) - period.from.max(until - DAY);
                let length = period.until - period.from;
                if common <= 0.0 || length <= 0.0 {
                    continue;
                }
                let part = common / length;
                day.observed += common / DAY;
                day.rsa += period.rsa * part;
                day.all += period.all * part;
            }
            day.observed = day.observed.min(1.0);
            day
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 100.0 * DAY;

    fn period(from_days: f64, until_days: f64, rsa: f64, all: f64) -> Period {
        Period {
            from: NOW - from_days * DAY,
            until: NOW - until_days * DAY,
            rsa,
            all,
        }
    }

    #[test]
    fn a_period_is_shared_out_over_the_days_that_it_covers() {
        let found = days(&[period(3.0, 0.0, 3.0, 30_000.0)], NOW, 2);
        assert_eq!(found.len(), 2);
        for day in found {
            assert!((day.observed - 1.0).abs() < 1e-9);
            assert!((day.all - 10_000.0).abs() < 1e-6 && (day.rsa - 1.0).abs() < 1e-6);
            assert_eq!(day.objection(0.001), None);
        }
    }

    #[test]
    fn a_day_with_too_much_rsa_or_too_little_sight_is_objected_to() {
        let found = days(
            &[
                period(2.0, 1.0, 50.0, 10_000.0),
                period(0.5, 0.0, 0.0, 10_000.0),
            ],
            NOW,
            3,
        );
        assert!(found[0].objection(0.001).unwrap().contains("12.0 of 24"));
        assert!(found[1].objection(0.001).unwrap().contains("0.500 %"));
        assert_eq!(found[1].objection(0.01), None);
        assert!(found[2].objection(0.001).unwrap().contains("0.0 of 24"));
        assert_eq!(found[2].share(), None);
    }

    #[test]
    fn a_quiet_day_says_nothing() {
        let found = days(&[period(1.0, 0.0, 0.0, 10.0)], NOW, 1);
        assert!(found[0].objection(0.001).unwrap().contains("too few"));
    }
}
