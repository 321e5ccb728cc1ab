//! Counting while a run is on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate_terms::{HandshakeFacts, ResumptionMiss};
use tollgate_tls::client::Intent;

use super::result::{EarlyDataCount, Handshakes};
use super::share::Share;
use super::trouble::Trouble;

/// Largest time that is told apart: one minute, in microseconds.
const LONGEST_MICROS: u64 = 60_000_000;

/// From here on an operation counts as begun late.
const LATE: Duration = Duration::from_millis(1);

/// Counts of one part in one thread; operations, bytes and failures only inside the measured window.
pub(crate) struct Tally {
    phase: Phase,
    hits: Share,
    early: Share,
    /// What is reported.
    pub(crate) counts: Counts,
    /// The same since the last look, for the table over time.
    lately: Counts,
    /// Handshakes of the whole run, from its first to its last.
    pub(crate) ever: Pair,
}

/// Full and resumed handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) full: u64,
    pub(crate) resumed: u64,
}

impl Pair {
    pub(crate) fn total(self) -> u64 {
        self.full + self.resumed
    }

    /// Share of the resumed; `None` without any handshake.
    pub(crate) fn hit_rate(self) -> Option<f64> {
        (self.total() > 0).then(|| self.resumed as f64 / self.total() as f64)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.full += other.full;
        self.resumed += other.resumed;
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            full: self.full.saturating_sub(earlier.full),
            resumed: self.resumed.saturating_sub(earlier.resumed),
        }
    }
}

/// Everything that adds up over parts and threads.
#[derive(Clone)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    pub(crate) body_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) handshakes: Handshakes,
    pub(crate) early_data: EarlyDataCount,
    /// Handshakes that should have resumed and had no ticket left.
    pub(crate) ran_out: u64,
    pub(crate) late_starts: u64,
    /// Operations that were due and had not begun at the end.
    pub(crate) not_started: u64,
    /// Handshakes on their way when the window ended.
    pub(crate) unfinished: u64,
    /// Connections that were held and open at the end.
    pub(crate) held: u64,
    pub(crate) operation: Times,
    pub(crate) handshake: Times,
}

/// A histogram of times; none at all if its bounds were wrong, which they are not.
#[derive(Clone)]
pub(crate) struct Times(Option<Histogram<u64>>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_MICROS, 3).ok())
    }

    fn record(&mut self, took: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST_MICROS));
        }
    }

    fn add(&mut self, other: &Self) {
        if let (Some(ours), Some(theirs)) = (&mut self.0, &other.0) {
            // The bounds are the same, so nothing can be out of them.
            let _ = ours.add(theirs);
        }
    }

    /// The histogram, if it holds anything.
    pub(crate) fn recorded(&self) -> Option<&Histogram<u64>> {
        self.0.as_ref().filter(|histogram| !histogram.is_empty())
    }
}

/// What is in a histogram: values, and how often each.
pub(crate) fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded
        .map(|value| (value.value_iterated_to(), value.count_at_value()))
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            body_bytes: 0,
            sent_bytes: 0,
            failures: BTreeMap::new(),
            handshakes: Handshakes::default(),
            early_data: EarlyDataCount::default(),
            ran_out: 0,
            late_starts: 0,
            not_started: 0,
            unfinished: 0,
            held: 0,
            operation: Times::new(),
            handshake: Times::new(),
        }
    }

    /// Adds what another thread or part has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.body_bytes += other.body_bytes;
        self.sent_bytes += other.sent_bytes;
        for (reason, count) in &other.failures {
            *self.failures.entry(reason.clone()).or_default() += count;
        }
        self.handshakes.merge(&other.handshakes);
        self.early_data.add(other.early_data);
        self.ran_out += other.ran_out;
        self.late_starts += other.late_starts;
        self.not_started += other.not_started;
        self.unfinished += other.unfinished;
        self.held += other.held;
        self.operation.add(&other.operation);
        self.handshake.add(&other.handshake);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl Tally {
    /// For a part that asks for these shares.
    pub(crate) fn new(hit_rate: f64, early_data_rate: f64) -> Self {
        Self {
            phase: Phase::WarmUp,
            hits: Share::new(hit_rate),
            early: Share::new(early_data_rate),
            counts: Counts::new(),
            lately: Counts::new(),
            ever: Pair::default(),
        }
    }

    /// The same with the share of hits over about so many of the latest handshakes.
    pub(crate) fn hits_over(self, memory: Option<u64>) -> Self {
        Self {
            hits: self.hits.lately(memory),
            ..self
        }
    }

    /// The measured window begins; with `anew`, handshakes made before it do not count.
    pub(crate) fn begin(&mut self, anew: bool) {
        let before = std::mem::replace(&mut self.counts, Counts::new());
        self.lately = Counts::new();
        self.phase = Phase::Measured;
        if anew {
            self.hits.restart();
            self.early.restart();
        } else {
            self.counts.handshakes = before.handshakes;
            self.counts.handshake = before.handshake;
            self.counts.early_data = before.early_data;
            self.counts.ran_out = before.ran_out;
        }
    }

    /// The measured window is over: nothing counts any more but the handshakes of the whole run.
    pub(crate) fn end(&mut self) {
        if self.phase == Phase::Measured {
            self.counts.unfinished = self.hits.open();
        }
        self.phase = Phase::Over;
    }

    /// What has been counted since this was last asked.
    pub(crate) fn lately(&mut self) -> Counts {
        std::mem::replace(&mut self.lately, Counts::new())
    }

    /// What the next handshake shall be, given how many sessions are kept. To be followed by
    /// [`Tally::handshake`] or [`Tally::no_handshake`].
    pub(crate) fn intend(&mut self, kept: usize) -> Intent {
        let wanted = self.hits.wants();
        if wanted && kept == 0 && self.phase != Phase::Over {
            self.counts.ran_out += 1;
        }
        let resume = wanted && kept > 0;
        self.hits.begin(resume);
        match resume {
            true => Intent::Resume,
            false => Intent::Full,
        }
    }

    /// A handshake is complete.
    pub(crate) fn handshake(&mut self, intent: Intent, facts: &HandshakeFacts, took: Duration) {
        let resumed = facts.kind.is_resumed();
        self.hits.end(intent == Intent::Resume, Some(resumed));
        self.ever.add(Pair {
            full: u64::from(!resumed),
            resumed: u64::from(resumed),
        });
        if self.phase != Phase::Over {
            // Another connection was faster to take the last ticket.
            let late =
                intent == Intent::Resume && facts.miss == Some(ResumptionMiss::NothingOffered);
            self.counts.ran_out += u64::from(late);
            for counts in [&mut self.counts, &mut self.lately] {
                counts.handshakes.add(facts);
                counts.handshake.record(took);
            }
        }
    }

    /// A handshake has failed.
    pub(crate) fn no_handshake(&mut self, intent: Intent) {
        self.hits.end(intent == Intent::Resume, None);
    }

    /// Whether the request of a handshake that shall resume is to be sent as early data. To be followed
    /// by [`Tally::early`].
    pub(crate) fn intend_early(&mut self, intent: Intent) -> bool {
        let wanted = intent == Intent::Resume && self.early.wants();
        if intent == Intent::Resume {
            self.early.begin(wanted);
        }
        wanted
    }

    /// What became of early data in a handshake that was meant to resume: `None` when the handshake
    /// failed, then whether it was sent, then whether it was accepted.
    pub(crate) fn early(&mut self, meant: bool, done: Option<Option<bool>>) {
        self.early.end(meant, done.map(|sent| sent.is_some()));
        if self.phase == Phase::Over {
            return;
        }
        let count = &mut self.counts.early_data;
        match done {
            Some(Some(accepted)) => {
                count.sent += 1;
                count.accepted += u64::from(accepted);
                count.rejected += u64::from(!accepted);
            }
            Some(None) => count.not_allowed += u64::from(meant),
            None => {}
        }
    }

    /// Bytes of a response's body have come.
    pub(crate) fn body(&mut self, bytes: u64) {
        if self.phase == Phase::Measured {
            self.counts.body_bytes += bytes;
            self.lately.body_bytes += bytes;
        }
    }

    /// Whether operations that end now count.
    pub(crate) fn is_measuring(&self) -> bool {
        self.phase == Phase::Measured
    }

    /// An operation is over that counts, whose request had a body of `sent` bytes.
    pub(crate) fn operation(&mut self, done: Result<(), &Trouble>, sent: u64, took: Duration) {
        for counts in [&mut self.counts, &mut self.lately] {
            match done {
                Ok(()) => {
                    counts.operations += 1;
                    counts.sent_bytes += sent;
                    counts.operation.record(took);
                }
                Err(trouble) => *counts.failures.entry(trouble.to_string()).or_default() += 1,
            }
        }
    }

    /// An operation begins now that was due at `due`.
    pub(crate) fn start(&mut self, due: Instant) {
        if self.phase == Phase::Measured && due.elapsed() > LATE {
            self.counts.late_starts += 1;
        }
    }

    /// At the end, so many of the connections that were held are open, and so many are lost.
    pub(crate) fn held(&mut self, open: usize, lost: usize) {
        self.counts.held = open as u64;
        if lost > 0 {
            let reason = Trouble::Closed.to_string();
            *self.counts.failures.entry(reason).or_default() += lost as u64;
        }
    }

    /// At the end, this many operations were due and had not begun.
    pub(crate) fn not_started(&mut self, waiting: u64) {
        self.counts.not_started = waiting;
    }
}
