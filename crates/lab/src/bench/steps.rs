//! How far a phase is, told before each figure.

use super::Bench;

/// Counts the figures of a phase.
pub(crate) struct Steps<'a> {
    bench: &'a Bench<'a>,
    done: usize,
    all: usize,
}

impl<'a> Steps<'a> {
    /// A phase of about `all` figures.
    pub(crate) fn new(bench: &'a Bench<'a>, all: usize) -> Self {
        Self {
            bench,
            done: 0,
            all: all.max(1),
        }
    }

    /// The next figure is about `label`.
    pub(crate) fn next(&mut self, label: &str) {
        let share = self.done as f64 / self.all as f64;
        self.bench.next(label, share.min(1.0));
        self.done += 1;
    }
}

/// Figures of a phase: ids of their own, and values that something was measured for.
#[cfg(test)]
#[allow(clippy::panic, reason = "a test may stop at once")]
pub(crate) fn assert_sound(figures: &[tollgate_cost::Figure]) {
    for (place, figure) in figures.iter().enumerate() {
        assert!(
            figure.measured.median > 0.0 && figure.measured.median.is_finite(),
            "{figure:?}"
        );
        assert!(figure.measured.low <= figure.measured.high, "{figure:?}");
        assert!(!figure.label.is_empty() && !figure.how.is_empty());
        let lower =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/-".contains(&byte);
        assert!(figure.id.bytes().all(lower), "{}", figure.id);
        let twin = figures[..place].iter().find(|other| other.id == figure.id);
        assert!(twin.is_none(), "{} is there twice", figure.id);
    }
}
