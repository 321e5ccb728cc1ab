//! Phase 3: what a byte costs in records, through our own record layer.

use std::time::Instant;

use tollgate_cost::{Figure, Unit};
use tollgate_terms::CipherSuite;
use tollgate_tls::primitives::RecordPair;

use super::asymmetric::broken;
use super::in_memory::cipher_name;
use super::runner::{clock_cost, thread_cpu};
use super::steps::Steps;
use super::{Bench, BenchError};

/// The suites of TLS 1.3; those of TLS 1.2 use the same three ciphers.
const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS_AES_128_GCM_SHA256,
    CipherSuite::TLS_AES_256_GCM_SHA384,
    CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
];

/// Plaintext in a record: an interactive one, a small answer, the longest that the standard allows.
pub(crate) const SIZES: [usize; 3] = [64, 1024, 16 * 1024];

/// Records that wait to be opened take this much at most, so that they are still in the cache then, as
/// they are when they come from a socket.
const WAITING_BYTES: usize = 128 * 1024;

/// A sample is at least this much CPU time.
const SAMPLE_NANOS: f64 = 2e6;
const LEAST_SAMPLES: usize = 15;
const MOST_SAMPLES: usize = 400;

/// Measures phase 3.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut steps = Steps::new(bench, 2 * SUITES.len() * SIZES.len());
    let (mut sealing, mut opening) = (Vec::new(), Vec::new());
    for suite in SUITES {
        for size in SIZES {
            steps.next(&label("seal", suite, size));
            sealing.push(seal(bench, suite, size)?);
            steps.next(&label("open", suite, size));
            opening.push(open(bench, suite, size)?);
        }
    }
    sealing.append(&mut opening);
    Ok(sealing)
}

/// `seal, AES-128-GCM, records of 16 KB`.
fn label(verb: &str, suite: CipherSuite, size: usize) -> String {
    let cipher = match cipher_name(suite) {
        "chacha20-poly1305" => "ChaCha20-Poly1305".to_owned(),
        other => other.to_ascii_uppercase(),
    };
    let size = match size {
        1024.. => format!("{} KB", size / 1024),
        _ => format!("{size} B"),
    };
    format!("{verb}, {cipher}, records of {size}")
}

fn id(verb: &str, suite: CipherSuite, size: usize) -> String {
    format!("record/{verb}/{}/{size}", cipher_name(suite))
}

fn seal(bench: &Bench<'_>, suite: CipherSuite, size: usize) -> Result<Figure, BenchError> {
    let mut pair = RecordPair::new(suite).map_err(broken)?;
    let plain = vec![7; size];
    let mut output = vec![0; RecordPair::room(size)];
    bench.time_bytes(
        id("seal", suite, size),
        label("seal", suite, size),
        "one TLS 1.3 record, from the plaintext into the buffer that is sent",
        size as u64,
        || pair.seal(&plain, &mut output).map(drop).map_err(broken),
    )
}

/// A record can be opened once only, since that happens in place: a few are sealed off the clock, and
/// then opened on it.
fn open(bench: &Bench<'_>, suite: CipherSuite, size: usize) -> Result<Figure, BenchError> {
    let mut pair = RecordPair::new(suite).map_err(broken)?;
    let plain = vec![7; size];
    let count = (WAITING_BYTES / size).clamp(1, 1024);
    let mut records = vec![vec![0; RecordPair::room(size)]; count];
    let mut lengths = vec![0; count];
    let begun = Instant::now();
    let mut samples = Vec::new();
    // The first sample is cold and is not kept.
    let mut warm = false;
    while samples.len() < LEAST_SAMPLES
        || (begun.elapsed() < bench.per_figure && samples.len() < MOST_SAMPLES)
    {
        let (mut nanos, mut bytes) = (0.0, 0);
        let wanted = SAMPLE_NANOS.min(bench.per_figure.as_nanos() as f64 / 25.0);
        while bytes == 0 || nanos < wanted {
            for (record, length) in records.iter_mut().zip(&mut lengths) {
                *length = pair.seal(&plain, record).map_err(broken)?;
            }
            let before = thread_cpu();
            for (record, length) in records.iter_mut().zip(&lengths) {
                pair.open(&mut record[..*length]).map_err(broken)?;
            }
            let took = thread_cpu().saturating_sub(before);
            nanos += (took.as_nanos() as f64 - clock_cost().median).max(0.0);
            bytes += count * size;
        }
        if warm {
            samples.push(nanos / bytes as f64);
        }
        warm = true;
    }
    bench.figure(
        id("open", suite, size),
        label("open", suite, size),
        "one TLS 1.3 record, in place, a few of them waiting in the cache",
        Unit::NanosecondsPerByte,
        &samples,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_cipher_and_size_has_a_figure_and_small_records_cost_more_per_byte() {
        let bench = Bench::new(Duration::from_millis(2), &|_, _| ());
        let figures = measure(&bench).unwrap();
        super::super::steps::assert_sound(&figures);
        assert_eq!(figures.len(), 18);
        for suite in SUITES {
            for verb in ["seal", "open"] {
                let find = |size| {
                    let id = id(verb, suite, size);
                    let figure = figures.iter().find(|figure| figure.id == id);
                    figure.unwrap().measured.median
                };
                assert!(find(64) > find(16 * 1024), "{verb} {suite}");
            }
        }
    }
}
