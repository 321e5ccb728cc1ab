//! What was counted up to a moment by names: sites, listeners, workers. Names come and never go.

use std::collections::HashMap;
use std::sync::Arc;

use crate::labels::OTHER;
use crate::snapshot::{CpuByPhase, Snapshot};

/// Sets of labels of handshakes that are kept apart; further ones are added up together.
const ROWS: usize = 1_024;
/// Sites and listeners that are kept apart.
const NAMES: usize = 512;

/// Handshakes of one site, listener, version, kind of certificate and kind of handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowLabels {
    pub(crate) site: Arc<str>,
    pub(crate) listener: Arc<str>,
    pub(crate) version: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) kind: &'static str,
}

/// Counts by the numbers that [`Names`] gave; a list that is too short stands for zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    /// Count, and nanoseconds of phases 1 and 2.
    pub(crate) rows: Vec<[u64; 3]>,
    pub(crate) requests: Vec<u64>,
    pub(crate) accepted: Vec<u64>,
    pub(crate) workers: Vec<WorkerSums>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerSums {
    pub(crate) accepted: u64,
    pub(crate) handshakes: u64,
    pub(crate) requests: u64,
    pub(crate) cpu: CpuByPhase,
    pub(crate) kernel_nanos: u64,
}

/// Which number a name has.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) rows: Numbered<RowLabels>,
    pub(crate) sites: Numbered<Arc<str>>,
    pub(crate) listeners: Numbered<Arc<str>>,
}

/// Things by number, at most so many; number 0 takes what is beyond.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    known: Vec<T>,
    numbers: HashMap<T, usize>,
    limit: usize,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn new(limit: usize, beyond: T) -> Self {
        Self {
            known: vec![beyond.clone()],
            numbers: HashMap::from([(beyond, 0)]),
            limit,
        }
    }

    fn number(&mut self, wanted: &T) -> usize {
        if let Some(&number) = self.numbers.get(wanted) {
            return number;
        }
        if self.known.len() >= self.limit {
            return 0;
        }
        self.known.push(wanted.clone());
        self.numbers.insert(wanted.clone(), self.known.len() - 1);
        self.known.len() - 1
    }

    /// All that are known, by number.
    pub(crate) fn all(&self) -> &[T] {
        &self.known
    }
}

impl Names {
    pub(crate) fn new() -> Self {
        let other = RowLabels {
            site: OTHER.into(),
            listener: OTHER.into(),
            version: OTHER,
            certificate: OTHER,
            kind: OTHER,
        };
        Self {
            rows: Numbered::new(ROWS, other),
            sites: Numbered::new(NAMES, OTHER.into()),
            listeners: Numbered::new(NAMES, OTHER.into()),
        }
    }

    /// Numbers what a snapshot names, and adds it up.
    pub(crate) fn detail(&mut self, snapshot: &Snapshot) -> Detail {
        let mut detail = Detail::default();
        for one in &snapshot.handshakes {
            let labels = RowLabels {
                site: Arc::clone(&one.labels.site),
                listener: Arc::clone(&one.labels.listener),
                version: one.labels.version,
                certificate: one.labels.certificate,
                kind: one.labels.kind,
            };
            let sums = at(&mut detail.rows, self.rows.number(&labels));
            sums[0] += one.count;
            sums[1] += one.asymmetric_nanos;
            sums[2] += one.derivation_nanos;
        }
        for one in &snapshot.requests {
            *at(&mut detail.requests, self.sites.number(&one.labels.site)) += one.count;
        }
        for one in &snapshot.accepted {
            let number = self.listeners.number(&one.labels.listener);
            *at(&mut detail.accepted, number) += one.count;
        }
        for one in &snapshot.workers {
            let sums = at(&mut detail.workers, one.worker);
            sums.accepted = one.accepted;
            sums.handshakes = one.handshakes;
            sums.requests = one.requests;
            sums.cpu = one.cpu;
        }
        for &(worker, seconds) in &snapshot.process.worker_cpu_seconds {
            at(&mut detail.workers, worker).kernel_nanos = (seconds * 1e9) as u64;
        }
        detail
    }
}

/// The place of a number; the list grows to hold it.
fn at<T: Default + Clone>(list: &mut Vec<T>, number: usize) -> &mut T {
    if list.len() <= number {
        list.resize(number + 1, T::default());
    }
    &mut list[number]
}
