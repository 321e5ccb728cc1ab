//! The counters of one worker.

use std::sync::Arc;
use std::time::Duration;

use tollgate_terms::{CipherSuite, CpuTime, Culprit, HandshakeCost, HandshakeFacts};

use crate::counts::{CountAndCost, Sums};
use crate::labels::{self, Direction, KINDS, MISSES, MODES, OTHER, RecordDirection};
use crate::ledger::Ledger;
use crate::merge::{series, timings};
use crate::snapshot::{
    BackendFailureLabels, ByteLabels, ConnectionLabels, HandshakeFailureLabels, HandshakeLabels,
    HandshakeSeries, KindLabel, ListenerLabel, MissLabels, OpenConnections, RefusalLabels,
    RequestLabels, SiteLabel, Snapshot, WorkerCounts,
};
use crate::{Histogram, MeterNames, NOWHERE, Places};

/// Sets of labels kept for handshakes; a fleet's worth of sites, and far under a megabyte.
const HANDSHAKE_SERIES: usize = 8_192;
/// Sets of labels kept for requests: a backend may answer with any status code.
const REQUEST_SERIES: usize = 16_384;
/// Reasons kept per listener, and backends times reasons kept per site.
const REASONS: usize = 64;
const BACKEND_REASONS: usize = 1_024;

/// The counters of one worker: written by that worker alone. Numbers of sites and listeners are places in
/// [`MeterNames`]; a number that is not known counts as `other`.
#[derive(Clone, Debug)]
pub struct Meter {
    names: Arc<MeterNames>,
    handshakes: Sums<CountAndCost>,
    handshake_times: [Histogram; KINDS.len()],
    requests: Sums<u64>,
    sites: Vec<SiteCounts>,
    listeners: Vec<ListenerCounts>,
    /// What has a number that is not known.
    stray_site: SiteCounts,
    stray_listener: ListenerCounts,
    worker: WorkerCounts,
    ledger: Ledger,
}

#[derive(Clone, Debug, Default)]
struct SiteCounts {
    misses: [u64; MISSES.len()],
    bytes: [[u64; Direction::ALL.len()]; MODES.len()],
    retries: u64,
    request_times: Histogram,
    backend_failures: Vec<((usize, &'static str), u64)>,
}

#[derive(Clone, Debug, Default)]
struct ListenerCounts {
    accepted: u64,
    opened: [u64; MODES.len()],
    closed: [u64; MODES.len()],
    refused: Vec<(&'static str, u64)>,
    failures: Vec<((&'static str, Culprit), u64)>,
}

impl Meter {
    /// All counters at zero.
    pub fn new(names: MeterNames) -> Self {
        Self {
            handshakes: Sums::new(HANDSHAKE_SERIES),
            handshake_times: Default::default(),
            requests: Sums::new(REQUEST_SERIES),
            sites: vec![SiteCounts::default(); names.sites.len()],
            listeners: vec![ListenerCounts::default(); names.listeners.len()],
            stray_site: SiteCounts::default(),
            stray_listener: ListenerCounts::default(),
            worker: WorkerCounts {
                worker: names.worker,
                ..WorkerCounts::default()
            },
            ledger: Ledger::new(),
            names: Arc::new(names),
        }
    }

    /// Takes the names of a newer configuration in and says which numbers they have. Every counter stays, and
    /// every number keeps its meaning: connections of the configuration before go on counting by theirs.
    pub fn rename(&mut self, newer: &MeterNames) -> Places {
        let names = Arc::make_mut(&mut self.names);
        let places = names.add(newer);
        self.sites.resize(names.sites.len(), SiteCounts::default());
        self.listeners
            .resize(names.listeners.len(), ListenerCounts::default());
        places
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, listener: usize) {
        self.listener(listener).accepted += 1;
        self.worker.accepted += 1;
    }

    /// A connection was closed before it was served.
    pub fn refused(&mut self, listener: usize, reason: &'static str) {
        count(&mut self.listener(listener).refused, reason, OTHER, REASONS);
    }

    /// A connection is now used as `mode`: `http`, `tcp`, `passthrough` or `handshake`.
    pub fn opened(&mut self, listener: usize, mode: &'static str) {
        self.listener(listener).opened[labels::mode_index(mode)] += 1;
    }

    /// A connection is no longer used as `mode`.
    pub fn closed(&mut self, listener: usize, mode: &'static str) {
        self.listener(listener).closed[labels::mode_index(mode)] += 1;
    }

    /// A handshake was completed, `micros` after its first byte, for `cost` of CPU time.
    pub fn handshake(
        &mut self,
        site: usize,
        listener: usize,
        facts: &HandshakeFacts,
        micros: u64,
        cost: HandshakeCost,
    ) {
        let key = labels::handshake_key(site, listener, facts);
        self.handshakes.add(key, CountAndCost { count: 1, cost });
        self.ledger.handshake(facts, cost);
        self.handshake_times[labels::kind_index(facts.kind)].add(micros);
        self.worker.handshakes += 1;
        if let Some(miss) = facts.miss {
            self.site(site).misses[labels::miss_index(miss)] += 1;
        }
    }

    /// A handshake was given up.
    pub fn handshake_failed(&mut self, listener: usize, reason: &'static str, culprit: Culprit) {
        count(
            &mut self.listener(listener).failures,
            (reason, culprit),
            (OTHER, culprit),
            REASONS,
        );
    }

    /// A request was answered with `status` (0 when it was not), `micros` after its first byte. `protocol` is
    /// `HTTP/1.1`, `HTTP/2` or `HTTP/1.0`.
    pub fn request(&mut self, site: usize, protocol: &'static str, status: u16, micros: u64) {
        self.requests
            .add(labels::request_key(site, protocol, status), 1);
        self.site(site).request_times.add(micros);
        self.worker.requests += 1;
    }

    /// Bytes were moved.
    pub fn bytes(&mut self, site: usize, mode: &'static str, direction: Direction, bytes: u64) {
        let sum = &mut self.site(site).bytes[labels::mode_index(mode)][direction as usize];
        *sum = sum.saturating_add(bytes);
    }

    /// A backend did not do what it should.
    pub fn backend_failure(&mut self, site: usize, backend: usize, reason: &'static str) {
        count(
            &mut self.site(site).backend_failures,
            (backend, reason),
            (NOWHERE, OTHER),
            BACKEND_REASONS,
        );
    }

    /// A request was sent to a further backend.
    pub fn retry(&mut self, site: usize) {
        self.site(site).retries += 1;
    }

    /// CPU time went into a handshake that is not in the series: one that did not complete, or one with a backend.
    pub fn handshake_spent(&mut self, cost: HandshakeCost) {
        self.ledger.handshake_spent(cost);
    }

    /// `records` records with `bytes` bytes of content were opened or sealed in `time`.
    pub fn records(
        &mut self,
        suite: CipherSuite,
        direction: RecordDirection,
        records: u64,
        bytes: u64,
        time: CpuTime,
    ) {
        self.ledger.records(suite, direction, records, bytes, time);
    }

    /// The worker was not at rest for this long; the phases are part of it.
    pub fn busy(&mut self, time: CpuTime) {
        self.ledger.busy(time);
    }

    /// Connections that are used as `mode` hold so many bytes more, or less.
    pub fn held(&mut self, mode: &'static str, bytes: i64) {
        self.ledger.held(mode, bytes);
    }

    /// A connection that was last used as `mode` closed; `requests` counts in HTTP mode alone.
    pub fn closed_after(&mut self, mode: &'static str, lived: Duration, requests: u64) {
        self.ledger.closed_after(mode, lived, requests);
    }

    /// A ticket was opened, or a session looked for, in `time`; found or not.
    pub fn look_up(&mut self, time: CpuTime) {
        self.ledger.look_up(time);
    }

    /// A ticket of so many bytes was issued.
    pub fn ticket(&mut self, bytes: u64) {
        self.ledger.ticket(bytes);
    }

    /// A client showed a ticket of a key that is not held here.
    pub fn unknown_key(&mut self, name: [u8; 16]) {
        self.ledger.unknown_key(name);
    }

    /// A client offered early data, and it was not taken.
    pub fn early_data_refused(&mut self) {
        self.ledger.early_data_refused();
    }

    /// Everything counted so far, with names. Allocates: best taken from a clone, away from the data path.
    pub fn snapshot(&self) -> Snapshot {
        let cpu = self.ledger.cpu();
        let mut snapshot = Snapshot {
            workers: vec![WorkerCounts {
                cpu,
                ..self.worker.clone()
            }],
            ..Snapshot::default()
        };
        self.ledger.write(&mut snapshot);
        self.write_handshakes(&mut snapshot);
        self.write_listeners(&mut snapshot);
        self.write_requests(&mut snapshot);
        self.write_sites(&mut snapshot);
        snapshot
    }

    fn site(&mut self, index: usize) -> &mut SiteCounts {
        self.sites.get_mut(index).unwrap_or(&mut self.stray_site)
    }

    fn listener(&mut self, index: usize) -> &mut ListenerCounts {
        self.listeners
            .get_mut(index)
            .unwrap_or(&mut self.stray_listener)
    }

    fn write_handshakes(&self, snapshot: &mut Snapshot) {
        let counted = self.handshakes.iter().map(|(key, sum)| {
            let words = labels::handshake_words(key);
            let labels = HandshakeLabels {
                site: self.names.site(words.site),
                listener: self.names.listener(words.listener),
                version: words.version,
                suite: words.suite,
                group: words.group,
                certificate: words.certificate,
                kind: words.kind,
            };
            HandshakeSeries::new(labels, sum)
        });
        let beyond = HandshakeLabels {
            site: OTHER.into(),
            listener: OTHER.into(),
            version: OTHER,
            suite: OTHER,
            group: OTHER,
            certificate: OTHER,
            kind: OTHER,
        };
        let overflow = Some(self.handshakes.overflow()).filter(|sum| sum.count > 0);
        snapshot.handshakes = HandshakeSeries::sums(
            counted.chain(overflow.map(|sum| HandshakeSeries::new(beyond, sum))),
        );
        snapshot.handshake_times = timings(
            KINDS
                .into_iter()
                .zip(self.handshake_times.iter().cloned())
                .map(|(kind, histogram)| (KindLabel { kind }, histogram)),
        );
    }

    fn write_requests(&self, snapshot: &mut Snapshot) {
        let counted = self.requests.iter().map(|(key, count)| {
            let (site, protocol, code) = labels::request_words(key);
            let site = self.names.site(site);
            let labels = RequestLabels {
                site,
                protocol,
                code,
            };
            (labels, count)
        });
        let beyond = RequestLabels {
            site: OTHER.into(),
            protocol: OTHER,
            code: 0,
        };
        let overflow = Some(self.requests.overflow()).filter(|&count| count > 0);
        snapshot.requests = series(counted.chain(overflow.map(|count| (beyond, count))));
    }

    fn write_listeners(&self, snapshot: &mut Snapshot) {
        let mut failures = Vec::new();
        let mut refused = Vec::new();
        let mut accepted = Vec::new();
        for (listener, counts) in self.named_listeners() {
            accepted.push((
                ListenerLabel {
                    listener: Arc::clone(&listener),
                },
                counts.accepted,
            ));
            for &((reason, culprit), count) in &counts.failures {
                let labels = HandshakeFailureLabels {
                    listener: Arc::clone(&listener),
                    reason,
                    culprit: culprit.name(),
                };
                failures.push((labels, count));
            }
            for &(reason, count) in &counts.refused {
                let listener = Arc::clone(&listener);
                refused.push((RefusalLabels { listener, reason }, count));
            }
            for (index, mode) in MODES.into_iter().enumerate() {
                if counts.opened[index] > 0 {
                    snapshot.connections.push(OpenConnections {
                        labels: ConnectionLabels {
                            listener: Arc::clone(&listener),
                            mode,
                        },
                        open: counts.opened[index].saturating_sub(counts.closed[index]),
                        opened: counts.opened[index],
                    });
                }
            }
        }
        snapshot.connections.sort_by(|a, b| a.labels.cmp(&b.labels));
        snapshot.handshake_failures = series(failures);
        snapshot.refused = series(refused);
        snapshot.accepted = series(accepted);
    }

    fn write_sites(&self, snapshot: &mut Snapshot) {
        let mut misses = Vec::new();
        let mut bytes = Vec::new();
        let mut failures = Vec::new();
        let mut retries = Vec::new();
        let mut times = Vec::new();
        for (index, site, counts) in self.named_sites() {
            for (miss, &count) in MISSES.into_iter().zip(&counts.misses) {
                if count > 0 {
                    let site = Arc::clone(&site);
                    let reason = miss.name();
                    misses.push((MissLabels { site, reason }, count));
                }
            }
            for (mode, row) in MODES.into_iter().zip(&counts.bytes) {
                for (direction, &count) in Direction::ALL.into_iter().zip(row) {
                    if count > 0 {
                        let labels = ByteLabels {
                            site: Arc::clone(&site),
                            mode,
                            direction: direction.name(),
                        };
                        bytes.push((labels, count));
                    }
                }
            }
            for &((backend, reason), count) in &counts.backend_failures {
                let labels = BackendFailureLabels {
                    site: Arc::clone(&site),
                    backend: self.names.backend(index, backend),
                    reason,
                };
                failures.push((labels, count));
            }
            let label = SiteLabel { site };
            times.push((label.clone(), counts.request_times.clone()));
            retries.push((label, counts.retries));
        }
        snapshot.resumption_misses = series(misses);
        snapshot.bytes = series(bytes);
        snapshot.backend_failures = series(failures);
        snapshot.retries = series(retries);
        snapshot.request_times = timings(times);
    }

    /// Sites with number and name; the stray one only when it counted something.
    fn named_sites(&self) -> impl Iterator<Item = (usize, Arc<str>, &SiteCounts)> {
        let stray = Some(&self.stray_site).filter(|counts| counts.is_used());
        let known = self.sites.iter().enumerate();
        known
            .chain(stray.map(|counts| (NOWHERE, counts)))
            .map(|(index, counts)| (index, self.names.site(index), counts))
    }

    /// Listeners with name; the stray one only when it counted something.
    fn named_listeners(&self) -> impl Iterator<Item = (Arc<str>, &ListenerCounts)> {
        let stray = Some(&self.stray_listener).filter(|counts| counts.is_used());
        let known = self.listeners.iter().enumerate();
        known
            .chain(stray.map(|counts| (NOWHERE, counts)))
            .map(|(index, counts)| (self.names.listener(index), counts))
    }
}

impl SiteCounts {
    fn is_used(&self) -> bool {
        self.retries > 0
            || self.request_times.count() > 0
            || !self.backend_failures.is_empty()
            || self.misses.iter().any(|&count| count > 0)
            || self.bytes.as_flattened().iter().any(|&count| count > 0)
    }
}

impl ListenerCounts {
    fn is_used(&self) -> bool {
        self.accepted > 0
            || !self.refused.is_empty()
            || !self.failures.is_empty()
            || self.opened.iter().any(|&count| count > 0)
    }
}

/// Adds one to the count of `key`; once `limit` keys are known, a further one is counted as `beyond`.
fn count<K: Copy + PartialEq>(counts: &mut Vec<(K, u64)>, key: K, beyond: K, limit: usize) {
    let known = |counts: &[(K, u64)], key: K| counts.iter().position(|entry| entry.0 == key);
    let key = match known(counts, key) {
        Some(index) => {
            counts[index].1 += 1;
            return;
        }
        None if counts.len() >= limit => beyond,
        None => key,
    };
    match known(counts, key) {
        Some(index) => counts[index].1 += 1,
        None => counts.push((key, 1)),
    }
}
