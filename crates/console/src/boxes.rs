//! The six boxes: each phase with its headline, what it is made of, and where every figure comes from.

use std::collections::BTreeMap;

use tollgate_meter::Interval;

use crate::observed::Observed;
use crate::price::micros_per;
use crate::view::{PhaseBox, Reading};

const MICROS: &str = "micros";
const NANOS_PER_BYTE: &str = "nanos_per_byte";
const BYTES: &str = "bytes";
const CORES: &str = "cores";
const PER_SECOND: &str = "per_second";
const SHARE: &str = "share";
const COUNT: &str = "count";
const SECONDS: &str = "seconds";

/// The figure of the sheet that stands for a handshake where nothing is known of certificate and suite.
const HANDSHAKE: &str = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm";

/// Phases 1 to 6, in their order.
pub(crate) fn boxes(observed: &Observed<'_>, minute: &Interval) -> Vec<PhaseBox> {
    let page = Page {
        observed,
        minute,
        measured: measured(observed, minute),
    };
    vec![
        page.asymmetric(),
        page.derivation(),
        page.records(),
        page.handshake_memory(),
        page.connection_memory(),
        page.resumption(),
    ]
}

/// Where figures of the last minute come from.
fn measured(observed: &Observed<'_>, minute: &Interval) -> String {
    if !observed.snapshot.process.ledger {
        return "not measured: the ledger is off; ledger: on in tls.yaml turns it on".to_owned();
    }
    if minute.seconds < 59.0 {
        return format!("measured here in {:.0} s since the start", minute.seconds);
    }
    "measured here over the last minute".to_owned()
}

struct Page<'a> {
    observed: &'a Observed<'a>,
    minute: &'a Interval,
    measured: String,
}

impl Page<'_> {
    fn asymmetric(&self) -> PhaseBox {
        let nanos = self.minute.totals.cpu.asymmetric_nanos;
        let phase = |part: &tollgate_meter::HandshakePart| part.asymmetric_nanos;
        let per_full = self.per_handshake(phase, false);
        let mut readings = vec![self.cores(nanos), self.tls_share(nanos)];
        readings.extend(self.per_kind(phase));
        for (label, ending) in [
            ("key exchange", "full/server/key-exchange"),
            ("signature", "full/server/signature"),
        ] {
            let label = format!("{label}, TLSv1.3 ecdsa-p256 x25519");
            readings.extend(self.sheet_micros(&label, &format!("{HANDSHAKE}/{ending}")));
        }
        PhaseBox {
            phase: 1,
            name: "asymmetric".to_owned(),
            about: "Key exchange and signatures: paid by every full handshake; a resumed TLS 1.3 handshake pays the key exchange alone.".to_owned(),
            headline: self.reading("per full handshake", per_full, MICROS),
            readings,
        }
    }

    fn derivation(&self) -> PhaseBox {
        let nanos = self.minute.totals.cpu.derivation_nanos;
        let phase = |part: &tollgate_meter::HandshakePart| part.derivation_nanos;
        let totals = &self.minute.totals;
        let series: u64 = self.minute.handshakes.iter().map(phase).sum();
        let per_handshake = self.if_ledger(micros_per(series, totals.completed()));
        let mut readings = vec![self.cores(nanos), self.tls_share(nanos)];
        readings.extend(self.per_kind(phase));
        readings.extend(self.sheet_micros(
            "full, TLSv1.3 ecdsa-p256 x25519",
            &format!("{HANDSHAKE}/full/server/rest"),
        ));
        PhaseBox {
            phase: 2,
            name: "derivation".to_owned(),
            about:
                "The rest of a handshake: parsing, key schedule, transcript, certificates, tickets."
                    .to_owned(),
            headline: self.reading("per handshake", per_handshake, MICROS),
            readings,
        }
    }

    fn records(&self) -> PhaseBox {
        let totals = &self.minute.totals;
        let (opened, sealed) = (totals.opened(), totals.sealed());
        let per_byte = |nanos: u64, bytes: u64| {
            self.if_ledger((bytes > 0).then(|| nanos as f64 / bytes as f64))
        };
        let size = |bytes: u64, records: u64| (records > 0).then(|| bytes as f64 / records as f64);
        let both = per_byte(opened.nanos + sealed.nanos, opened.bytes + sealed.bytes);
        let mut readings = vec![
            self.cores(totals.cpu.records_nanos),
            self.tls_share(totals.cpu.records_nanos),
            self.reading(
                "sealed",
                per_byte(sealed.nanos, sealed.bytes),
                NANOS_PER_BYTE,
            ),
            self.reading(
                "opened",
                per_byte(opened.nanos, opened.bytes),
                NANOS_PER_BYTE,
            ),
            self.reading(
                "content of a sealed record",
                size(sealed.bytes, sealed.records),
                BYTES,
            ),
            self.reading(
                "content of an opened record",
                size(opened.bytes, opened.records),
                BYTES,
            ),
            self.reading(
                "records sealed",
                Some(self.minute.rate(sealed.records)),
                PER_SECOND,
            ),
            self.reading(
                "records opened",
                Some(self.minute.rate(opened.records)),
                PER_SECOND,
            ),
        ];
        readings.extend(self.per_suite());
        for (label, id) in [
            (
                "sealed, aes-128-gcm, 16384 bytes",
                "record/seal/aes-128-gcm/16384",
            ),
            (
                "sealed, aes-128-gcm, 1024 bytes",
                "record/seal/aes-128-gcm/1024",
            ),
        ] {
            readings.extend(self.sheet(label, id, NANOS_PER_BYTE, 1.0));
        }
        PhaseBox {
            phase: 3,
            name: "records".to_owned(),
            about:
                "Encrypting and decrypting what is sent: paid per byte, and a little per record."
                    .to_owned(),
            headline: self.reading("per byte", both, NANOS_PER_BYTE),
            readings,
        }
    }

    fn handshake_memory(&self) -> PhaseBox {
        let totals = &self.minute.totals;
        let (open, held) = self.observed.history.handshakes_in_flight(60.0);
        let rate = self.minute.rate(totals.completed());
        let duration = micros_per(totals.handshake_micros * 1_000, totals.completed());
        let seconds = duration.map(|micros| micros / 1e6);
        let per_handshake = self.if_ledger((open > 0.0).then(|| (held / open).max(0.0)));
        let now = self.if_ledger(Some(totals.held_bytes.handshake.max(0) as f64));
        let product = seconds.map(|seconds| rate * seconds);
        let mut readings = vec![
            self.read(
                "in flight now",
                Some(totals.open.handshake as f64),
                COUNT,
                "counted here",
            ),
            self.reading(
                "per handshake in flight, average of the moments seen",
                per_handshake,
                BYTES,
            ),
            self.reading("handshakes completed", Some(rate), PER_SECOND),
            self.reading(
                "duration of a handshake, waiting included",
                seconds,
                SECONDS,
            ),
            self.read(
                "in flight on the average: rate x duration",
                product,
                COUNT,
                "computed from the two above (Little's law)",
            ),
        ];
        readings.extend(self.sheet(
            "held per handshake, TLSv1.3",
            "handshake-memory/tls13/held",
            BYTES,
            1.0,
        ));
        readings.extend(self.sheet(
            "peak per handshake, TLSv1.3",
            "handshake-memory/tls13/peak",
            BYTES,
            1.0,
        ));
        PhaseBox {
            phase: 4,
            name: "handshake memory".to_owned(),
            about: "What handshakes in flight hold: rate x duration x bytes of each; slow clients make it grow."
                .to_owned(),
            headline: Reading {
                label: "held by handshakes in flight".to_owned(),
                value: now,
                unit: BYTES.to_owned(),
                source: self.allocator(),
            },
            readings,
        }
    }

    fn connection_memory(&self) -> PhaseBox {
        let totals = &self.minute.totals;
        let (open, held) = (totals.open, totals.held_bytes);
        let each = |bytes: i64, count: u64| {
            self.if_ledger((count > 0).then(|| bytes.max(0) as f64 / count as f64))
        };
        let allocator = self.allocator();
        let read = |label: &str, value, unit| self.read(label, value, unit, &allocator);
        let counted =
            |label: &str, count: u64| self.read(label, Some(count as f64), COUNT, "counted here");
        let (http, tcp) = (each(held.http, open.http), each(held.tcp, open.tcp));
        let (label, headline) = match open.tcp > open.http {
            true => ("per TCP connection", tcp),
            false => ("per HTTP connection", http),
        };
        let bytes = |bytes: i64| self.if_ledger(Some(bytes.max(0) as f64));
        let mut readings = vec![
            read("per HTTP connection", http, BYTES),
            read("per TCP connection", tcp, BYTES),
            counted("HTTP connections open", open.http),
            counted("TCP connections open", open.tcp),
            counted("passthrough connections open", open.passthrough),
            read("held by HTTP connections", bytes(held.http), BYTES),
            read("held by TCP connections", bytes(held.tcp), BYTES),
        ];
        for (label, id) in [
            ("per quiet HTTP connection", "connection-memory/http/user"),
            ("per quiet TCP connection", "connection-memory/tcp/user"),
            (
                "in the kernel, per TCP connection",
                "connection-memory/tcp/kernel",
            ),
        ] {
            readings.extend(self.sheet(label, id, BYTES, 1.0));
        }
        PhaseBox {
            phase: 5,
            name: "connection memory".to_owned(),
            about: "What established connections hold while they live, busy or quiet; the kernel's sockets come on top."
                .to_owned(),
            headline: read(label, headline, BYTES),
            readings,
        }
    }

    fn resumption(&self) -> PhaseBox {
        let totals = &self.minute.totals;
        let process = &self.observed.snapshot.process;
        let tickets = totals.tickets;
        let ticket_bytes = (tickets.count > 0).then(|| tickets.bytes as f64 / tickets.count as f64);
        let look_up = self.if_ledger(micros_per(totals.look_ups.nanos, totals.look_ups.count));
        let bytes = process.session_bytes.map(|bytes| bytes as f64);
        let mut readings = vec![
            self.reading("hit rate", totals.hit_rate(), SHARE),
            self.reading(
                "look-ups",
                Some(self.minute.rate(totals.look_ups.count)),
                PER_SECOND,
            ),
            self.reading(
                "tickets issued",
                Some(self.minute.rate(tickets.count)),
                PER_SECOND,
            ),
            self.reading("size of a ticket", ticket_bytes, BYTES),
            self.read(
                "sessions cached",
                Some(process.sessions_cached as f64),
                COUNT,
                "counted here",
            ),
            self.read("held by cached sessions", bytes, BYTES, "counted here"),
            self.reading(
                "tickets of keys that are not held here",
                Some(self.minute.rate(totals.missed("unknown_key"))),
                PER_SECOND,
            ),
            self.reading(
                "early data refused",
                Some(self.minute.rate(totals.early_data_refused)),
                PER_SECOND,
            ),
        ];
        readings.extend(self.sheet("a cached session", "session/bytes", BYTES, 1.0));
        readings.extend(self.sheet_micros("look-up of a session", "session/look-up"));
        PhaseBox {
            phase: 6,
            name: "resumption".to_owned(),
            about: "What makes the next handshake cheap: tickets, cached sessions, and looking them up."
                .to_owned(),
            headline: self.reading("per look-up", look_up, MICROS),
            readings,
        }
    }

    /// Each kind of handshake of the last minute, by version and certificate.
    fn per_kind(&self, phase: fn(&tollgate_meter::HandshakePart) -> u64) -> Vec<Reading> {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for part in &self.minute.handshakes {
            let label = match part.is_resumed() {
                true => format!("per resumed handshake, {}", part.version),
                false => format!("per full handshake, {} {}", part.version, part.certificate),
            };
            let sum = sums.entry(label).or_default();
            sum.0 += phase(part);
            sum.1 += part.count;
        }
        sums.into_iter()
            .map(|(label, (nanos, count))| {
                self.reading(&label, self.if_ledger(micros_per(nanos, count)), MICROS)
            })
            .collect()
    }

    /// What a byte cost under each suite, since the start.
    fn per_suite(&self) -> Vec<Reading> {
        let process = &self.observed.snapshot.process;
        let records = &self.observed.snapshot.records;
        records
            .iter()
            .filter(|one| process.ledger && one.bytes > 0)
            .map(|one| {
                let label = format!("{}, {}", one.direction, one.suite);
                let value = Some(one.nanos as f64 / one.bytes as f64);
                self.read(
                    &label,
                    value,
                    NANOS_PER_BYTE,
                    "measured here since the start",
                )
            })
            .collect()
    }

    fn per_handshake(
        &self,
        phase: fn(&tollgate_meter::HandshakePart) -> u64,
        resumed: bool,
    ) -> Option<f64> {
        let own = || {
            self.minute
                .handshakes
                .iter()
                .filter(move |part| part.is_resumed() == resumed)
        };
        let nanos = own().map(phase).sum();
        self.if_ledger(micros_per(nanos, own().map(|part| part.count).sum()))
    }

    fn cores(&self, nanos: u64) -> Reading {
        let value = self.if_ledger(Some(self.minute.cores(nanos)));
        self.reading("CPU", value, CORES)
    }

    fn tls_share(&self, nanos: u64) -> Reading {
        let all = self.minute.totals.cpu.tls_nanos();
        let value = (all > 0).then(|| nanos as f64 / all as f64);
        self.reading("part of phases 1 to 3", value, SHARE)
    }

    fn if_ledger(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| self.observed.snapshot.process.ledger)
    }

    fn allocator(&self) -> String {
        match self.observed.snapshot.process.ledger {
            true => "counted by the allocator around each step".to_owned(),
            false => self.measured.clone(),
        }
    }

    fn reading(&self, label: &str, value: Option<f64>, unit: &str) -> Reading {
        self.read(label, value, unit, &self.measured)
    }

    fn read(&self, label: &str, value: Option<f64>, unit: &str, source: &str) -> Reading {
        Reading {
            label: label.to_owned(),
            value,
            unit: unit.to_owned(),
            source: source.to_owned(),
        }
    }

    fn sheet_micros(&self, label: &str, id: &str) -> Option<Reading> {
        self.sheet(label, id, MICROS, 1e-3)
    }

    /// What the sheet has for this, `factor` times its own unit; nothing without a sheet.
    fn sheet(&self, label: &str, id: &str, unit: &str, factor: f64) -> Option<Reading> {
        let sheet = self.observed.sheet?;
        let figure = sheet.figure(id)?;
        let made = sheet.made.split('T').next().unwrap_or(&sheet.made);
        let source = format!("from the sheet of {made}");
        Some(self.read(label, Some(figure.measured.median * factor), unit, &source))
    }
}
