//! Counting while a run is on.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_terms::HandshakeFacts;

use crate::connection::Trouble;
use crate::options::{LoadOptions, Mode};
use crate::result::{Handshakes, Spread};

/// Largest time that is told apart: one minute, in microseconds.
const LONGEST_MICROS: u64 = 60_000_000;

/// Counts of one run; operations, bytes and failures only inside the measured window.
pub(crate) struct Tally {
    phase: Phase,
    pub(crate) operations: u64,
    pub(crate) body_bytes: u64,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) handshakes: Handshakes,
    not_started: u64,
    operation_micros: Option<Histogram<u64>>,
    handshake_micros: Option<Histogram<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::WarmUp,
            operations: 0,
            body_bytes: 0,
            failures: BTreeMap::new(),
            handshakes: Handshakes::default(),
            not_started: 0,
            operation_micros: histogram(),
            handshake_micros: histogram(),
        }
    }

    /// The measured window begins; with `anew`, handshakes made before it do not count.
    pub(crate) fn begin(&mut self, anew: bool) {
        let before = std::mem::replace(self, Self::new());
        self.phase = Phase::Measured;
        if !anew {
            self.handshakes = before.handshakes;
            self.handshake_micros = before.handshake_micros;
        }
    }

    /// The measured window is over: nothing counts any more.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Over;
    }

    pub(crate) fn handshake(&mut self, facts: &HandshakeFacts, took: Duration) {
        if self.phase != Phase::Over {
            self.handshakes.add(facts);
            record(&mut self.handshake_micros, took);
        }
    }

    pub(crate) fn body(&mut self, bytes: u64) {
        if self.phase == Phase::Measured {
            self.body_bytes += bytes;
        }
    }

    pub(crate) fn operation(&mut self, done: &Result<(), Trouble>, took: Duration) {
        if self.phase != Phase::Measured {
            return;
        }
        match done {
            Ok(()) => {
                self.operations += 1;
                record(&mut self.operation_micros, took);
            }
            Err(trouble) => *self.failures.entry(trouble.to_string()).or_default() += 1,
        }
    }

    /// An operation whose time had come found every connection busy.
    pub(crate) fn not_started(&mut self) {
        if self.phase == Phase::Measured {
            self.not_started += 1;
        }
    }

    pub(crate) fn operation_spread(&self) -> Option<Spread> {
        self.operation_micros.as_ref().and_then(Spread::of)
    }

    pub(crate) fn handshake_spread(&self) -> Option<Spread> {
        self.handshake_micros.as_ref().and_then(Spread::of)
    }

    /// Where the run was not what `options` ask for.
    pub(crate) fn missed(&self, options: &LoadOptions) -> Vec<String> {
        let mut missed = Vec::new();
        let total = self.handshakes.total();
        let resumed = self.handshakes.resumed as f64 / total.max(1) as f64;
        let counted = matches!(options.mode, Mode::Tps | Mode::Hold);
        if counted && (resumed - options.hit_rate).abs() > super::load::HIT_RATE_TOLERANCE {
            missed.push(format!(
                "a hit rate of {:.2} was asked for, {resumed:.2} was reached",
                options.hit_rate
            ));
        }
        for kind in &self.handshakes.kinds {
            if options
                .suite
                .is_some_and(|suite| suite.name() != kind.suite)
            {
                missed.push(format!("{} was negotiated", kind.suite));
            }
        }
        if self.operations == 0 && self.body_bytes == 0 {
            missed.push("no operation was finished".into());
        }
        let failed: u64 = self.failures.values().sum();
        if failed > 0 {
            missed.push(format!("{failed} operations failed"));
        }
        if self.not_started > 0 {
            missed.push(format!(
                "{} operations were not started in time; allow more connections or ask for a lower rate",
                self.not_started
            ));
        }
        missed
    }
}

fn histogram() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_MICROS, 3).ok()
}

fn record(histogram: &mut Option<Histogram<u64>>, took: Duration) {
    if let Some(histogram) = histogram {
        histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST_MICROS));
    }
}
