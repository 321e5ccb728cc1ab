//! How snapshots add up: those of workers to that of the process.

use std::collections::BTreeMap;

use crate::Histogram;
use crate::counts::CountAndCost;
use crate::snapshot::{
    CpuByPhase, HandshakeLabels, HandshakeSeries, HeldBytes, Lifetimes, OpenConnections,
    RecordSeries, Series, Snapshot, Timing, WorkerCounts,
};

impl Snapshot {
    /// Adds what another worker counted. The process facts of `self` stay.
    pub fn merge(&mut self, other: &Self) {
        let handshakes = std::mem::take(&mut self.handshakes);
        self.handshakes = HandshakeSeries::sums(
            handshakes
                .into_iter()
                .chain(other.handshakes.iter().cloned()),
        );
        merge_series(&mut self.resumption_misses, &other.resumption_misses);
        merge_series(&mut self.handshake_failures, &other.handshake_failures);
        merge_timings(&mut self.handshake_times, &other.handshake_times);
        merge_connections(&mut self.connections, &other.connections);
        merge_series(&mut self.accepted, &other.accepted);
        merge_series(&mut self.refused, &other.refused);
        merge_series(&mut self.requests, &other.requests);
        merge_timings(&mut self.request_times, &other.request_times);
        merge_series(&mut self.bytes, &other.bytes);
        merge_series(&mut self.backend_failures, &other.backend_failures);
        merge_series(&mut self.retries, &other.retries);
        merge_workers(&mut self.workers, &other.workers);
        self.cpu.add(other.cpu);
        self.merge_ledger(other);
    }

    fn merge_ledger(&mut self, other: &Self) {
        merge_records(&mut self.records, &other.records);
        merge_held(&mut self.held, &other.held);
        merge_lifetimes(&mut self.lifetimes, &other.lifetimes);
        self.ticket_ages.merge(&other.ticket_ages);
        self.requests_per_connection
            .merge(&other.requests_per_connection);
        self.look_ups.count += other.look_ups.count;
        self.look_ups.nanos += other.look_ups.nanos;
        self.tickets.count += other.tickets.count;
        self.tickets.bytes += other.tickets.bytes;
        self.early_data_refused += other.early_data_refused;
        merge_series(&mut self.unknown_keys, &other.unknown_keys);
        merge_series(&mut self.resumptions, &other.resumptions);
        merge_series(&mut self.signatures, &other.signatures);
    }

    /// How unevenly connections fell on workers: those of the busiest over the mean. 1 is even, the number of
    /// workers is all on one. `None` before the first connection.
    pub fn worker_imbalance(&self) -> Option<f64> {
        let most = self.workers.iter().map(|worker| worker.accepted).max()?;
        let all: u64 = self.workers.iter().map(|worker| worker.accepted).sum();
        (all > 0).then(|| most as f64 * self.workers.len() as f64 / all as f64)
    }
}

impl HandshakeSeries {
    pub(crate) fn new(labels: HandshakeLabels, sum: CountAndCost) -> Self {
        Self {
            labels,
            count: sum.count,
            asymmetric_nanos: sum.cost.asymmetric.0,
            derivation_nanos: sum.cost.derivation.0,
        }
    }

    /// One per set of labels, in label order.
    pub(crate) fn sums(parts: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums: BTreeMap<HandshakeLabels, Self> = BTreeMap::new();
        for part in parts {
            match sums.get_mut(&part.labels) {
                Some(sum) => {
                    sum.count += part.count;
                    sum.asymmetric_nanos += part.asymmetric_nanos;
                    sum.derivation_nanos += part.derivation_nanos;
                }
                None => {
                    sums.insert(part.labels.clone(), part);
                }
            }
        }
        sums.into_values().collect()
    }
}

impl CpuByPhase {
    /// Adds another worker's.
    pub fn add(&mut self, other: Self) {
        self.asymmetric_nanos += other.asymmetric_nanos;
        self.derivation_nanos += other.derivation_nanos;
        self.records_nanos += other.records_nanos;
        self.not_tls_nanos += other.not_tls_nanos;
        self.busy_nanos += other.busy_nanos;
    }

    /// What was added after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let less = u64::saturating_sub;
        Self {
            asymmetric_nanos: less(self.asymmetric_nanos, earlier.asymmetric_nanos),
            derivation_nanos: less(self.derivation_nanos, earlier.derivation_nanos),
            records_nanos: less(self.records_nanos, earlier.records_nanos),
            not_tls_nanos: less(self.not_tls_nanos, earlier.not_tls_nanos),
            busy_nanos: less(self.busy_nanos, earlier.busy_nanos),
        }
    }

    /// Phases 1 to 3.
    pub fn tls_nanos(self) -> u64 {
        self.asymmetric_nanos + self.derivation_nanos + self.records_nanos
    }
}

/// One series per set of labels, in label order.
pub(crate) fn series<L: Ord>(counted: impl IntoIterator<Item = (L, u64)>) -> Vec<Series<L>> {
    let mut sums = BTreeMap::new();
    for (labels, count) in counted {
        *sums.entry(labels).or_insert(0_u64) += count;
    }
    sums.into_iter()
        .map(|(labels, count)| Series { labels, count })
        .collect()
}

/// One histogram per set of labels, in label order.
pub(crate) fn timings<L: Ord>(taken: impl IntoIterator<Item = (L, Histogram)>) -> Vec<Timing<L>> {
    let mut sums: BTreeMap<L, Histogram> = BTreeMap::new();
    for (labels, histogram) in taken {
        sums.entry(labels).or_default().merge(&histogram);
    }
    sums.into_iter()
        .map(|(labels, histogram)| Timing { labels, histogram })
        .collect()
}

fn merge_series<L: Ord + Clone>(mine: &mut Vec<Series<L>>, theirs: &[Series<L>]) {
    let both = std::mem::take(mine)
        .into_iter()
        .chain(theirs.iter().cloned());
    *mine = series(both.map(|one| (one.labels, one.count)));
}

fn merge_timings<L: Ord + Clone>(mine: &mut Vec<Timing<L>>, theirs: &[Timing<L>]) {
    let both = std::mem::take(mine)
        .into_iter()
        .chain(theirs.iter().cloned());
    *mine = timings(both.map(|one| (one.labels, one.histogram)));
}

fn merge_connections(mine: &mut Vec<OpenConnections>, theirs: &[OpenConnections]) {
    for one in theirs {
        match mine.iter_mut().find(|sum| sum.labels == one.labels) {
            Some(sum) => {
                sum.open += one.open;
                sum.opened += one.opened;
            }
            None => mine.push(one.clone()),
        }
    }
    mine.sort_by(|a, b| a.labels.cmp(&b.labels));
}

fn merge_workers(mine: &mut Vec<WorkerCounts>, theirs: &[WorkerCounts]) {
    let both = std::mem::take(mine)
        .into_iter()
        .chain(theirs.iter().cloned());
    let mut sums: BTreeMap<usize, WorkerCounts> = BTreeMap::new();
    for one in both {
        let sum = sums.entry(one.worker).or_default();
        sum.worker = one.worker;
        sum.accepted += one.accepted;
        sum.handshakes += one.handshakes;
        sum.requests += one.requests;
        sum.cpu.add(one.cpu);
    }
    *mine = sums.into_values().collect();
}

fn merge_records(mine: &mut Vec<RecordSeries>, theirs: &[RecordSeries]) {
    for one in theirs {
        let same =
            |sum: &&mut RecordSeries| (sum.suite, sum.direction) == (one.suite, one.direction);
        match mine.iter_mut().find(same) {
            Some(sum) => {
                sum.records += one.records;
                sum.bytes += one.bytes;
                sum.nanos += one.nanos;
            }
            None => mine.push(one.clone()),
        }
    }
    mine.sort_by_key(|one| (one.suite, one.direction));
}

fn merge_held(mine: &mut Vec<HeldBytes>, theirs: &[HeldBytes]) {
    for one in theirs {
        match mine.iter_mut().find(|sum| sum.mode == one.mode) {
            Some(sum) => sum.bytes += one.bytes,
            None => mine.push(one.clone()),
        }
    }
}

fn merge_lifetimes(mine: &mut Vec<Lifetimes>, theirs: &[Lifetimes]) {
    for one in theirs {
        match mine.iter_mut().find(|sum| sum.mode == one.mode) {
            Some(sum) => sum.distribution.merge(&one.distribution),
            None => mine.push(one.clone()),
        }
    }
}
