//! The regimes without a socket: both ends on one thread, so nothing but TLS is in the figures.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate_terms::{CertificateKind, NamedGroup, TlsVersion};

use super::BenchError;
use super::in_memory::{InMemory, Scenario};
use super::regimes::{BULK_BYTES, Regime, RegimeOptions, RegimeRow, memory_row};

/// Share of the window in which the cryptography inside of handshakes is timed apart: the clock readings
/// that this takes shall not be in the other figures.
const WATCHED_SHARE: u32 = 5;
/// Figures in a percentile, and the longest operation, in nanoseconds.
const DIGITS: u8 = 3;
const LONGEST_NANOS: u64 = 60_000_000_000;

/// What a regime gave.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) wall: Duration,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    /// CPU time of the server's side.
    pub(crate) server: Duration,
    /// The part of it that was cryptography.
    pub(crate) crypto: Duration,
    pub(crate) negotiated: String,
    pub(crate) client_handshakes: u64,
    pub(crate) server_handshakes: u64,
    pub(crate) missed: Vec<String>,
}

impl Counted {
    /// CPU time of the server's side for one operation.
    pub(crate) fn server_micros(&self) -> f64 {
        1e6 * self.server.as_secs_f64() / self.operations.max(1) as f64
    }
}

/// One row.
pub(crate) fn measure(regime: Regime, options: &RegimeOptions) -> Result<RegimeRow, BenchError> {
    let mut pair = pair(regime, options.certificate)?;
    let counted = match regime {
        Regime::Full => handshakes(&mut pair, false, options.duration)?,
        Regime::Resumed => handshakes(&mut pair, true, options.duration)?,
        Regime::BulkAes | Regime::BulkChaCha => bulk(&mut pair, options.duration)?,
    };
    let expected = match regime {
        Regime::Resumed => "resumed",
        Regime::Full | Regime::BulkAes | Regime::BulkChaCha => "full",
    };
    let negotiated = format!(
        "{expected} {} {}",
        TlsVersion::Tls13.name(),
        regime.suite().name()
    );
    Ok(memory_row(
        regime,
        &Counted {
            negotiated,
            ..counted
        },
    ))
}

/// Both ends for a regime. A handshake that is not what it was to be is an error there, not a figure.
pub(crate) fn pair(regime: Regime, certificate: CertificateKind) -> Result<InMemory, BenchError> {
    InMemory::new(Scenario {
        version: TlsVersion::Tls13,
        certificate,
        group: NamedGroup::X25519,
        suite: regime.suite(),
    })
}

/// Handshakes until the time is over.
fn handshakes(
    pair: &mut InMemory,
    resumed: bool,
    duration: Duration,
) -> Result<Counted, BenchError> {
    let mut times = histogram()?;
    let mut server_nanos = 0.0;
    let mut seen = 0;
    // The first one makes what the others find ready, and is not counted.
    pair.handshake(resumed)?;
    let begun = Instant::now();
    while begun.elapsed() < duration || times.is_empty() {
        let before = Instant::now();
        let shaken = pair.handshake(resumed)?;
        times.saturating_record(nanos(before.elapsed()));
        server_nanos += shaken.server_nanos;
        seen += u64::from(shaken.facts.kind.is_resumed() == resumed);
    }
    let wall = begun.elapsed();
    let operations = times.len();
    let crypto = crypto_nanos(pair, resumed, duration / WATCHED_SHARE)?;
    Ok(Counted {
        operations,
        wall,
        p50_micros: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_micros: times.value_at_quantile(0.99) as f64 / 1e3,
        server: Duration::from_nanos(server_nanos as u64),
        crypto: Duration::from_nanos((crypto * operations as f64) as u64),
        client_handshakes: operations,
        server_handshakes: seen,
        ..Counted::default()
    })
}

/// What one handshake's key exchange, signature and tickets take of the server's CPU, on average.
fn crypto_nanos(pair: &mut InMemory, resumed: bool, duration: Duration) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let (mut sum, mut count) = (0.0, 0.0);
    while count < 10.0 || begun.elapsed() < duration {
        let share = pair.share(resumed)?;
        sum += share.key_exchange + share.signature + share.tickets;
        count += 1.0;
    }
    Ok(sum / count)
}

/// Blocks of 1 MiB from server to client until the time is over.
fn bulk(pair: &mut InMemory, duration: Duration) -> Result<Counted, BenchError> {
    let mut times = histogram()?;
    let mut established = pair.established()?;
    established.download(BULK_BYTES as usize)?;
    let mut server_nanos = 0.0;
    let begun = Instant::now();
    while begun.elapsed() < duration || times.is_empty() {
        let before = Instant::now();
        let (server, _) = established.download(BULK_BYTES as usize)?;
        times.saturating_record(nanos(before.elapsed()));
        server_nanos += server;
    }
    let server = Duration::from_nanos(server_nanos as u64);
    Ok(Counted {
        operations: times.len(),
        wall: begun.elapsed(),
        p50_micros: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_micros: times.value_at_quantile(0.99) as f64 / 1e3,
        server,
        // The server does nothing but seal records.
        crypto: server,
        client_handshakes: 1,
        server_handshakes: 1,
        ..Counted::default()
    })
}

fn histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_max(LONGEST_NANOS, DIGITS).map_err(|error| BenchError::Broken {
        what: "a histogram of times".into(),
        reason: error.to_string(),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn every_regime_is_reached_in_memory_and_its_server_pays_a_part_of_the_time() {
        let options = RegimeOptions {
            duration: Duration::from_millis(20),
            ..RegimeOptions::default()
        };
        for regime in Regime::ALL {
            let row = measure(regime, &options).unwrap();
            assert!(row.missed.is_empty(), "{row:?}");
            assert_eq!(row.client_handshakes, row.server_handshakes, "{row:?}");
            assert!(row.operations > 0 && row.p99_micros >= row.p50_micros);
            assert_eq!(row.gigabits_per_second.is_some(), regime.is_bulk());
            let paid = row.server_cpu_micros * row.per_second / 1e6;
            assert!((0.0..1.05).contains(&paid), "{row:?}");
            assert!(row.negotiated.contains(regime.suite().name()));
        }
    }
}
