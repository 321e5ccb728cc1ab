//! The table that appliances are sold by: full handshakes per second, by suite and by cores.
//!
//! Session reuse is off, and that is asserted at both ends. Suites that nobody should speak any more
//! (RSA key transport, CBC, RC4) do not exist here and are not in the table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion};

use super::BenchError;
use super::driving::{Driven, Expected, cores, drive};
use super::figures::{micros, per_second, percent, table};
use super::serving::{Serving, ServingOptions};
use crate::{LoadOptions, Mode};

/// A server that is busy less than this share of its cores was not the limit of the rate.
const BUSY: f64 = 0.9;

/// How the table is made. Every field can be set in any order.
#[derive(Clone, Debug)]
pub struct TpsOptions {
    /// Measured window of one cell. Default 2 s.
    pub duration: Duration,
    /// Load before each window. Default 300 ms.
    pub warm_up: Duration,
    /// Handshakes on their way at a time, per core of the server. Default 16.
    pub connections: usize,
    /// Most cores that the server is given. Default: all of this process's.
    pub cores: Option<usize>,
}

impl Default for TpsOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(2),
            warm_up: Duration::from_millis(300),
            connections: 16,
            cores: None,
        }
    }
}

/// One row of the table: a suite with the certificate that it is used with.
struct Row {
    version: TlsVersion,
    suite: CipherSuite,
    certificate: CertificateKind,
}

const fn row(version: TlsVersion, suite: CipherSuite, certificate: CertificateKind) -> Row {
    Row {
        version,
        suite,
        certificate,
    }
}

const ECDSA: CertificateKind = CertificateKind::EcdsaP256;
const RSA: CertificateKind = CertificateKind::Rsa(2048);

const ROWS: [Row; 12] = [
    row(
        TlsVersion::Tls13,
        CipherSuite::TLS_AES_128_GCM_SHA256,
        ECDSA,
    ),
    row(
        TlsVersion::Tls13,
        CipherSuite::TLS_AES_256_GCM_SHA384,
        ECDSA,
    ),
    row(
        TlsVersion::Tls13,
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        ECDSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ECDSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ECDSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ECDSA,
    ),
    row(TlsVersion::Tls13, CipherSuite::TLS_AES_128_GCM_SHA256, RSA),
    row(TlsVersion::Tls13, CipherSuite::TLS_AES_256_GCM_SHA384, RSA),
    row(
        TlsVersion::Tls13,
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        RSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        RSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        RSA,
    ),
    row(
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        RSA,
    ),
];

/// One cell: a suite on so many cores.
#[derive(Clone, Debug, Serialize)]
pub struct TpsCell {
    /// Cores and workers of the server.
    pub cores: usize,
    /// Connections with a full handshake and one request, per second of wall time.
    pub per_second: f64,
    /// CPU time of the server for one, in microseconds.
    pub server_cpu_micros: f64,
    /// What the server's cores would carry if they did nothing else: cores over CPU time of one.
    pub capacity_per_second: f64,
    /// Capacity per core over that of one core, 0 to 1: what a handshake costs more where several work.
    pub efficiency: f64,
    /// Share of its cores that the server was busy, 0 to 1.
    pub server_busy: f64,
    /// Full handshakes as the client counted them in the window.
    pub client_full: u64,
    /// Full handshakes as the server counted them in the whole run.
    pub server_full: u64,
    /// Whether the load ran on the server's cores as well.
    pub shared: bool,
    /// Why it was not what it was to be; empty when it was.
    pub missed: Vec<String>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct TpsRow {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// IANA name.
    pub suite: String,
    /// Kind of the certificate.
    pub certificate: &'static str,
    /// One per number of cores.
    pub cells: Vec<TpsCell>,
}

/// A published row: its ends, which are all that is known of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublishedTps {
    /// What it is said of.
    pub label: &'static str,
    /// Handshakes per second on two cores.
    pub two_cores_per_second: f64,
    /// Handshakes per second on sixteen cores.
    pub sixteen_cores_per_second: f64,
}

/// Published for a software load balancer on 2 to 16 cores, session reuse off, as well.
pub const PUBLISHED_TPS: [PublishedTps; 3] = [
    PublishedTps {
        label: "elliptic curves, the fastest suite",
        two_cores_per_second: 5107.0,
        sixteen_cores_per_second: 33994.0,
    },
    PublishedTps {
        label: "RSA 2048",
        two_cores_per_second: 1476.0,
        sixteen_cores_per_second: 9586.0,
    },
    PublishedTps {
        label: "RSA 2048, the slowest suite",
        two_cores_per_second: 828.0,
        sixteen_cores_per_second: 5220.0,
    },
];

/// The whole table.
#[derive(Clone, Debug, Serialize)]
pub struct TpsMatrix {
    /// Cores of this process.
    pub cores: usize,
    /// Share of resumed handshakes, as both sides counted them; 0 or the run failed.
    pub hit_rate: f64,
    /// The rows.
    pub rows: Vec<TpsRow>,
    /// RSA-2048 over ECDSA P-256, TLS 1.3 with AES-128-GCM, CPU time of the server for a connection.
    pub rsa_over_ecdsa: f64,
    /// What is said elsewhere.
    pub published: [PublishedTps; 3],
    /// What a reader must know about the figures.
    pub notes: Vec<String>,
}

impl TpsMatrix {
    /// Whether every cell was full handshakes of its suite.
    pub fn reached(&self) -> bool {
        let mut cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.all(|cell| cell.missed.is_empty())
    }
}

/// Makes the table, telling `progress` what is next and which share is done.
///
/// # Errors
/// When a server cannot be started or a run cannot begin.
pub fn run(options: &TpsOptions, progress: &dyn Fn(&str, f64)) -> Result<TpsMatrix, BenchError> {
    let own = cores();
    let most = options.cores.unwrap_or(own.len()).clamp(1, own.len());
    let mut cells: BTreeMap<usize, Vec<TpsCell>> = BTreeMap::new();
    let all = (most * ROWS.len()) as f64;
    let mut done = 0.0;
    for count in 1..=most {
        for certificate in [ECDSA, RSA] {
            let serving = serving(certificate, &own[..count])?;
            for (index, row) in ROWS.iter().enumerate() {
                if row.certificate != certificate {
                    continue;
                }
                progress(
                    &format!("{} on {count} of {} cores", row.label(), own.len()),
                    done / all,
                );
                done += 1.0;
                let cell = cell(row, count, &own, options, &serving)?;
                cells.entry(index).or_default().push(cell);
            }
        }
    }
    let rows: Vec<TpsRow> = cells
        .into_iter()
        .map(|(index, mut cells)| {
            compare_cores(&mut cells);
            TpsRow {
                version: ROWS[index].version.name(),
                suite: ROWS[index].suite.to_string(),
                certificate: ROWS[index].certificate.name(),
                cells,
            }
        })
        .collect();
    Ok(TpsMatrix {
        cores: own.len(),
        hit_rate: 0.0,
        rsa_over_ecdsa: ratio(&rows),
        notes: notes(&rows, own.len()),
        rows,
        published: PUBLISHED_TPS,
    })
}

impl Row {
    fn label(&self) -> String {
        format!("{} with {}", self.suite.name(), self.certificate.name())
    }
}

/// A server with one worker on each of these cores.
fn serving(certificate: CertificateKind, cores: &[usize]) -> Result<Serving, BenchError> {
    Serving::start(&ServingOptions {
        certificate,
        workers: cores.len(),
        cores: cores.to_vec(),
        site_yaml: "tls: { groups: [x25519] }".into(),
        ..ServingOptions::default()
    })
}

fn cell(
    row: &Row,
    count: usize,
    own: &[usize],
    options: &TpsOptions,
    serving: &Serving,
) -> Result<TpsCell, BenchError> {
    let mut load = LoadOptions::new(Mode::Tps, "");
    load.duration = options.duration;
    load.warm_up = options.warm_up;
    load.connections = options.connections * count;
    load.version = Some(row.version);
    load.suite = Some(row.suite);
    load.group = (row.version == TlsVersion::Tls13).then_some(NamedGroup::X25519);
    load.hit_rate = 0.0;
    // The cores that the server does not have; where it has all, whatever the scheduler gives.
    let shared = count >= own.len();
    load.pin = own.last().copied().filter(|_| !shared);
    let expected = Expected {
        resumed: false,
        version: row.version,
        suite: row.suite,
        others: 0,
    };
    let driven = drive(serving, load)?;
    Ok(counted(&driven, &expected, count, shared))
}

fn counted(driven: &Driven, expected: &Expected, cores: usize, shared: bool) -> TpsCell {
    let (user, system) = driven.server_cpu();
    let operations = driven.load.operations.max(1) as f64;
    let cpu = (user + system) / operations;
    let (client_full, server_full) = driven.counted(expected);
    TpsCell {
        cores,
        per_second: driven.load.per_second,
        server_cpu_micros: 1e6 * cpu,
        capacity_per_second: if cpu > 0.0 { cores as f64 / cpu } else { 0.0 },
        efficiency: 1.0,
        server_busy: (user + system) / driven.load.seconds.max(1e-9) / cores as f64,
        client_full,
        server_full,
        shared,
        missed: driven.missed(expected),
    }
}

/// Sets each cell beside the one of one core.
fn compare_cores(cells: &mut [TpsCell]) {
    let Some(one) = cells.first().map(|cell| cell.capacity_per_second) else {
        return;
    };
    for cell in cells {
        cell.efficiency = cell.capacity_per_second / cell.cores as f64 / one.max(1e-9);
    }
}

fn ratio(rows: &[TpsRow]) -> f64 {
    let of = |certificate: CertificateKind| {
        rows.iter()
            .find(|row| {
                row.certificate == certificate.name()
                    && row.suite == CipherSuite::TLS_AES_128_GCM_SHA256.name()
            })
            .and_then(|row| row.cells.first())
            .map_or(0.0, |cell| cell.server_cpu_micros)
    };
    of(RSA) / of(ECDSA).max(1e-9)
}

fn notes(rows: &[TpsRow], own: usize) -> Vec<String> {
    let mut notes = vec![
        "suites of the published table that are left out here: RSA key transport, CBC and RC4, which are not \
         forward secret or not safe, and are not offered"
            .to_owned(),
    ];
    let cells = || rows.iter().flat_map(|row| &row.cells);
    if cells().any(|cell| cell.shared) {
        notes.push(format!(
            "with the server on all {own} cores the load shares them: the measured rate is then below what the \
             server carries; its capacity is reckoned from its own CPU time"
        ));
    }
    if cells().any(|cell| !cell.shared && cell.server_busy < BUSY) {
        notes.push(
            "where the server was busy less than 90 % of its cores, the load or whatever else ran here was the limit of the rate"
                .to_owned(),
        );
    }
    notes
}

impl TpsMatrix {
    fn table(&self) -> comfy_table::Table {
        let counts = self.rows.first().map_or(0, |row| row.cells.len());
        let mut headings = vec!["suite".to_owned(), "certificate".to_owned()];
        for count in 1..=counts {
            let cores = if count == 1 {
                "1 core"
            } else {
                &format!("{count} cores")
            };
            headings.push(format!("{cores}: capacity"));
            headings.push("measured".into());
            headings.push("busy".into());
            headings.push("CPU of one".into());
            if count > 1 {
                headings.push("efficiency".into());
            }
        }
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut rows = table(&headings);
        for row in &self.rows {
            let mut cells = vec![short(&row.suite, row.version), row.certificate.to_owned()];
            for cell in &row.cells {
                cells.push(per_second(cell.capacity_per_second));
                let mark = if cell.shared { "*" } else { "" };
                cells.push(per_second(cell.per_second) + mark);
                cells.push(percent(cell.server_busy));
                cells.push(micros(cell.server_cpu_micros));
                if cell.cores > 1 {
                    cells.push(percent(cell.efficiency));
                }
            }
            rows.add_row(cells);
        }
        rows
    }
}

/// The text for people.
impl fmt::Display for TpsMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "New connections per second, full handshakes only (hit rate {:.0}, counted at both ends), one request of 1 KB each",
            self.hit_rate
        )?;
        writeln!(f, "{}", self.table())?;
        writeln!(
            f,
            "Capacity: what the server's cores carry by its own CPU time. * the load shared the server's cores.\n\
             RSA-2048 costs {:.1} times ECDSA P-256 (TLS 1.3, AES-128-GCM). Published rule: about 4 times, 500 RSA and 2 000 EC per core.",
            self.rsa_over_ecdsa
        )?;
        writeln!(
            f,
            "\nPublished for a software load balancer, other hardware, 2 and 16 cores"
        )?;
        for published in &self.published {
            writeln!(
                f,
                "  {:<36} {:>8} … {:>9}",
                published.label,
                per_second(published.two_cores_per_second),
                per_second(published.sixteen_cores_per_second)
            )?;
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        for row in &self.rows {
            for cell in &row.cells {
                for missed in &cell.missed {
                    writeln!(
                        f,
                        "missed: {} {} on {} cores: {missed}",
                        row.suite, row.certificate, cell.cores
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// `1.3 AES-128-GCM`: what tells the rows apart.
fn short(suite: &str, version: &str) -> String {
    let cipher = [
        ("AES_128_GCM", "AES-128-GCM"),
        ("AES_256_GCM", "AES-256-GCM"),
        ("CHACHA20", "ChaCha20-Poly1305"),
    ];
    let known = cipher.iter().find(|(part, _)| suite.contains(part));
    let exchange = if suite.contains("ECDHE") {
        " ECDHE"
    } else {
        ""
    };
    format!(
        "{}{exchange} {}",
        version.strip_prefix("TLSv").unwrap_or(version),
        known.map_or(suite, |(_, name)| name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell_of(cores: usize, cpu_micros: f64) -> TpsCell {
        TpsCell {
            cores,
            per_second: 1.0,
            server_cpu_micros: cpu_micros,
            capacity_per_second: cores as f64 * 1e6 / cpu_micros,
            efficiency: 1.0,
            server_busy: 0.5,
            client_full: 1,
            server_full: 1,
            shared: cores > 1,
            missed: Vec::new(),
        }
    }

    #[test]
    fn efficiency_is_what_a_core_carries_beside_what_one_alone_does() {
        let mut cells = [cell_of(1, 100.0), cell_of(2, 125.0)];
        compare_cores(&mut cells);
        assert!((cells[0].efficiency - 1.0).abs() < 1e-9);
        assert!((cells[1].efficiency - 0.8).abs() < 1e-9);
    }

    #[test]
    fn every_row_exists_and_fits_its_certificate() {
        for row in &ROWS {
            let name = row.suite.name();
            assert!(CipherSuite::from_name(name).is_some(), "{name}");
            if row.version == TlsVersion::Tls12 {
                let kind = if row.certificate == RSA {
                    "ECDHE_RSA"
                } else {
                    "ECDHE_ECDSA"
                };
                assert!(name.contains(kind), "{name}");
            }
        }
    }

    #[test]
    fn a_load_that_could_not_fill_the_server_is_said_to_be_the_limit() {
        let rows = [TpsRow {
            version: "TLSv1.3",
            suite: "TLS_AES_128_GCM_SHA256".into(),
            certificate: "ecdsa-p256",
            cells: vec![cell_of(1, 100.0), cell_of(2, 100.0)],
        }];
        let notes = notes(&rows, 2).join(" ");
        assert!(
            notes.contains("was the limit of the rate") && notes.contains("shares them"),
            "{notes}"
        );
    }

    #[test]
    fn suites_are_told_apart_by_version_and_cipher() {
        assert_eq!(
            short("TLS_AES_128_GCM_SHA256", "TLSv1.3"),
            "1.3 AES-128-GCM"
        );
        assert_eq!(
            short("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLSv1.2"),
            "1.2 ECDHE ChaCha20-Poly1305"
        );
    }
}
