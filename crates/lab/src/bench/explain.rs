//! Where the CPU time of one full handshake goes, on the server's side.
//!
//! Nothing here is a textbook's share: cryptography is timed where the handshake calls it, in memory;
//! what the process takes beyond that is read from its account; and what any server pays for a
//! connection, TLS or not, is measured at a plaintext one.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use tollgate_cost::Measured;
use tollgate_tls::Buffers;
use tollgate_tls::primitives::{Hash, Schedule13, Transcripts};

use super::driving::{Expected, Places, drive};
use super::fetch::Link;
use super::figures::{micros, percent, table};
use super::in_process::pair;
use super::regimes::{Regime, RegimeOptions, load_of};
use super::serving::{BackendAt, Serving, ServingMode, ServingOptions};
use super::{Bench, BenchError};
use crate::watch::Watched;

/// CPU time in one state below which the account's steps of 10 ms show, in seconds.
const ENOUGH: f64 = 0.2;
/// Handshakes whose parts are timed.
const LEAST_SHARES: usize = 30;

/// One part of the time.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// CPU time of the server for one handshake, in microseconds.
    pub cpu_micros: f64,
    /// Of the whole, 0 to 1.
    pub share: f64,
    /// How it was measured.
    pub how: &'static str,
}

/// A full handshake of a new connection with one request, part by part.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// CPU time of the server for one of them, in microseconds.
    pub total_micros: f64,
    /// The part of it that is spent in the kernel, in microseconds.
    pub system_micros: f64,
    /// The parts; together they are the whole.
    pub parts: Vec<Part>,
    /// Why the run was not one of full handshakes; empty when it was.
    pub missed: Vec<String>,
    /// What a reader must know about the figures.
    pub notes: Vec<String>,
}

/// Measures it: a run of full handshakes against a server, the same handshakes in memory, and
/// plaintext connections with the same request.
pub(crate) fn explain(options: &RegimeOptions, places: Places) -> Result<Explanation, BenchError> {
    let inside = inside(options)?;
    let serving = Serving::start(&ServingOptions {
        mode: ServingMode::Http,
        ..options.server(places)
    })?;
    let load = load_of(Regime::Full, options, places);
    let expected = Expected {
        resumed: false,
        version: tollgate_terms::TlsVersion::Tls13,
        suite: Regime::Full.suite(),
        others: 0,
    };
    let driven = drive(&serving, load)?;
    let operations = driven.load.operations.max(1) as f64;
    let (user, system) = driven.server_cpu();
    let coarse = user.min(system) < ENOUGH;
    let (user, system) = (1e6 * user / operations, 1e6 * system / operations);
    let floor = plaintext(options.duration, places)?;
    let mut explanation = shares(&inside, user, system, floor, driven.missed(&expected));
    if coarse {
        explanation.notes.push(
            "the process's account has steps of 10 ms, which is too coarse for a run as short as this one: \
             give it more time with --duration before you believe the parts outside of the handshake"
                .into(),
        );
    }
    Ok(explanation)
}

/// What the handshake itself takes, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Inside {
    key_exchange: f64,
    signature: f64,
    tickets: f64,
    schedule: f64,
    total: f64,
}

fn inside(options: &RegimeOptions) -> Result<Inside, BenchError> {
    let mut pair = pair(Regime::Full, options.certificate)?;
    let (mut total, mut key_exchange) = (Vec::new(), Vec::new());
    let (mut signature, mut tickets) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while total.len() < LEAST_SHARES || begun.elapsed() < options.duration / 3 {
        let share = pair.share(false)?;
        total.push(share.total / 1e3);
        key_exchange.push(share.key_exchange / 1e3);
        signature.push(share.signature / 1e3);
        tickets.push(share.tickets / 1e3);
    }
    let median = |samples: &[f64]| Measured::of(samples).map_or(0.0, |measured| measured.median);
    Ok(Inside {
        key_exchange: median(&key_exchange),
        signature: median(&signature),
        tickets: median(&tickets),
        schedule: schedule(options.duration / 10)?,
        total: median(&total),
    })
}

/// The key schedule of one handshake, in microseconds.
fn schedule(per_figure: Duration) -> Result<f64, BenchError> {
    let broken = |error: tollgate_tls::primitives::PrimitiveError| BenchError::Broken {
        what: "the key schedule".into(),
        reason: error.to_string(),
    };
    let schedule = Schedule13::new(Hash::Sha256).map_err(broken)?;
    let transcripts = Transcripts::any(Hash::Sha256);
    let bench = Bench::new(per_figure, &|_, _| ());
    let figure = bench.time("schedule", "key schedule", "", || {
        let derived = schedule.derive(&[7; 32], &transcripts, &[0; 8]);
        derived
            .map(|derived| drop(std::hint::black_box(derived)))
            .map_err(broken)
    })?;
    Ok(figure.measured.median / 1e3)
}

/// System CPU of a plaintext server for one new connection with one request, in microseconds.
fn plaintext(duration: Duration, places: Places) -> Result<f64, BenchError> {
    // The built-in backend behind a server that nobody calls: what starts it knows how to end it.
    let serving = Serving::start(&ServingOptions {
        backend: BackendAt::Tcp,
        pin: Some(places.load),
        backend_pin: Some(places.server),
        ..ServingOptions::default()
    })?;
    let (Some(pid), Some(address)) = (serving.backend_pid(), serving.backend_address()) else {
        return Err(BenchError::Broken {
            what: "the built-in backend".into(),
            reason: "it does not say where it is".into(),
        });
    };
    let watched = Watched::new(&[pid]);
    let run = async {
        let buffers = Buffers::new();
        let before = watched.cpu_alone();
        let begun = Instant::now();
        let mut count = 0_u32;
        while begun.elapsed() < duration || count == 0 {
            let mut link = Link::open(address, None, &buffers).await?;
            link.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .await?;
            link.close().await;
            count += 1;
        }
        let took = watched.cpu_alone().since(before);
        Ok(1e6 * took.system.as_secs_f64() / f64::from(count))
    };
    let outcome: std::io::Result<f64> = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(run));
    outcome.map_err(|source| BenchError::System {
        what: format!("plaintext connections to our own backend at {address}"),
        source,
        hint: "ports may have run out; try again in a minute".into(),
    })
}

/// Splits the account of the process, so that the parts are the whole.
fn shares(inside: &Inside, user: f64, system: f64, floor: f64, missed: Vec<String>) -> Explanation {
    let total = user + system;
    let schedule = inside.schedule;
    let crypto = inside.key_exchange + inside.signature + inside.tickets;
    let messages = (inside.total - crypto - schedule).max(0.0);
    let serve = (user - inside.total).max(0.0);
    let tcp = floor.min(system);
    let part = |name, cpu_micros: f64, how| Part {
        name,
        cpu_micros,
        share: cpu_micros / total.max(1e-9),
        how,
    };
    let parts = vec![
        part(
            "key exchange",
            inside.key_exchange,
            "timed at the call, in memory",
        ),
        part(
            "signature",
            inside.signature,
            "timed at the call, in memory",
        ),
        part("key schedule", schedule, "timed alone, in memory"),
        part("tickets", inside.tickets, "timed at the call, in memory"),
        part(
            "messages",
            messages,
            "the rest of a handshake in memory: parsing, transcript, certificate message, records",
        ),
        part(
            "serving",
            serve,
            "the rest of the process's user time: request, response, backend, runtime",
        ),
        part(
            "TCP",
            tcp,
            "system time of a plaintext server for a connection with the same request",
        ),
        part(
            "system calls",
            system - tcp,
            "the rest of the system time: flights of the handshake, the backend's socket, waiting",
        ),
    ];
    Explanation {
        total_micros: total,
        system_micros: system,
        parts,
        missed,
        notes: Vec::new(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Where {} of server CPU go: a new connection, a full handshake, one request of 1 KB",
            micros(self.total_micros)
        )?;
        let mut rows = table(&["part", "CPU", "share", "measured as"]);
        if let Some(column) = rows.column_mut(3) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        for part in &self.parts {
            rows.add_row(vec![
                part.name.to_owned(),
                micros(part.cpu_micros),
                percent(part.share),
                part.how.to_owned(),
            ]);
        }
        writeln!(f, "{rows}")?;
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        for missed in &self.missed {
            writeln!(f, "missed: {missed}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Inside = Inside {
        key_exchange: 30.0,
        signature: 15.0,
        tickets: 3.0,
        schedule: 10.0,
        total: 70.0,
    };

    #[test]
    fn the_parts_are_the_whole() {
        let explanation = shares(&INSIDE, 90.0, 50.0, 20.0, Vec::new());
        let sum: f64 = explanation.parts.iter().map(|part| part.cpu_micros).sum();
        let shares: f64 = explanation.parts.iter().map(|part| part.share).sum();
        assert!((sum - 140.0).abs() < 1e-9 && (shares - 1.0).abs() < 1e-9);
        let of = |name: &str| {
            let part = explanation.parts.iter().find(|part| part.name == name);
            part.map_or(f64::NAN, |part| part.cpu_micros)
        };
        assert!((of("messages") - 12.0).abs() < 1e-9);
        assert!((of("serving") - 20.0).abs() < 1e-9);
        assert!((of("system calls") - 30.0).abs() < 1e-9);
    }

    #[test]
    fn noise_gives_no_negative_part() {
        let explanation = shares(&INSIDE, 60.0, 10.0, 20.0, Vec::new());
        assert!(explanation.parts.iter().all(|part| part.cpu_micros >= 0.0));
    }
}
