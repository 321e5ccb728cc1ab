//! What happened between two moments, with names.

use std::sync::Arc;

use crate::history::detail::{Detail, Names, WorkerSums};
use crate::history::totals::Totals;
use crate::snapshot::CpuByPhase;

/// What happened between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Its end, in seconds since 1970.
    pub at: f64,
    /// Its length.
    pub seconds: f64,
    /// Counts in columns that are always the same.
    pub totals: Totals,
    /// Completed handshakes by site, listener, version, kind of certificate and kind; those that happened.
    pub handshakes: Vec<HandshakePart>,
    /// Requests by site; every site that ever had one.
    pub requests: Vec<(Arc<str>, u64)>,
    /// Connections accepted by listener, every listener that was ever there.
    pub accepted: Vec<(Arc<str>, u64)>,
    /// Workers, by number.
    pub workers: Vec<WorkerPart>,
}

/// Handshakes of one set of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakePart {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// Listener, or `other`.
    pub listener: Arc<str>,
    /// `TLSv1.2` or `TLSv1.3`; `other` beyond the number of sets that is kept.
    pub version: &'static str,
    /// Kind of certificate; `none` when resumed.
    pub certificate: &'static str,
    /// `full`, `full_with_retry` or `resumed`.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// CPU time of phase 1.
    pub asymmetric_nanos: u64,
    /// CPU time of phase 2.
    pub derivation_nanos: u64,
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerPart {
    /// Its number, from 0.
    pub worker: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Requests answered.
    pub requests: u64,
    /// CPU time by phase.
    pub cpu: CpuByPhase,
    /// CPU time as the kernel counts it.
    pub kernel_nanos: u64,
}

impl HandshakePart {
    /// Whether an earlier session was taken up.
    pub fn is_resumed(&self) -> bool {
        self.kind == "resumed"
    }

    /// CPU time of phases 1 and 2.
    pub fn nanos(&self) -> u64 {
        self.asymmetric_nanos + self.derivation_nanos
    }
}

impl Interval {
    /// `count` per second; zero for an interval without length.
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// CPU time in cores: seconds per second.
    pub fn cores(&self, nanos: u64) -> f64 {
        self.rate(nanos) / 1e9
    }

    /// Connections that the busiest worker accepted over the mean of all; 1 is even, the number of workers is all
    /// on one. `None` where none was accepted.
    pub fn worker_imbalance(&self) -> Option<f64> {
        let most = self.workers.iter().map(|worker| worker.accepted).max()?;
        let all: u64 = self.workers.iter().map(|worker| worker.accepted).sum();
        (all > 0).then(|| most as f64 * self.workers.len() as f64 / all as f64)
    }

    pub(crate) fn name(&mut self, names: &Names, later: &Detail, earlier: &Detail) {
        self.handshakes = names
            .rows
            .all()
            .iter()
            .zip(differences(&later.rows, &earlier.rows))
            .filter(|(_, [count, _, _])| *count > 0)
            .map(
                |(labels, [count, asymmetric_nanos, derivation_nanos])| HandshakePart {
                    site: Arc::clone(&labels.site),
                    listener: Arc::clone(&labels.listener),
                    version: labels.version,
                    certificate: labels.certificate,
                    kind: labels.kind,
                    count,
                    asymmetric_nanos,
                    derivation_nanos,
                },
            )
            .collect();
        self.requests = named(names.sites.all(), &later.requests, &earlier.requests);
        self.accepted = named(names.listeners.all(), &later.accepted, &earlier.accepted);
        self.workers = later
            .workers
            .iter()
            .enumerate()
            .map(|(worker, now)| {
                let before = earlier.workers.get(worker).copied().unwrap_or_default();
                worker_part(worker, *now, before)
            })
            .collect();
    }
}

fn worker_part(worker: usize, now: WorkerSums, before: WorkerSums) -> WorkerPart {
    WorkerPart {
        worker,
        accepted: now.accepted.saturating_sub(before.accepted),
        handshakes: now.handshakes.saturating_sub(before.handshakes),
        requests: now.requests.saturating_sub(before.requests),
        cpu: now.cpu.since(before.cpu),
        kernel_nanos: now.kernel_nanos.saturating_sub(before.kernel_nanos),
    }
}

/// Differences by number; a number that was not there before had zero.
fn differences<'a>(
    later: &'a [[u64; 3]],
    earlier: &'a [[u64; 3]],
) -> impl Iterator<Item = [u64; 3]> + 'a {
    later.iter().enumerate().map(|(number, now)| {
        let before = earlier.get(number).copied().unwrap_or_default();
        std::array::from_fn(|column| now[column].saturating_sub(before[column]))
    })
}

/// Number 0, what is beyond the names that are kept, only where something was counted.
fn named(names: &[Arc<str>], later: &[u64], earlier: &[u64]) -> Vec<(Arc<str>, u64)> {
    names
        .iter()
        .zip(later)
        .enumerate()
        .filter(|(number, (_, now))| *number > 0 || **now > 0)
        .map(|(number, (name, now))| {
            let before = earlier.get(number).copied().unwrap_or_default();
            (Arc::clone(name), now.saturating_sub(before))
        })
        .collect()
}
