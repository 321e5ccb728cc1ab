//! How long a key issues and accepts, and what that makes of it at a given moment.

use std::time::Duration;

use thiserror::Error;
use tollgate_terms::UnixTime;

/// Keys that a ring holds at most, waiting and accepting ones included.
pub const MAX_KEYS: usize = 64;

/// RFC 8446, section 4.6.1: no ticket lives longer.
const SEVEN_DAYS: Duration = Duration::from_secs(7 * 86_400);
/// A key that is stolen opens everything it issued; a month of that is more than anybody wants.
const THIRTY_DAYS: Duration = Duration::from_secs(30 * 86_400);
const ONE_HOUR: Duration = Duration::from_secs(3_600);

/// How long a key issues, and how much longer it accepts what it issued. Whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    issue: Duration,
    accept: Duration,
}

/// What a key is there for at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Made early, so that every member of a fleet holds it before one of them issues under it.
    Wait,
    /// New tickets are sealed under it.
    Issue,
    /// Its tickets are still taken, new ones are not made.
    Accept,
    /// To be forgotten.
    Retire,
}

impl Duty {
    /// `"wait"`, `"issue"`, `"accept"` or `"retire"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Issue => "issue",
            Self::Accept => "accept",
            Self::Retire => "retire",
        }
    }
}

/// Why two durations are no lifetimes of a ticket key. The operator can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LifetimesError {
    /// `issue` is under a second.
    #[error("issue of ticket keys is under 1 s; give it a second or more, 24h is usual")]
    IssueIsZero,
    /// `issue` is over thirty days.
    #[error(
        "issue of ticket keys is over 30 days; whoever steals the key reads that much traffic, 24h is usual"
    )]
    IssueOverThirtyDays,
    /// `accept` is over seven days.
    #[error(
        "accept of ticket keys is over 7 days, which no ticket lives (RFC 8446, section 4.6.1); 6h is usual"
    )]
    AcceptOverSevenDays,
    /// `accept` spans so many `issue` that a ring would hold more than [`MAX_KEYS`].
    #[error(
        "accept of ticket keys is over 60 times issue, which would keep over 60 keys alive; lengthen issue or shorten accept"
    )]
    AcceptOverSixtyIssues,
}

impl Lifetimes {
    /// Lifetimes of keys that issue for `issue` (1 s to 30 days) and accept for `accept` (0 to 7 days,
    /// at most 60 times `issue`) longer. Fractions of a second are dropped.
    ///
    /// # Errors
    /// When one of them is out of range.
    pub fn new(issue: Duration, accept: Duration) -> Result<Self, LifetimesError> {
        if issue.as_secs() == 0 {
            return Err(LifetimesError::IssueIsZero);
        }
        if issue > THIRTY_DAYS {
            return Err(LifetimesError::IssueOverThirtyDays);
        }
        if accept > SEVEN_DAYS {
            return Err(LifetimesError::AcceptOverSevenDays);
        }
        if accept.as_secs() / issue.as_secs() > 60 {
            return Err(LifetimesError::AcceptOverSixtyIssues);
        }
        Ok(Self {
            issue: Duration::from_secs(issue.as_secs()),
            accept: Duration::from_secs(accept.as_secs()),
        })
    }

    /// How long a key issues.
    pub fn issue(self) -> Duration {
        self.issue
    }

    /// How much longer it accepts.
    pub fn accept(self) -> Duration {
        self.accept
    }

    /// How long before it issues a key is made: one hour, or half of `issue` where that is shorter.
    pub fn lead(self) -> Duration {
        ONE_HOUR.min(self.issue / 2)
    }

    /// The duty at `now` of a key that begins to issue at `opens`.
    pub fn duty(self, opens: UnixTime, now: UnixTime) -> Duty {
        if now < opens {
            Duty::Wait
        } else if now < opens + self.issue {
            Duty::Issue
        } else if now < opens + self.issue + self.accept {
            Duty::Accept
        } else {
            Duty::Retire
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "tests"
    )]
    use super::*;

    fn at(hour: u64) -> UnixTime {
        UnixTime(1_790_000_000 + hour * 3_600)
    }

    fn hours(hours: u64) -> Duration {
        Duration::from_secs(hours * 3_600)
    }

    #[test]
    fn a_key_waits_issues_accepts_and_retires() {
        let lifetimes = Lifetimes::new(hours(24), hours(6)).unwrap();
        for (hour, duty) in [
            (0, Duty::Wait),
            (1, Duty::Issue),
            (24, Duty::Issue),
            (25, Duty::Accept),
            (30, Duty::Accept),
            (31, Duty::Retire),
        ] {
            assert_eq!(lifetimes.duty(at(1), at(hour)), duty, "at hour {hour}");
        }
    }

    #[test]
    fn lifetimes_out_of_range_are_refused_with_the_limit() {
        let day = hours(24);
        for (issue, accept, error) in [
            (Duration::from_millis(999), day, LifetimesError::IssueIsZero),
            (31 * day, day, LifetimesError::IssueOverThirtyDays),
            (day, 8 * day, LifetimesError::AcceptOverSevenDays),
            (
                Duration::from_secs(1),
                Duration::from_secs(61),
                LifetimesError::AcceptOverSixtyIssues,
            ),
        ] {
            assert_eq!(Lifetimes::new(issue, accept), Err(error));
        }
    }

    #[test]
    fn the_lead_is_an_hour_unless_keys_turn_faster() {
        assert_eq!(
            Lifetimes::new(hours(24), hours(6)).unwrap().lead(),
            hours(1)
        );
        let fast = Lifetimes::new(Duration::from_secs(10), Duration::from_secs(5)).unwrap();
        assert_eq!(fast.lead(), Duration::from_secs(5));
    }
}
