//! The four regimes: full handshakes, resumed ones, bulk under AES-128-GCM and under ChaCha20-Poly1305.
//!
//! Each row says what was negotiated, as client and server counted it, and a row that was something else
//! than its name is a failure, not a figure.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion};

use super::driving::{Expected, Places, drive};
use super::explain::{self, Explanation};
use super::figures::{gigabits, micros, per_second, percent, table};
use super::serving::{Serving, ServingOptions};
use super::{BenchError, clock_cost, flame, in_process};
use crate::{LoadOptions, Mode};

/// Bytes of one response in the bulk regimes; their times are for this many.
pub(crate) const BULK_BYTES: u64 = 1 << 20;
/// Connections of a bulk run: enough that the server never waits for one to turn round.
const BULK_CONNECTIONS: usize = 4;

/// What a regime is carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Client and server in two processes, over the loopback interface.
    Loopback,
    /// Client and server in one thread; their bytes change hands in memory, and no system call is made.
    Memory,
}

impl Transport {
    /// `loopback` or `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Memory => "memory",
        }
    }
}

/// How the regimes are measured. Every field can be set in any order.
#[derive(Clone, Debug)]
pub struct RegimeOptions {
    /// Key of the server's certificate. Default ECDSA P-256.
    pub certificate: CertificateKind,
    /// What carries the bytes; each one gives four rows. Default both.
    pub transports: Vec<Transport>,
    /// Measured window of one row. Default 3 s.
    pub duration: Duration,
    /// Load before each window over loopback. Default 500 ms.
    pub warm_up: Duration,
    /// Handshakes on their way at a time, over loopback. Default 8.
    pub connections: usize,
    /// Also say where the time of one full handshake goes. Default false.
    pub explain: bool,
    /// File for a flame graph of the regimes in memory; SVG. Default: none.
    pub flame: Option<PathBuf>,
}

impl Default for RegimeOptions {
    fn default() -> Self {
        Self {
            certificate: CertificateKind::EcdsaP256,
            transports: vec![Transport::Loopback, Transport::Memory],
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(500),
            connections: 8,
            explain: false,
            flame: None,
        }
    }
}

/// One of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    Full,
    Resumed,
    BulkAes,
    BulkChaCha,
}

impl Regime {
    pub(crate) const ALL: [Self; 4] = [Self::Full, Self::Resumed, Self::BulkAes, Self::BulkChaCha];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::BulkAes => "bulk AES-128-GCM",
            Self::BulkChaCha => "bulk ChaCha20-Poly1305",
        }
    }

    pub(crate) fn suite(self) -> CipherSuite {
        match self {
            Self::Full | Self::Resumed | Self::BulkAes => CipherSuite::TLS_AES_128_GCM_SHA256,
            Self::BulkChaCha => CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        }
    }

    pub(crate) fn is_bulk(self) -> bool {
        matches!(self, Self::BulkAes | Self::BulkChaCha)
    }

    fn published(self) -> Published {
        let (value, unit) = match self {
            Self::Full => (620.0, "p50_micros"),
            Self::Resumed => (74.0, "p50_micros"),
            Self::BulkAes => (6.56, "gigabits_per_second"),
            Self::BulkChaCha => (2.44, "gigabits_per_second"),
        };
        Published { value, unit }
    }
}

/// What was published for a regime.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Published {
    /// The value.
    pub value: f64,
    /// The field of the row that it stands beside.
    pub unit: &'static str,
}

/// Where the published values come from, and what is wrong with them.
pub const PUBLISHED: &str = "a c6i.4xlarge with OpenSSL 3.0.13, method not shown. Doubtful: resumption in TLS 1.3 \
     keeps the key exchange, so with an ECDSA certificate 620 to 74 is more than it can save; the 8x needs \
     an RSA certificate or TLS 1.2";

/// One regime over one transport.
#[derive(Clone, Debug, Serialize)]
pub struct RegimeRow {
    /// `full`, `resumed`, `bulk AES-128-GCM` or `bulk ChaCha20-Poly1305`.
    pub regime: &'static str,
    /// `loopback` or `memory`.
    pub transport: &'static str,
    /// What the handshakes were, by the client's and, over loopback, also by the server's count.
    pub negotiated: String,
    /// Handshakes of this kind that the client counted: in the window, for bulk in the whole run.
    pub client_handshakes: u64,
    /// The same by the server's metrics, for the whole run; in memory by the server's side of each.
    pub server_handshakes: u64,
    /// Operations in the window: connections with one request, or responses of 1 MiB. In memory
    /// handshakes, or 1 MiB sealed and opened.
    pub operations: u64,
    /// Median time of an operation, in microseconds.
    pub p50_micros: f64,
    /// 99th percentile of the same.
    pub p99_micros: f64,
    /// Operations per second.
    pub per_second: f64,
    /// Body bytes, for the bulk regimes.
    pub gigabits_per_second: Option<f64>,
    /// CPU time of the server for one operation, in microseconds.
    pub server_cpu_micros: f64,
    /// Share of the wall time in which the server did cryptography, 0 to 1. In memory it is measured at
    /// the calls; over loopback it is the time per operation in memory times the rate here.
    pub crypto_share: Option<f64>,
    /// CPU time of the server in cryptography for one operation, in microseconds; in memory only.
    pub crypto_micros: Option<f64>,
    /// What is said elsewhere.
    pub published: Published,
    /// Why this row is not what its name says; empty when it is.
    pub missed: Vec<String>,
}

/// What resumption saves and what it cannot.
#[derive(Clone, Debug, Serialize)]
pub struct Avoidable {
    /// `loopback` or `memory`.
    pub transport: &'static str,
    /// Server CPU of a full handshake, in microseconds.
    pub full_micros: f64,
    /// Server CPU of a resumed one: what remains, whatever is done.
    pub fixed_micros: f64,
    /// The difference.
    pub avoidable_micros: f64,
    /// Full over resumed: what resumption gives.
    pub full_over_resumed: f64,
    /// The part of a full handshake that resumption saves, 0 to 1.
    pub avoidable_share: f64,
}

/// Everything that a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Regimes {
    /// Kind of the server's certificate.
    pub certificate: &'static str,
    /// The rows, in order.
    pub rows: Vec<RegimeRow>,
    /// What resumption saves, per transport.
    pub avoidable: Vec<Avoidable>,
    /// Price of reading the clock, taken off where a single step is timed, in nanoseconds.
    pub clock_nanoseconds: f64,
    /// Where the published values come from.
    pub published_source: &'static str,
    /// Where the time of a full handshake goes, when asked for.
    pub explanation: Option<Explanation>,
    /// Functions in the flame graph, when one was asked for.
    pub flame: Option<flame::Flame>,
    /// What a reader must know about the figures.
    pub notes: Vec<String>,
}

impl Regimes {
    /// Whether every row was what its name says.
    pub fn reached(&self) -> bool {
        let explained = self.explanation.iter().all(|part| part.missed.is_empty());
        explained && self.rows.iter().all(|row| row.missed.is_empty())
    }
}

impl RegimeOptions {
    /// The server that the regimes are driven against.
    pub(crate) fn server(&self, places: Places) -> ServingOptions {
        ServingOptions {
            certificate: self.certificate,
            pin: Some(places.server),
            backend_pin: Some(places.load),
            site_yaml: "tls: { groups: [x25519] }".into(),
            ..ServingOptions::default()
        }
    }
}

/// Measures the regimes, telling `progress` what is next and which share is done.
///
/// # Errors
/// When the server cannot be started, a run cannot begin, or the flame graph cannot be written.
pub fn run(options: &RegimeOptions, progress: &dyn Fn(&str, f64)) -> Result<Regimes, BenchError> {
    let places = Places::here();
    let mut steps = Steps {
        progress,
        done: 0,
        all: 4 * options.transports.len()
            + usize::from(options.explain)
            + usize::from(options.flame.is_some()),
    };
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    if options.transports.contains(&Transport::Loopback) {
        notes.extend(places.note());
        let serving = Serving::start(&options.server(places))?;
        for regime in Regime::ALL {
            steps.next(&format!("{} over loopback", regime.name()));
            rows.push(over_loopback(regime, options, &serving, places)?);
        }
    }
    if options.transports.contains(&Transport::Memory) {
        for regime in Regime::ALL {
            steps.next(&format!("{} in memory", regime.name()));
            rows.push(in_process::measure(regime, options)?);
        }
        lend_crypto(&mut rows);
    }
    let explanation = if options.explain {
        steps.next("where the time of a full handshake goes");
        Some(explain::explain(options, places)?)
    } else {
        None
    };
    let flame = match &options.flame {
        None => None,
        Some(file) => {
            steps.next("the flame graph");
            Some(flame::write(file, options)?)
        }
    };
    Ok(Regimes {
        certificate: options.certificate.name(),
        avoidable: avoidable(&rows),
        rows,
        clock_nanoseconds: clock_cost().median,
        published_source: PUBLISHED,
        explanation,
        flame,
        notes,
    })
}

struct Steps<'a> {
    progress: &'a dyn Fn(&str, f64),
    done: usize,
    all: usize,
}

impl Steps<'_> {
    fn next(&mut self, what: &str) {
        (self.progress)(what, self.done as f64 / self.all.max(1) as f64);
        self.done += 1;
    }
}

/// Options of the load for one regime.
pub(crate) fn load_of(regime: Regime, options: &RegimeOptions, places: Places) -> LoadOptions {
    let mode = if regime.is_bulk() {
        Mode::Download
    } else {
        Mode::Tps
    };
    let mut load = LoadOptions::new(mode, "");
    load.duration = options.duration;
    load.warm_up = options.warm_up;
    load.version = Some(TlsVersion::Tls13);
    load.suite = Some(regime.suite());
    load.group = Some(NamedGroup::X25519);
    load.pin = Some(places.load);
    load.hit_rate = if regime == Regime::Resumed { 1.0 } else { 0.0 };
    if regime.is_bulk() {
        load.path = format!("/bytes/{BULK_BYTES}");
        load.connections = BULK_CONNECTIONS;
    } else {
        load.connections = options.connections;
    }
    load
}

fn over_loopback(
    regime: Regime,
    options: &RegimeOptions,
    serving: &Serving,
    places: Places,
) -> Result<RegimeRow, BenchError> {
    let load = load_of(regime, options, places);
    let resumed = regime == Regime::Resumed;
    let expected = Expected {
        resumed,
        version: TlsVersion::Tls13,
        suite: regime.suite(),
        // One per connection, one to see that the server is there, and as many again for tickets lost on the way.
        others: if resumed {
            2 * load.connections as u64 + 2
        } else {
            0
        },
    };
    let driven = drive(serving, load)?;
    let (client_handshakes, server_handshakes) = driven.counted(&expected);
    let mut missed = driven.missed(&expected);
    let spread = driven.load.operation_micros;
    let operations = driven.load.operations;
    if operations == 0 || spread.is_none() {
        missed.push(
            "no operation was finished in the window; give it more time with --duration".into(),
        );
    }
    let (user, system) = driven.server_cpu();
    let bits = 8.0 * driven.load.body_bytes as f64 / driven.load.seconds.max(1e-9);
    Ok(RegimeRow {
        regime: regime.name(),
        transport: Transport::Loopback.name(),
        negotiated: expected.to_string(),
        client_handshakes,
        server_handshakes,
        operations,
        p50_micros: spread.map_or(0.0, |spread| spread.p50 as f64),
        p99_micros: spread.map_or(0.0, |spread| spread.p99 as f64),
        per_second: driven.load.per_second,
        gigabits_per_second: regime.is_bulk().then_some(bits / 1e9),
        server_cpu_micros: 1e6 * (user + system) / operations.max(1) as f64,
        crypto_share: None,
        crypto_micros: None,
        published: regime.published(),
        missed,
    })
}

/// The share of cryptography over loopback, from what one operation of the same regime took in memory.
fn lend_crypto(rows: &mut [RegimeRow]) {
    let lent: Vec<_> = rows
        .iter()
        .filter(|row| row.transport == Transport::Memory.name())
        .filter_map(|row| Some((row.regime, row.crypto_micros?)))
        .collect();
    for row in rows {
        let known = lent.iter().find(|(regime, _)| *regime == row.regime);
        if let Some((_, micros)) = known
            && row.transport == Transport::Loopback.name()
        {
            row.crypto_share = Some(micros * row.per_second / 1e6);
        }
    }
}

fn avoidable(rows: &[RegimeRow]) -> Vec<Avoidable> {
    [Transport::Loopback, Transport::Memory]
        .into_iter()
        .filter_map(|transport| {
            let of = |regime: Regime| {
                rows.iter()
                    .find(|row| row.transport == transport.name() && row.regime == regime.name())
                    .map(|row| row.server_cpu_micros)
                    .filter(|micros| *micros > 0.0)
            };
            let (full, resumed) = (of(Regime::Full)?, of(Regime::Resumed)?);
            Some(Avoidable {
                transport: transport.name(),
                full_micros: full,
                fixed_micros: resumed,
                avoidable_micros: full - resumed,
                full_over_resumed: full / resumed,
                avoidable_share: (full - resumed) / full,
            })
        })
        .collect()
}

/// A row of the memory regimes, from what [`in_process`] counted.
pub(crate) fn memory_row(regime: Regime, counted: &in_process::Counted) -> RegimeRow {
    let operations = counted.operations.max(1) as f64;
    let bits = regime
        .is_bulk()
        .then(|| 8.0 * operations * BULK_BYTES as f64 / counted.wall.as_secs_f64().max(1e-9));
    RegimeRow {
        regime: regime.name(),
        transport: Transport::Memory.name(),
        negotiated: counted.negotiated.clone(),
        client_handshakes: counted.client_handshakes,
        server_handshakes: counted.server_handshakes,
        operations: counted.operations,
        p50_micros: counted.p50_micros,
        p99_micros: counted.p99_micros,
        per_second: operations / counted.wall.as_secs_f64().max(1e-9),
        gigabits_per_second: bits.map(|bits| bits / 1e9),
        server_cpu_micros: counted.server_micros(),
        crypto_share: Some(counted.crypto.as_secs_f64() / counted.wall.as_secs_f64().max(1e-9)),
        crypto_micros: Some(1e6 * counted.crypto.as_secs_f64() / operations),
        published: regime.published(),
        missed: counted.missed.clone(),
    }
}

/// The text for people.
impl fmt::Display for Regimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The four regimes, certificate {}", self.certificate)?;
        let mut rows = table(&[
            "regime",
            "transport",
            "p50",
            "p99",
            "rate",
            "Gb/s",
            "server CPU",
            "in crypto",
            "published",
        ]);
        for row in &self.rows {
            let published = match row.published.unit {
                "p50_micros" => format!("p50 {}", micros(row.published.value)),
                _ => format!("{} Gb/s", row.published.value),
            };
            rows.add_row(vec![
                row.regime.to_owned(),
                row.transport.to_owned(),
                micros(row.p50_micros),
                micros(row.p99_micros),
                per_second(row.per_second),
                row.gigabits_per_second.map_or_else(String::new, gigabits),
                micros(row.server_cpu_micros),
                row.crypto_share.map_or_else(String::new, percent),
                published,
            ]);
        }
        writeln!(f, "{rows}")?;
        writeln!(
            f,
            "An operation is a connection with its handshake and one request (in memory the handshake alone), or 1 MiB.\n\
             Gb/s are of bodies. In crypto: share of the wall time that the server spends in cryptography."
        )?;
        writeln!(f, "\nWhat they were")?;
        for row in &self.rows {
            writeln!(
                f,
                "  {:<22} {:<9} {}: {} by the client in the window, {} by the server in the run",
                row.regime,
                row.transport,
                row.negotiated,
                row.client_handshakes,
                row.server_handshakes
            )?;
        }
        self.write_avoidable(f)?;
        if let Some(explanation) = &self.explanation {
            write!(f, "\n{explanation}")?;
        }
        if let Some(flame) = &self.flame {
            write!(f, "\n{flame}")?;
        }
        writeln!(
            f,
            "\nReading the clock costs {:.0} ns here, which is taken off each timed step.\nPublished: {}.",
            self.clock_nanoseconds, self.published_source
        )?;
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        for row in &self.rows {
            for missed in &row.missed {
                writeln!(f, "missed: {} ({}): {missed}", row.regime, row.transport)?;
            }
        }
        Ok(())
    }
}

impl Regimes {
    fn write_avoidable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.avoidable.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat resumption saves, in CPU of the server")?;
        for part in &self.avoidable {
            writeln!(
                f,
                "  {:<9} full {} = fixed {} + avoidable {} ({} of it); full / resumed = {:.2}, resumed / full = {:.2}",
                part.transport,
                micros(part.full_micros),
                micros(part.fixed_micros),
                micros(part.avoidable_micros),
                percent(part.avoidable_share),
                part.full_over_resumed,
                1.0 / part.full_over_resumed,
            )?;
        }
        Ok(())
    }
}
