//! What TLS took of one worker: CPU time by phase, records, memory, tickets. Plain sums of one writer.

use std::time::Duration;

use tollgate_terms::{
    CipherSuite, CpuTime, HandshakeCost, HandshakeFacts, HandshakeKind, SignatureScheme, TlsVersion,
};

use crate::distribution::{
    Distribution, LIFETIME_BOUNDS_MILLIS, REQUESTS_BOUNDS, TICKET_AGE_BOUNDS_MILLIS,
};
use crate::labels::{
    METHODS, MODES, RecordDirection, SIGNATURES, SUITE_NAMES, VERSIONS, method_index, mode_index,
    signature_index, suite_index,
};
use crate::snapshot::{
    CpuByPhase, HeldBytes, Lifetimes, LookUps, MethodLabels, RecordSeries, SchemeLabel, Series,
    Snapshot, Tickets,
};
use crate::unknown::UnknownKeys;

#[derive(Clone, Copy, Debug, Default)]
struct RecordSums {
    records: u64,
    bytes: u64,
    nanos: u64,
}

/// The sums of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    handshakes: HandshakeCost,
    records: [[RecordSums; RecordDirection::ALL.len()]; SUITE_NAMES.len()],
    records_nanos: u64,
    busy_nanos: u64,
    held: [i64; MODES.len()],
    lifetimes: [Distribution; MODES.len()],
    requests: Distribution,
    ticket_ages: Distribution,
    look_ups: LookUps,
    tickets: Tickets,
    unknown_keys: UnknownKeys,
    early_data_refused: u64,
    resumptions: [[u64; METHODS.len()]; VERSIONS.len()],
    signatures: [u64; SIGNATURES.len() + 1],
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            handshakes: HandshakeCost::default(),
            records: Default::default(),
            records_nanos: 0,
            busy_nanos: 0,
            held: [0; MODES.len()],
            lifetimes: std::array::from_fn(|_| Distribution::new(&LIFETIME_BOUNDS_MILLIS)),
            requests: Distribution::new(&REQUESTS_BOUNDS),
            ticket_ages: Distribution::new(&TICKET_AGE_BOUNDS_MILLIS),
            look_ups: LookUps::default(),
            tickets: Tickets::default(),
            unknown_keys: UnknownKeys::new(),
            early_data_refused: 0,
            resumptions: Default::default(),
            signatures: [0; SIGNATURES.len() + 1],
        }
    }

    pub(crate) fn handshake(&mut self, facts: &HandshakeFacts, cost: HandshakeCost) {
        self.handshakes += cost;
        if let HandshakeKind::Resumed(method) = facts.kind {
            let version = usize::from(facts.version == TlsVersion::Tls13);
            self.resumptions[version][method_index(method)] += 1;
        }
        if let Some(age) = facts.ticket_age {
            self.ticket_ages.add(millis(age));
        }
        if let Some(scheme) = facts.signature {
            self.signatures[signature_index(scheme)] += 1;
        }
    }

    pub(crate) fn handshake_spent(&mut self, cost: HandshakeCost) {
        self.handshakes += cost;
    }

    pub(crate) fn records(
        &mut self,
        suite: CipherSuite,
        direction: RecordDirection,
        records: u64,
        bytes: u64,
        time: CpuTime,
    ) {
        let sums = &mut self.records[suite_index(suite)][direction as usize];
        sums.records += records;
        sums.bytes = sums.bytes.saturating_add(bytes);
        sums.nanos = sums.nanos.saturating_add(time.0);
        self.records_nanos = self.records_nanos.saturating_add(time.0);
    }

    pub(crate) fn busy(&mut self, time: CpuTime) {
        self.busy_nanos = self.busy_nanos.saturating_add(time.0);
    }

    pub(crate) fn held(&mut self, mode: &str, bytes: i64) {
        let held = &mut self.held[mode_index(mode)];
        *held = held.saturating_add(bytes);
    }

    pub(crate) fn closed_after(&mut self, mode: &str, lived: Duration, requests: u64) {
        self.lifetimes[mode_index(mode)].add(millis(lived));
        if mode == "http" {
            self.requests.add(requests);
        }
    }

    pub(crate) fn look_up(&mut self, time: CpuTime) {
        self.look_ups.count += 1;
        self.look_ups.nanos = self.look_ups.nanos.saturating_add(time.0);
    }

    pub(crate) fn ticket(&mut self, bytes: u64) {
        self.tickets.count += 1;
        self.tickets.bytes = self.tickets.bytes.saturating_add(bytes);
    }

    pub(crate) fn unknown_key(&mut self, name: [u8; 16]) {
        self.unknown_keys.add(name);
    }

    pub(crate) fn early_data_refused(&mut self) {
        self.early_data_refused += 1;
    }

    pub(crate) fn cpu(&self) -> CpuByPhase {
        let asymmetric_nanos = self.handshakes.asymmetric.0;
        let derivation_nanos = self.handshakes.derivation.0;
        CpuByPhase {
            asymmetric_nanos,
            derivation_nanos,
            records_nanos: self.records_nanos,
            not_tls_nanos: self
                .busy_nanos
                .saturating_sub(asymmetric_nanos)
                .saturating_sub(derivation_nanos)
                .saturating_sub(self.records_nanos),
            busy_nanos: self.busy_nanos,
        }
    }

    pub(crate) fn write(&self, snapshot: &mut Snapshot) {
        snapshot.cpu = self.cpu();
        for (suite, directions) in SUITE_NAMES.into_iter().zip(&self.records) {
            for (direction, sums) in RecordDirection::ALL.into_iter().zip(directions) {
                if sums.records > 0 {
                    snapshot.records.push(RecordSeries {
                        suite,
                        direction: direction.name(),
                        records: sums.records,
                        bytes: sums.bytes,
                        nanos: sums.nanos,
                    });
                }
            }
        }
        snapshot
            .records
            .sort_by_key(|one| (one.suite, one.direction));
        for (index, mode) in MODES.into_iter().enumerate() {
            snapshot.held.push(HeldBytes {
                mode,
                bytes: self.held[index],
            });
            snapshot.lifetimes.push(Lifetimes {
                mode,
                distribution: self.lifetimes[index].clone(),
            });
        }
        snapshot.held.sort_by_key(|one| one.mode);
        snapshot.lifetimes.sort_by_key(|one| one.mode);
        snapshot.requests_per_connection = self.requests.clone();
        snapshot.ticket_ages = self.ticket_ages.clone();
        snapshot.look_ups = self.look_ups;
        snapshot.tickets = self.tickets;
        snapshot.unknown_keys = self.unknown_keys.write();
        snapshot.early_data_refused = self.early_data_refused;
        self.write_kinds(snapshot);
    }

    fn write_kinds(&self, snapshot: &mut Snapshot) {
        for (version, methods) in VERSIONS.into_iter().zip(&self.resumptions) {
            for (method, &count) in METHODS.into_iter().zip(methods) {
                if count > 0 {
                    let labels = MethodLabels { version, method };
                    snapshot.resumptions.push(Series { labels, count });
                }
            }
        }
        snapshot.resumptions.sort_by(|a, b| a.labels.cmp(&b.labels));
        for (index, &count) in self.signatures.iter().enumerate() {
            if count > 0 {
                let labels = SchemeLabel {
                    scheme: SIGNATURES
                        .get(index)
                        .map_or(crate::labels::OTHER, |scheme: &SignatureScheme| {
                            scheme.name()
                        }),
                };
                snapshot.signatures.push(Series { labels, count });
            }
        }
        snapshot.signatures.sort_by(|a, b| a.labels.cmp(&b.labels));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
