//! What the kind of a certificate costs a server that does the same work with each.
//!
//! The work is fixed: new connections at the same rate for the same time, so every server makes the same
//! number of full handshakes. What differs is the CPU that it takes for them: as time, or as cycles where
//! the system lets `perf` count them.

use std::fmt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Serialize;
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion};

use super::BenchError;
use super::driving::{Expected, Places, drive};
use super::figures::{digits, micros, percent, table};
use super::serving::{Serving, ServingOptions};
use crate::{LoadOptions, Mode};

/// How far a server may stay behind the number of handshakes and still have done the same load; it may
/// do a few more, which are on their way when the last one ends.
const SAME_LOAD: f64 = 0.05;

/// Times the window after which a server that is not done has too much to do.
const GRACE: u32 = 3;

/// How the kinds are compared. Every field can be set in any order.
#[derive(Clone, Debug)]
pub struct CertOptions {
    /// Kinds, in order; the first is what the others are set against. Default RSA-4096, RSA-2048, ECDSA P-256, Ed25519.
    pub kinds: Vec<CertificateKind>,
    /// Measured window for each: `rate` times this is the number of handshakes. Default 10 s.
    pub duration: Duration,
    /// Load before each window. Default 300 ms.
    pub warm_up: Duration,
    /// New connections per second. Default 150: RSA-4096 can bear it on one core.
    pub rate: f64,
    /// Count CPU cycles where the system allows it. Default false: CPU time.
    pub cycles: bool,
}

impl Default for CertOptions {
    fn default() -> Self {
        Self {
            kinds: vec![
                CertificateKind::Rsa(4096),
                CertificateKind::Rsa(2048),
                CertificateKind::EcdsaP256,
                CertificateKind::Ed25519,
            ],
            duration: Duration::from_secs(10),
            warm_up: Duration::from_millis(300),
            rate: 150.0,
            cycles: false,
        }
    }
}

/// One kind of certificate.
#[derive(Clone, Debug, Serialize)]
pub struct CertRow {
    /// Its name.
    pub certificate: &'static str,
    /// Full handshakes as the client counted them in the window.
    pub client_full: u64,
    /// Full handshakes as the server counted them in the whole run.
    pub server_full: u64,
    /// CPU time of the server in the window, in seconds.
    pub server_cpu_seconds: f64,
    /// The same for one connection, in microseconds.
    pub server_cpu_micros: f64,
    /// CPU cycles of the server while the load ran, warm-up included, when they were counted.
    pub server_cycles: Option<u64>,
    /// Share of one core that the server was busy, 0 to 1.
    pub server_busy: f64,
    /// CPU over that of the cheapest kind.
    pub over_cheapest: f64,
    /// CPU saved beside the first kind, 0 to 1; negative when this one is dearer.
    pub saved: f64,
    /// Median time of a connection with its request, in microseconds.
    pub p50_micros: f64,
    /// Why it was not what it was to be; empty when it was.
    pub missed: Vec<String>,
}

/// What the ratio is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// CPU time from the process's account, resolution 10 ms.
    CpuTime,
    /// CPU cycles by `perf stat`.
    Cycles,
}

/// All kinds.
#[derive(Clone, Debug, Serialize)]
pub struct Certificates {
    /// Connections per second that each server was given.
    pub rate_per_second: f64,
    /// Length of each window, in seconds.
    pub seconds: f64,
    /// What `over_cheapest` and `saved` are made of.
    pub counter: Counter,
    /// The rows, in order.
    pub rows: Vec<CertRow>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Certificates {
    /// Whether every server did the same number of full handshakes with its own kind.
    pub fn reached(&self) -> bool {
        self.rows.iter().all(|row| row.missed.is_empty())
    }
}

/// Compares the kinds, telling `progress` what is next and which share is done.
///
/// # Errors
/// When a server cannot be started or a run cannot begin.
pub fn run(
    options: &CertOptions,
    progress: &dyn Fn(&str, f64),
) -> Result<Certificates, BenchError> {
    let places = Places::here();
    let mut notes: Vec<String> = places.note().into_iter().collect();
    let mut counting = options.cycles;
    if counting && let Err(reason) = can_count() {
        notes.push(format!(
            "CPU cycles cannot be counted here ({reason}); CPU time is in their place"
        ));
        counting = false;
    }
    let mut rows = Vec::new();
    for (index, kind) in options.kinds.iter().enumerate() {
        progress(
            kind.name(),
            index as f64 / options.kinds.len().max(1) as f64,
        );
        rows.push(measure(*kind, options, places, counting)?);
    }
    let counter = if counting && rows.iter().all(|row| row.server_cycles.is_some()) {
        Counter::Cycles
    } else {
        Counter::CpuTime
    };
    compare(&mut rows, &counter, options);
    if options.kinds.contains(&CertificateKind::Ed25519) {
        notes.push(
            "browsers do not accept Ed25519 certificates and public authorities do not issue them: \
             serve one only beside an ECDSA certificate, or where every client is your own"
                .into(),
        );
    }
    Ok(Certificates {
        rate_per_second: options.rate,
        seconds: options.duration.as_secs_f64(),
        counter,
        rows,
        notes,
    })
}

fn measure(
    kind: CertificateKind,
    options: &CertOptions,
    places: Places,
    counting: bool,
) -> Result<CertRow, BenchError> {
    let serving = Serving::start(&ServingOptions {
        certificate: kind,
        pin: Some(places.server),
        backend_pin: Some(places.load),
        site_yaml: "tls: { groups: [x25519] }".into(),
        ..ServingOptions::default()
    })?;
    let mut load = LoadOptions::new(Mode::Tps, "");
    // The window ends with the last handshake of the load; a server that falls behind gets some grace.
    load.operations = Some(wanted(options));
    load.duration = GRACE * options.duration;
    load.warm_up = options.warm_up;
    load.rate = Some(options.rate);
    load.connections = 16;
    load.version = Some(TlsVersion::Tls13);
    load.suite = Some(CipherSuite::TLS_AES_128_GCM_SHA256);
    load.group = Some(NamedGroup::X25519);
    load.pin = Some(places.load);
    let expected = Expected {
        resumed: false,
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        others: 0,
    };
    let perf = if counting {
        Perf::start(serving.pid()).ok()
    } else {
        None
    };
    let driven = drive(&serving, load)?;
    let server_cycles = perf.and_then(|perf| perf.stop().ok());
    let mut missed = driven.missed(&expected);
    let other_kind = driven.load.handshakes.kinds.iter().find(|seen| {
        seen.certificate
            .as_ref()
            .is_none_or(|certificate| *certificate != kind.name())
    });
    if let Some(other) = other_kind {
        missed.push(format!(
            "{} handshakes were not with this certificate",
            other.count
        ));
    }
    let (user, system) = driven.server_cpu();
    let (client_full, server_full) = driven.counted(&expected);
    Ok(CertRow {
        certificate: kind.name(),
        client_full,
        server_full,
        server_cpu_seconds: user + system,
        server_cpu_micros: 1e6 * (user + system) / client_full.max(1) as f64,
        server_cycles,
        server_busy: (user + system) / driven.load.seconds.max(1e-9),
        over_cheapest: 0.0,
        saved: 0.0,
        p50_micros: driven
            .load
            .operation_micros
            .map_or(0.0, |spread| spread.p50 as f64),
        missed,
    })
}

/// Handshakes that each server has to do.
fn wanted(options: &CertOptions) -> u64 {
    ((options.rate * options.duration.as_secs_f64()).round() as u64).max(1)
}

/// Sets every row beside the cheapest and beside the first, and asserts that the load was the same.
fn compare(rows: &mut [CertRow], counter: &Counter, options: &CertOptions) {
    let cost = |row: &CertRow| match (counter, row.server_cycles) {
        (Counter::Cycles, Some(cycles)) => cycles as f64 / row.server_full.max(1) as f64,
        _ => row.server_cpu_micros,
    };
    let costs: Vec<f64> = rows.iter().map(cost).collect();
    let cheapest = costs
        .iter()
        .copied()
        .filter(|cost| *cost > 0.0)
        .fold(f64::INFINITY, f64::min);
    let wanted = wanted(options) as f64;
    for (row, own) in rows.iter_mut().zip(&costs) {
        row.over_cheapest = if cheapest.is_finite() {
            own / cheapest
        } else {
            0.0
        };
        row.saved = 1.0 - own / costs[0].max(1e-9);
        if (row.client_full as f64) < (1.0 - SAME_LOAD) * wanted - 1.0 {
            row.missed.push(format!(
                "{} handshakes in place of {wanted:.0}: this machine cannot bear the rate; give a lower one with --rate",
                row.client_full
            ));
        }
    }
}

/// Whether `perf` is there and may count cycles of another process of ours.
fn can_count() -> Result<(), String> {
    let perf = Perf::start(std::process::id()).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "perf is not installed".to_owned(),
        _ => error.to_string(),
    })?;
    std::thread::sleep(Duration::from_millis(100));
    perf.stop().map(drop)
}

/// A `perf stat` that counts the cycles of one process. Killed when dropped.
struct Perf {
    child: Child,
}

impl Perf {
    fn start(pid: u32) -> std::io::Result<Self> {
        let child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "cycles", "-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    /// Ends it as Ctrl-C would; it then says what it counted.
    fn stop(mut self) -> Result<u64, String> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, with a reason that it says.
            let _ = rustix::process::kill_process(pid, Signal::INT);
        }
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What cannot be read holds no count.
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        }
        let _ = self.child.wait();
        cycles(&said)
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // Neither fails unless it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The count in what `perf stat -x ,` says: `123456,,cycles,...`, or `<not supported>` in its place.
fn cycles(said: &str) -> Result<u64, String> {
    let line = said.lines().find(|line| line.contains("cycles"));
    let Some(line) = line else {
        let reason = said.lines().map(str::trim).find(|line| !line.is_empty());
        return Err(format!("perf says: {}", reason.unwrap_or("nothing")));
    };
    let count = line.split(',').next().unwrap_or_default().trim();
    count.parse().map_err(|_| format!("perf says: {count}"))
}

/// The text for people.
impl fmt::Display for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.counter {
            Counter::CpuTime => "CPU time",
            Counter::Cycles => "CPU cycles",
        };
        writeln!(
            f,
            "The same load for each certificate: {}/s for {} s, full TLS 1.3 handshakes with one request; compared by {by}",
            digits(self.rate_per_second),
            digits(self.seconds)
        )?;
        let mut rows = table(&[
            "certificate",
            "handshakes",
            "server CPU",
            "for one",
            "cycles",
            "busy",
            "p50",
            "ratio",
            "saved",
        ]);
        for row in &self.rows {
            rows.add_row(vec![
                row.certificate.to_owned(),
                row.client_full.to_string(),
                micros(1e6 * row.server_cpu_seconds),
                micros(row.server_cpu_micros),
                row.server_cycles.map_or_else(String::new, |cycles| {
                    format!("{} G", digits(cycles as f64 / 1e9))
                }),
                percent(row.server_busy),
                micros(row.p50_micros),
                format!("{} x", digits(row.over_cheapest)),
                percent(row.saved),
            ]);
        }
        writeln!(f, "{rows}")?;
        writeln!(
            f,
            "Ratio: beside the cheapest. Saved: beside the first. Published for Go's library, cycles of a fixed load: \
             RSA-4096 418.6 G, ECDSA P-256 21.6 G, Ed25519 21.1 G (19.8 : 1.02 : 1)."
        )?;
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        for row in &self.rows {
            for missed in &row.missed {
                writeln!(f, "missed: {}: {missed}", row.certificate)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn row(certificate: &'static str, micros: f64, cycles: Option<u64>) -> CertRow {
        CertRow {
            certificate,
            client_full: 100,
            server_full: 100,
            server_cpu_seconds: micros / 1e4,
            server_cpu_micros: micros,
            server_cycles: cycles,
            server_busy: 0.1,
            over_cheapest: 0.0,
            saved: 0.0,
            p50_micros: 1.0,
            missed: Vec::new(),
        }
    }

    fn options(rate: f64) -> CertOptions {
        CertOptions {
            rate,
            duration: Duration::from_secs(1),
            ..CertOptions::default()
        }
    }

    #[test]
    fn ratios_are_beside_the_cheapest_and_savings_beside_the_first() {
        let mut rows = [
            row("rsa-4096", 2000.0, None),
            row("ecdsa-p256", 100.0, None),
        ];
        compare(&mut rows, &Counter::CpuTime, &options(100.0));
        assert!((rows[0].over_cheapest - 20.0).abs() < 1e-9);
        assert!((rows[1].over_cheapest - 1.0).abs() < 1e-9);
        assert!((rows[1].saved - 0.95).abs() < 1e-9);
        assert!(rows.iter().all(|row| row.missed.is_empty()));
    }

    #[test]
    fn cycles_decide_when_they_were_counted() {
        let mut rows = [row("a", 1.0, Some(4_000)), row("b", 1.0, Some(1_000))];
        compare(&mut rows, &Counter::Cycles, &options(100.0));
        assert!((rows[0].over_cheapest - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_did_less_than_the_others_is_a_miss() {
        let mut rows = [row("a", 1.0, None)];
        compare(&mut rows, &Counter::CpuTime, &options(200.0));
        assert!(rows[0].missed[0].contains("--rate"), "{:?}", rows[0].missed);
    }

    #[test]
    fn the_count_of_perf_is_read_and_its_refusals_are_passed_on() {
        assert_eq!(cycles("4186,,cycles:u,100,100.00,,\n"), Ok(4186));
        assert!(
            cycles("<not supported>,,cycles,0,100.00,,\n")
                .unwrap_err()
                .contains("not supported")
        );
        assert!(
            cycles("Error:\nNo permission\n")
                .unwrap_err()
                .contains("Error")
        );
    }
}
