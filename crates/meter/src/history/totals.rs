//! What was counted up to a moment, or between two, in columns that are always the same.

use crate::labels::{
    CERTIFICATE_NAMES, GROUP_NAMES, KINDS, METHODS, MISSES, MODES, OTHER, RecordDirection,
    SIGNATURES, SUITE_NAMES, VERSIONS, mode_index,
};
use crate::snapshot::{CpuByPhase, LookUps, Snapshot, Tickets};
use tollgate_terms::SignatureScheme;

/// Counts up to a moment, or between two. Everything is a sum but `open`, `held_bytes` and `sessions`, which
/// are as they were at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Completed handshakes by version: TLS 1.2, TLS 1.3.
    pub versions: [VersionTotals; VERSIONS.len()],
    /// Full handshakes that took a retry; they are among the full ones.
    pub retried: u64,
    /// Handshakes that did not complete.
    pub failed: u64,
    /// Wall time of completed handshakes.
    pub handshake_micros: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Requests.
    pub requests: u64,
    /// Connections that came to be used for HTTP: completed handshakes in HTTP mode.
    pub http_handshakes: u64,
    /// Bytes from clients.
    pub client_in_bytes: u64,
    /// Bytes to clients.
    pub client_out_bytes: u64,
    /// CPU time by phase, as the ledger counts it.
    pub cpu: CpuByPhase,
    /// CPU time of the workers, as the kernel counts it.
    pub worker_nanos: u64,
    /// Records opened and sealed.
    pub records: [RecordTotals; RecordDirection::ALL.len()],
    /// Tickets opened and sessions looked for.
    pub look_ups: LookUps,
    /// Tickets issued.
    pub tickets: Tickets,
    /// Handshakes whose early data was refused.
    pub early_data_refused: u64,
    /// Connections open at the end, by mode.
    pub open: Open,
    /// Bytes held at the end, by mode.
    pub held_bytes: Held,
    /// Sessions cached at the end.
    pub sessions: u64,
    misses: [u64; MISSES.len()],
    suites: [u64; SUITE_NAMES.len()],
    groups: [u64; GROUP_NAMES.len()],
    certificates: [u64; CERTIFICATE_NAMES.len()],
    certificate_nanos: [u64; CERTIFICATE_NAMES.len()],
    signatures: [u64; SIGNATURES.len() + 1],
    methods: [u64; METHODS.len()],
}

/// Completed handshakes of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionTotals {
    /// Full ones, those with a retry included.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// CPU time of phases 1 and 2 of the full ones.
    pub full_nanos: u64,
    /// CPU time of phases 1 and 2 of the resumed ones.
    pub resumed_nanos: u64,
}

/// Records of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTotals {
    /// How many.
    pub records: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// CPU time.
    pub nanos: u64,
}

/// Connections open, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Handshakes in flight.
    pub handshake: u64,
    /// HTTP mode.
    pub http: u64,
    /// TCP mode.
    pub tcp: u64,
    /// SNI passthrough.
    pub passthrough: u64,
}

/// Bytes held, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By handshakes in flight.
    pub handshake: i64,
    /// By connections in HTTP mode.
    pub http: i64,
    /// By connections in TCP mode.
    pub tcp: i64,
    /// By connections in passthrough.
    pub passthrough: i64,
}

impl Totals {
    /// Everything that a snapshot counted.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut totals = Self {
            failed: snapshot
                .handshake_failures
                .iter()
                .map(|one| one.count)
                .sum(),
            handshake_micros: snapshot
                .handshake_times
                .iter()
                .map(|one| one.histogram.sum_micros)
                .sum(),
            accepted: snapshot.accepted.iter().map(|one| one.count).sum(),
            requests: snapshot.requests.iter().map(|one| one.count).sum(),
            cpu: snapshot.cpu,
            worker_nanos: snapshot
                .process
                .worker_cpu_seconds
                .iter()
                .map(|(_, seconds)| (seconds * 1e9) as u64)
                .sum(),
            look_ups: snapshot.look_ups,
            tickets: snapshot.tickets,
            early_data_refused: snapshot.early_data_refused,
            sessions: snapshot.process.sessions_cached,
            ..Self::default()
        };
        totals.add_handshakes(snapshot);
        totals.add_connections(snapshot);
        for one in &snapshot.records {
            let place = usize::from(one.direction == RecordDirection::Sealed.name());
            let sums = &mut totals.records[place];
            sums.records += one.records;
            sums.bytes += one.bytes;
            sums.nanos += one.nanos;
        }
        for one in &snapshot.resumption_misses {
            let reason = one.labels.reason;
            if let Some(place) = MISSES.iter().position(|miss| miss.name() == reason) {
                totals.misses[place] += one.count;
            }
        }
        totals
    }

    fn add_handshakes(&mut self, snapshot: &Snapshot) {
        for one in &snapshot.handshakes {
            let labels = &one.labels;
            let version = &mut self.versions[usize::from(labels.version == VERSIONS[1])];
            let nanos = one.asymmetric_nanos + one.derivation_nanos;
            if labels.kind == KINDS[2] {
                version.resumed += one.count;
                version.resumed_nanos += nanos;
            } else {
                version.full += one.count;
                version.full_nanos += nanos;
                let place = place(&CERTIFICATE_NAMES, labels.certificate);
                self.certificates[place] += one.count;
                self.certificate_nanos[place] += nanos;
            }
            if labels.kind == KINDS[1] {
                self.retried += one.count;
            }
            self.suites[place(&SUITE_NAMES, labels.suite)] += one.count;
            self.groups[place(&GROUP_NAMES, labels.group)] += one.count;
        }
        for one in &snapshot.signatures {
            let is_it = |scheme: &SignatureScheme| scheme.name() == one.labels.scheme;
            let place = SIGNATURES.iter().position(is_it);
            self.signatures[place.unwrap_or(SIGNATURES.len())] += one.count;
        }
        for one in &snapshot.resumptions {
            self.methods[usize::from(one.labels.method == METHODS[1])] += one.count;
        }
    }

    fn add_connections(&mut self, snapshot: &Snapshot) {
        let mut open = [0; MODES.len()];
        let mut held = [0; MODES.len()];
        for one in &snapshot.connections {
            open[mode_index(one.labels.mode)] += one.open;
            if one.labels.mode == MODES[0] {
                self.http_handshakes += one.opened;
            }
        }
        for one in &snapshot.held {
            held[mode_index(one.mode)] += one.bytes;
        }
        let [http, tcp, passthrough, handshake, _] = open;
        self.open = Open {
            handshake,
            http,
            tcp,
            passthrough,
        };
        let [http, tcp, passthrough, handshake, _] = held;
        self.held_bytes = Held {
            handshake,
            http,
            tcp,
            passthrough,
        };
        for one in &snapshot.bytes {
            match one.labels.direction {
                "client_in" => self.client_in_bytes += one.count,
                "client_out" => self.client_out_bytes += one.count,
                _ => {}
            }
        }
    }

    /// What came about after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            versions: std::array::from_fn(|n| self.versions[n].since(earlier.versions[n])),
            retried: self.retried.saturating_sub(earlier.retried),
            failed: self.failed.saturating_sub(earlier.failed),
            handshake_micros: self
                .handshake_micros
                .saturating_sub(earlier.handshake_micros),
            accepted: self.accepted.saturating_sub(earlier.accepted),
            requests: self.requests.saturating_sub(earlier.requests),
            http_handshakes: self.http_handshakes.saturating_sub(earlier.http_handshakes),
            client_in_bytes: self.client_in_bytes.saturating_sub(earlier.client_in_bytes),
            client_out_bytes: self
                .client_out_bytes
                .saturating_sub(earlier.client_out_bytes),
            cpu: self.cpu.since(earlier.cpu),
            worker_nanos: self.worker_nanos.saturating_sub(earlier.worker_nanos),
            records: std::array::from_fn(|n| self.records[n].since(earlier.records[n])),
            look_ups: LookUps {
                count: self.look_ups.count.saturating_sub(earlier.look_ups.count),
                nanos: self.look_ups.nanos.saturating_sub(earlier.look_ups.nanos),
            },
            tickets: Tickets {
                count: self.tickets.count.saturating_sub(earlier.tickets.count),
                bytes: self.tickets.bytes.saturating_sub(earlier.tickets.bytes),
            },
            early_data_refused: self
                .early_data_refused
                .saturating_sub(earlier.early_data_refused),
            open: self.open,
            held_bytes: self.held_bytes,
            sessions: self.sessions,
            misses: less(&self.misses, &earlier.misses),
            suites: less(&self.suites, &earlier.suites),
            groups: less(&self.groups, &earlier.groups),
            certificates: less(&self.certificates, &earlier.certificates),
            certificate_nanos: less(&self.certificate_nanos, &earlier.certificate_nanos),
            signatures: less(&self.signatures, &earlier.signatures),
            methods: less(&self.methods, &earlier.methods),
        }
    }

    /// Full handshakes.
    pub fn full(&self) -> u64 {
        self.versions.iter().map(|one| one.full).sum()
    }

    /// Resumed handshakes.
    pub fn resumed(&self) -> u64 {
        self.versions.iter().map(|one| one.resumed).sum()
    }

    /// Completed handshakes.
    pub fn completed(&self) -> u64 {
        self.full() + self.resumed()
    }

    /// Resumed over completed; `None` without a handshake.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.completed();
        (all > 0).then(|| self.resumed() as f64 / all as f64)
    }

    /// Requests over handshakes in HTTP mode; `None` without a handshake.
    pub fn requests_per_handshake(&self) -> Option<f64> {
        let all = self.http_handshakes;
        (all > 0).then(|| self.requests as f64 / all as f64)
    }

    /// Records that were opened.
    pub fn opened(&self) -> RecordTotals {
        self.records[0]
    }

    /// Records that were sealed.
    pub fn sealed(&self) -> RecordTotals {
        self.records[1]
    }

    /// Full handshakes by the reason why they did not resume, every reason once.
    pub fn misses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        MISSES.iter().map(|miss| miss.name()).zip(self.misses)
    }

    /// Full handshakes that did not resume for this reason.
    pub fn missed(&self, reason: &str) -> u64 {
        self.misses()
            .find(|(name, _)| *name == reason)
            .map_or(0, |(_, count)| count)
    }

    /// Completed handshakes by suite.
    pub fn suites(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SUITE_NAMES.into_iter().zip(self.suites)
    }

    /// Completed handshakes by named group.
    pub fn groups(&self) -> impl Iterator<Item = (&'static str, u64)> {
        GROUP_NAMES.into_iter().zip(self.groups)
    }

    /// Full handshakes by kind of certificate.
    pub fn certificates(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CERTIFICATE_NAMES.into_iter().zip(self.certificates)
    }

    /// CPU time of phases 1 and 2 of full handshakes, by kind of certificate.
    pub fn certificate_nanos(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CERTIFICATE_NAMES.into_iter().zip(self.certificate_nanos)
    }

    /// Full handshakes by the scheme of the server's signature.
    pub fn signatures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = SIGNATURES.into_iter().map(SignatureScheme::name);
        names.chain([OTHER]).zip(self.signatures)
    }

    /// Resumed handshakes by how they found their state: `ticket`, `session_cache`.
    pub fn methods(&self) -> impl Iterator<Item = (&'static str, u64)> {
        METHODS.into_iter().zip(self.methods)
    }

    /// Completed handshakes by version.
    pub fn by_version(&self) -> impl Iterator<Item = (&'static str, VersionTotals)> {
        VERSIONS.into_iter().zip(self.versions)
    }

    /// Completed handshakes by kind: `full`, `full_with_retry`, `resumed`.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let full = self.full().saturating_sub(self.retried);
        KINDS.into_iter().zip([full, self.retried, self.resumed()])
    }
}

impl VersionTotals {
    fn since(self, earlier: Self) -> Self {
        Self {
            full: self.full.saturating_sub(earlier.full),
            resumed: self.resumed.saturating_sub(earlier.resumed),
            full_nanos: self.full_nanos.saturating_sub(earlier.full_nanos),
            resumed_nanos: self.resumed_nanos.saturating_sub(earlier.resumed_nanos),
        }
    }
}

impl RecordTotals {
    fn since(self, earlier: Self) -> Self {
        Self {
            records: self.records.saturating_sub(earlier.records),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            nanos: self.nanos.saturating_sub(earlier.nanos),
        }
    }
}

fn less<const N: usize>(later: &[u64; N], earlier: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|n| later[n].saturating_sub(earlier[n]))
}

/// The place of a label in its table; that of `other` when it is not there.
fn place<const N: usize>(table: &[&str; N], label: &str) -> usize {
    let at = |wanted: &str| table.iter().position(|name| *name == wanted);
    at(label).or_else(|| at(OTHER)).unwrap_or(0)
}
