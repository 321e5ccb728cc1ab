//! Moments of the past: what was counted up to each of them, so that any two give an interval.
//!
//! Three tiers: every second for 10 minutes, every 10 seconds for 2 hours, every minute for 24 hours; 2,760
//! moments of 0.8 KB. Names (sites, listeners, workers) are kept for every second of the last minute and every
//! tenth second of the last ten minutes. That is 2.1 MB, with another 45 KB per moment with names when a server
//! has as many sites as are kept apart: 8 MB at the most, whatever clients send and however long it runs.

mod configurations;
mod detail;
mod interval;
mod totals;

pub use configurations::Configuration;
pub use interval::{HandshakePart, Interval, WorkerPart};
pub use totals::{Held, Open, RecordTotals, Totals, VersionTotals};

use std::collections::VecDeque;

use crate::snapshot::Snapshot;
use configurations::Configurations;
use detail::{Detail, Names};

/// Seconds between the moments of a tier, and how many moments it has.
const TIERS: [(f64, usize); 3] = [(1.0, 600), (10.0, 720), (60.0, 1_440)];
/// Moments of the finest tier that keep their names; of those before, every tenth does.
const NAMED: usize = 63;
const NAMED_EVERY: u64 = 10;
/// The longest interval that [`History::over`] gives.
const LONGEST_SECONDS: f64 = 600.0;
/// Marks that are remembered.
const MARKS: usize = 256;
/// The same mark within so many seconds is one mark: who makes it and who sees it may both tell of it.
const SAME_MARK_SECONDS: f64 = 10.0;
/// A clock that goes back by less is waited for; by more, and history begins anew.
const STEP_BACK_SECONDS: f64 = 60.0;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryMark {
    /// When, in seconds since 1970.
    pub at: f64,
    /// `start`, `reload` or `alarm`.
    pub kind: &'static str,
    /// Hash of the configuration, or the sentence of the alarm.
    pub text: String,
}

/// The past of one process. Fed once a second by the one who holds it; reads no clock.
#[derive(Debug)]
pub struct History {
    tiers: [VecDeque<Moment>; TIERS.len()],
    names: Names,
    configurations: Configurations,
    marks: VecDeque<HistoryMark>,
    alarm_changes: Vec<(&'static str, u64)>,
    taken: u64,
}

#[derive(Debug)]
struct Moment {
    at: f64,
    number: u64,
    totals: Totals,
    detail: Option<Box<Detail>>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self {
            tiers: empty_tiers(),
            names: Names::new(),
            configurations: Configurations::default(),
            marks: VecDeque::new(),
            alarm_changes: Vec::new(),
            taken: 0,
        }
    }

    /// Takes in what was counted up to `at`, in seconds since 1970: once a second.
    ///
    /// A configuration that was not in force before leaves a mark by itself. Moments at or before the last one
    /// are passed over; a clock that was set back by more than a minute begins the history anew.
    pub fn take(&mut self, at: f64, snapshot: &Snapshot) {
        let back = self.last_at().map_or(-1.0, |last| last - at);
        if !at.is_finite() || (0.0..STEP_BACK_SECONDS).contains(&back) {
            return;
        }
        if back >= STEP_BACK_SECONDS {
            self.tiers = empty_tiers();
        }
        let totals = Totals::of(snapshot);
        let hash = &snapshot.process.config_hash;
        let is_first = self.configurations.all().next().is_none();
        if self.configurations.take(at, hash, &totals) {
            let kind = if is_first { "start" } else { "reload" };
            self.mark(at, kind, hash.clone());
        }
        self.taken += 1;
        for (tier, (step, moments)) in self.tiers.iter_mut().zip(TIERS) {
            let is_finest = step <= 1.0;
            let is_due = tier
                .back()
                .is_none_or(|last| (at / step).floor() > (last.at / step).floor());
            if !is_finest && !is_due {
                continue;
            }
            if tier.len() > moments {
                tier.pop_front();
            }
            tier.push_back(Moment {
                at,
                number: self.taken,
                totals,
                detail: is_finest.then(|| Box::new(self.names.detail(snapshot))),
            });
        }
        self.forget_names();
    }

    /// Remembers that something happened: `start`, `reload` or `alarm`. The same again within ten seconds is
    /// passed over.
    pub fn mark(&mut self, at: f64, kind: &'static str, text: String) {
        let is_same = |mark: &HistoryMark| {
            (mark.kind, &mark.text) == (kind, &text) && (at - mark.at).abs() < SAME_MARK_SECONDS
        };
        if self.marks.iter().any(is_same) {
            return;
        }
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(HistoryMark { at, kind, text });
    }

    /// Remembers that an alarm began to fire or went quiet, as a mark and as a count.
    pub fn alarm(&mut self, at: f64, name: &'static str, sentence: String) {
        match self.alarm_changes.iter_mut().find(|one| one.0 == name) {
            Some((_, count)) => *count += 1,
            None => self.alarm_changes.push((name, 1)),
        }
        self.mark(at, "alarm", sentence);
    }

    /// How often each alarm began to fire or went quiet since the process started; those that ever did.
    pub fn alarm_changes(&self) -> &[(&'static str, u64)] {
        &self.alarm_changes
    }

    /// What was marked in the last `seconds`, oldest first.
    pub fn marks(&self, seconds: f64) -> impl Iterator<Item = &HistoryMark> {
        let from = self.last_at().unwrap_or_default() - seconds;
        self.marks.iter().filter(move |mark| mark.at >= from)
    }

    /// The last finished second.
    pub fn second(&self) -> Interval {
        self.over(1.0)
    }

    /// The last `seconds`, at most ten minutes; since the beginning when that is less. An interval without
    /// length before there are two moments, with what is open and held.
    pub fn over(&self, seconds: f64) -> Interval {
        self.between(seconds, 0.0)
    }

    /// What happened from `older` to `newer` seconds ago, `older` at most ten minutes; shorter when the
    /// beginning is nearer.
    pub fn between(&self, older: f64, newer: f64) -> Interval {
        let (Some(last), Some(now)) = (self.last_at(), self.moment(newer)) else {
            return Interval::default();
        };
        let older = older.min(LONGEST_SECONDS);
        let before = self.moment(older).filter(|before| before.at < now.at);
        let mut interval = Interval {
            at: last.min(now.at),
            seconds: before.map_or(0.0, |before| now.at - before.at),
            totals: now.totals.since(&before.unwrap_or(now).totals),
            ..Interval::default()
        };
        if let Some(later) = &now.detail {
            let earlier = before.unwrap_or(now).detail.as_deref();
            interval.name(&self.names, later, earlier.unwrap_or(later));
        }
        interval
    }

    /// Counts since the process started, at the last moment.
    pub fn totals(&self) -> Totals {
        self.tiers[0]
            .back()
            .map_or_else(Totals::default, |last| last.totals)
    }

    /// The last `seconds` in about `points` intervals of one length, oldest first: the length is a whole number
    /// of steps of the finest tier that reaches back so far. The intervals follow each other without a gap.
    pub fn columns(&self, seconds: f64, points: usize) -> (f64, Vec<Interval>) {
        let reaching = |(step, moments): (f64, usize)| step * moments as f64 >= seconds;
        let number = TIERS.iter().position(|tier| reaching(*tier)).unwrap_or(2);
        let (step, _) = TIERS[number];
        let stride = (seconds / step / points.max(1) as f64).ceil().max(1.0);
        let length = stride * step;
        let mut intervals = Vec::new();
        let Some(last) = self.last_at() else {
            return (length, intervals);
        };
        // A tier's last moment may be some seconds old: the present belongs to the graph too.
        let moments = self.tiers[number]
            .iter()
            .filter(|moment| moment.at > last - seconds - length - step)
            .chain(self.tiers[0].back().filter(|_| number > 0));
        let mut before: Option<&Moment> = None;
        for moment in moments {
            let slot = |moment: &Moment| (moment.at / length).floor();
            let Some(start) = before else {
                before = Some(moment);
                continue;
            };
            let is_last = moment.at >= last;
            if (slot(moment) > slot(start) || is_last) && moment.at > start.at {
                intervals.push(Interval {
                    at: moment.at,
                    seconds: moment.at - start.at,
                    totals: moment.totals.since(&start.totals),
                    ..Interval::default()
                });
                before = Some(moment);
            }
        }
        (length, intervals)
    }

    /// By how many cores per second the CPU time of the workers has been growing over the last `seconds` (at most
    /// ten minutes): the slope of a straight line through intervals of five seconds. Zero or less when it does not
    /// grow, and zero when the slope is less than twice its own uncertainty, or when the process is younger than
    /// that: what begins from nothing always grows.
    pub fn growth(&self, seconds: f64) -> f64 {
        let seconds = seconds.min(LONGEST_SECONDS);
        let (_, intervals) = self.columns(seconds, (seconds / 5.0) as usize);
        let points: Vec<(f64, f64)> = intervals
            .iter()
            .filter(|one| one.seconds >= 2.5)
            .map(|one| {
                (
                    one.at - one.seconds / 2.0,
                    one.cores(one.totals.worker_nanos),
                )
            })
            .collect();
        let covered: f64 = intervals.iter().map(|one| one.seconds).sum();
        if covered < seconds * 0.9 {
            return 0.0;
        }
        slope(&points).unwrap_or(0.0)
    }

    /// Handshakes in flight and the bytes that they held, on the average of the moments of the last `seconds`.
    pub fn handshakes_in_flight(&self, seconds: f64) -> (f64, f64) {
        let from = self.last_at().unwrap_or_default() - seconds;
        let moments = || self.tiers[0].iter().filter(move |moment| moment.at > from);
        let count = moments().count().max(1) as f64;
        let open: u64 = moments().map(|moment| moment.totals.open.handshake).sum();
        let held: i64 = moments()
            .map(|moment| moment.totals.held_bytes.handshake)
            .sum();
        (open as f64 / count, held as f64 / count)
    }

    /// Configurations that were in force, oldest first; at most the last 32.
    pub fn configurations(&self) -> impl Iterator<Item = &Configuration> {
        self.configurations.all()
    }

    fn last_at(&self) -> Option<f64> {
        Some(self.tiers[0].back()?.at)
    }

    /// The moment with names that lies nearest to `ago` seconds before the last one.
    fn moment(&self, ago: f64) -> Option<&Moment> {
        let wanted = self.last_at()? - ago;
        self.tiers[0]
            .iter()
            .filter(|moment| moment.detail.is_some())
            .min_by(|a, b| f64::total_cmp(&(a.at - wanted).abs(), &(b.at - wanted).abs()))
    }

    fn forget_names(&mut self) {
        let finest = &mut self.tiers[0];
        if let Some(index) = finest.len().checked_sub(NAMED + 1)
            && let Some(moment) = finest.get_mut(index)
            && moment.number % NAMED_EVERY != 1
        {
            moment.detail = None;
        }
    }
}

fn empty_tiers() -> [VecDeque<Moment>; TIERS.len()] {
    TIERS.map(|(_, moments)| VecDeque::with_capacity(moments + 1))
}

/// The slope of the straight line of least squares; `None` for fewer than four points or when it is not certain.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 4 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let together: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let slope = together / spread;
    let left: f64 = points
        .iter()
        .map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2))
        .sum();
    let uncertainty = (left / (count - 2.0) / spread).sqrt();
    (slope.is_finite() && slope.abs() > 2.0 * uncertainty).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_is_said_of_it() {
        let moments: usize = TIERS.iter().map(|(_, moments)| moments + 1).sum();
        let bytes = moments * size_of::<Moment>();
        assert!((2_000_000..2_200_000).contains(&bytes), "{bytes}");
    }
}
