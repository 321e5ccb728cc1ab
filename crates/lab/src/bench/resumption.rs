//! Phase 6: what it takes to remember a client: sessions in the cache, look-ups, tickets.

use std::hint::black_box;
use std::time::Instant;

use tollgate_cost::{Figure, Unit};
use tollgate_terms::TlsVersion;
use tollgate_tls::client::Intent;
use tollgate_tls::{Resumption, SessionCache};

use super::connection_memory::settled;
use super::handshake_memory::{Agreement, Heap, Pair, resumption};
use super::runner::thread_cpu;
use super::{Bench, BenchError};

/// Site that the sessions are of.
const SITE: u64 = 1;
/// Sessions of a run of normal effort: the number that is talked about.
const SESSIONS: usize = 1_000_000;
/// Session id as the library makes it.
const ID_BYTES: usize = 32;
/// What each session is bound to, in front of it.
const BINDING_BYTES: usize = 24;
/// Lots of insertions, each one sample.
const LOTS: usize = 20;
/// Sessions of the cache whose choice of whom to forget is looked at.
const SMALL: usize = 10_000;
/// Repetitions of what several threads do at the same time.
const ROUNDS: usize = 6;

/// The figures of phase 6.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    bench.next("tickets", 0.0);
    let mut figures = tickets(bench)?;
    figures.extend(client_side(bench)?);
    let sessions = sessions_within(bench);
    bench.next(&format!("{sessions} sessions in the cache"), 0.2);
    let session_bytes = session_bytes()?;
    let kept = resumption(false, sessions)?;
    let cache = SessionCache::of(&kept, SITE);
    figures.push(bench.exact(
        "session/stored",
        "session in the cache: its id and itself",
        "of a TLS 1.2 handshake with ECDSA P-256; what it takes to find it comes on top",
        Unit::Bytes,
        (ID_BYTES + BINDING_BYTES + session_bytes) as f64,
    ));
    figures.extend(fill(bench, &kept, &cache, sessions, session_bytes)?);
    bench.next("look-ups", 0.5);
    figures.extend(look_up(bench, &cache, sessions)?);
    bench.next("look-ups on two threads", 0.7);
    figures.extend(scaling(bench, &cache, sessions)?);
    bench.next("insertion into a full cache", 0.85);
    figures.extend(overflow(bench, &kept, &cache, sessions, session_bytes)?);
    bench.next("who is forgotten", 0.95);
    figures.extend(forgotten(bench, session_bytes)?);
    Ok(figures)
}

/// A million, and fewer for a quick look.
fn sessions_within(bench: &Bench<'_>) -> usize {
    let millis = bench.per_figure.as_millis() as usize;
    (millis * 2_000).clamp(20_000, SESSIONS)
}

/// The id of the session of this number: 32 bytes that look like chance (splitmix64).
fn id(number: u64) -> [u8; ID_BYTES] {
    let mut bytes = [0; ID_BYTES];
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mut mixed = (number * 4 + index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes
}

/// Numbers below `bound` in an order that no cache foresees.
struct Jumps {
    state: u64,
    bound: u64,
}

impl Jumps {
    fn new(seed: u64, bound: usize) -> Self {
        Self {
            state: seed,
            bound: bound as u64,
        }
    }

    fn next(&mut self) -> u64 {
        // Knuth's MMIX generator; its upper half is good enough for this.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % self.bound
    }
}

/// Length of a session as the library hands it over, from a real handshake.
fn session_bytes() -> Result<usize, BenchError> {
    let pair = Pair::new(&Agreement {
        version: TlsVersion::Tls12,
        group: None,
        tickets: false,
        client_certificate: false,
    })?;
    pair.shake(Intent::Full)?;
    let stored = SessionCache::of(&pair.resumption, SITE).stored_bytes();
    stored
        .checked_sub(ID_BYTES + BINDING_BYTES)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| broken(format!("a handshake left {stored} bytes in it")))
}

fn put(cache: &SessionCache, number: u64, session_bytes: usize) -> Result<(), BenchError> {
    match cache.put(id(number).to_vec(), vec![7; session_bytes]) {
        true => Ok(()),
        false => Err(broken("it is off".into())),
    }
}

/// CPU time per insertion, in nanoseconds, one for each lot.
fn insert(
    cache: &SessionCache,
    numbers: std::ops::Range<u64>,
    session_bytes: usize,
) -> Result<Vec<f64>, BenchError> {
    let lot = ((numbers.end - numbers.start) / LOTS as u64).max(1);
    let mut samples = Vec::with_capacity(LOTS);
    let mut number = numbers.start;
    while number + lot <= numbers.end {
        let before = thread_cpu();
        for number in number..number + lot {
            put(cache, number, session_bytes)?;
        }
        let took = thread_cpu().saturating_sub(before);
        samples.push(took.as_nanos() as f64 / lot as f64);
        number += lot;
    }
    Ok(samples)
}

/// Fills the cache to its bound, and says what that took.
fn fill(
    bench: &Bench<'_>,
    kept: &Resumption,
    cache: &SessionCache,
    sessions: usize,
    session_bytes: usize,
) -> Result<Vec<Figure>, BenchError> {
    let own = std::process::id();
    let before = settled(own)?.anonymous;
    let samples = insert(cache, 0..sessions as u64, session_bytes)?;
    let after = settled(own)?.anonymous;
    let there = kept.sessions();
    if there < sessions / 2 || there > sessions {
        return Err(broken(format!("it keeps {there} sessions of {sessions}")));
    }
    Ok(vec![
        bench.exact(
            "session/bytes",
            "session in the cache, everything",
            format!(
                "growth of this process's anonymous PSS with {there} sessions, by their number"
            ),
            Unit::Bytes,
            after.saturating_sub(before) as f64 / there as f64,
        ),
        bench.figure(
            "session/insert",
            "session put into the cache",
            format!("CPU time of this thread, {LOTS} lots, up to {sessions} sessions"),
            Unit::Nanoseconds,
            &samples,
        )?,
    ])
}

/// More sessions than there is room for: each one makes another go.
fn overflow(
    bench: &Bench<'_>,
    kept: &Resumption,
    cache: &SessionCache,
    sessions: usize,
    session_bytes: usize,
) -> Result<Vec<Figure>, BenchError> {
    let first = sessions as u64;
    let samples = insert(cache, first..first + first / 4, session_bytes)?;
    let there = kept.sessions();
    if there > sessions {
        return Err(broken(format!(
            "it keeps {there} sessions, {sessions} at most"
        )));
    }
    Ok(vec![bench.figure(
        "session/insert/full",
        "session put into a full cache, another forgotten",
        format!("CPU time of this thread; {there} of {sessions} sessions after it"),
        Unit::Nanoseconds,
        &samples,
    )?])
}

/// Look-ups all over the cache, of sessions that are there and of such that are not.
fn look_up(
    bench: &Bench<'_>,
    cache: &SessionCache,
    sessions: usize,
) -> Result<Vec<Figure>, BenchError> {
    let mut found = 0_u64;
    let mut asked = 0_u64;
    let mut jumps = Jumps::new(1, sessions);
    let hit = bench.time(
        "session/look-up",
        format!("look-up of a session among {sessions}, found and copied"),
        "CPU time of this thread, ids in no order",
        || {
            asked += 1;
            found += u64::from(black_box(cache.get(&id(jumps.next()))).is_some());
            Ok(())
        },
    )?;
    // The cache keeps its bound per part of itself, so some parts have forgotten a few.
    if found * 10 < asked * 8 {
        return Err(broken(format!(
            "{found} look-ups of {asked} found something"
        )));
    }
    let mut jumps = Jumps::new(2, sessions);
    let absent = sessions as u64 * 4;
    let miss = bench.time(
        "session/look-up/miss",
        format!("look-up of a session that is not among {sessions}"),
        "CPU time of this thread, ids in no order",
        || {
            black_box(cache.get(&id(absent + jumps.next())));
            Ok(())
        },
    )?;
    Ok(vec![hit, miss])
}

/// Look-ups per second of wall time on one thread and on two.
fn scaling(
    bench: &Bench<'_>,
    cache: &SessionCache,
    sessions: usize,
) -> Result<Vec<Figure>, BenchError> {
    let each = (sessions / 5).max(4_000);
    let mut figures = Vec::new();
    for threads in [1_usize, 2] {
        let samples: Vec<f64> = (0..ROUNDS)
            .map(|round| {
                let began = Instant::now();
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        let mut jumps = Jumps::new((round * 2 + thread) as u64 + 3, sessions);
                        scope.spawn(move || {
                            for _ in 0..each {
                                black_box(cache.get(&id(jumps.next())));
                            }
                        });
                    }
                });
                (each * threads) as f64 / began.elapsed().as_secs_f64()
            })
            .collect();
        let plural = if threads == 1 { "" } else { "s" };
        figures.push(bench.figure(
            format!("session/look-up/threads-{threads}"),
            format!("look-ups per second, {threads} thread{plural}"),
            format!("wall time, {each} look-ups of each thread, {ROUNDS} rounds"),
            Unit::PerSecond,
            &samples,
        )?);
    }
    let ratio = figures[1].measured.over(&figures[0].measured);
    figures.push(Figure {
        id: "session/look-up/scaling".into(),
        label: "look-ups of two threads over those of one".into(),
        unit: Unit::Ratio,
        measured: ratio,
        how: "2 for threads that do not hinder each other, on two free cores".into(),
        reference: None,
        yardstick_nanoseconds: None,
    });
    Ok(figures)
}

/// Which sessions go when others come: those that nobody asked for should go first.
fn forgotten(bench: &Bench<'_>, session_bytes: usize) -> Result<Vec<Figure>, BenchError> {
    let kept = resumption(false, SMALL)?;
    let cache = SessionCache::of(&kept, SITE);
    let small = SMALL as u64;
    for number in 0..small {
        put(&cache, number, session_bytes)?;
    }
    // Odd ones are asked for, even ones are not.
    for number in (1..small).step_by(2) {
        black_box(cache.get(&id(number)));
    }
    for number in small..small + small / 2 {
        put(&cache, number, session_bytes)?;
    }
    let left = |first: u64| {
        let numbers = (first..small).step_by(2);
        let there = numbers
            .filter(|number| cache.get(&id(*number)).is_some())
            .count();
        there as f64 / (small / 2) as f64
    };
    let how = format!("cache of {SMALL}, full; then {} new sessions", SMALL / 2);
    Ok(vec![
        bench.exact(
            "session/kept/used",
            "share of sessions kept that were asked for once",
            how.clone(),
            Unit::Ratio,
            left(1),
        ),
        bench.exact(
            "session/kept/unused",
            "share of sessions kept that nobody asked for",
            how,
            Unit::Ratio,
            left(0),
        ),
    ])
}

/// Tickets as they are really sent.
fn tickets(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (version, name) in [(TlsVersion::Tls12, "tls12"), (TlsVersion::Tls13, "tls13")] {
        for client_certificate in [false, true] {
            let pair = Pair::new(&Agreement {
                version,
                group: None,
                tickets: true,
                client_certificate,
            })?;
            let bytes = pair
                .shake(Intent::Full)?
                .ok_or_else(|| broken(format!("no ticket came in {}", version.name())))?;
            let (end, with) = match client_certificate {
                false => ("", ""),
                true => ("/client-certificate", ", a client certificate in it"),
            };
            figures.push(bench.exact(
                format!("ticket/bytes/{name}{end}"),
                format!("ticket, {}{with}", version.name()),
                "length of the ticket in the NewSessionTicket message that the client received",
                Unit::Bytes,
                bytes as f64,
            ));
        }
    }
    Ok(figures)
}

/// What a client of ours keeps of one session.
fn client_side(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (version, name) in [(TlsVersion::Tls12, "tls12"), (TlsVersion::Tls13, "tls13")] {
        let agreement = Agreement {
            version,
            group: None,
            tickets: true,
            client_certificate: false,
        };
        let samples = Heap::alone(|heap| {
            // Tables and generators that are made once.
            Pair::new(&agreement)?.shake(Intent::Full)?;
            (0..6)
                .map(|_| {
                    let pair = Pair::new(&agreement)?;
                    let before = heap.live();
                    pair.shake(Intent::Full)?;
                    Ok((heap.live() - before) as f64)
                })
                .collect::<Result<Vec<f64>, BenchError>>()
        })?;
        figures.push(bench.figure(
            format!("ticket/client/{name}"),
            format!("what a client keeps to resume, {}", version.name()),
            "heap that is left after a first handshake: ticket, secrets and the server's certificate",
            Unit::Bytes,
            &samples,
        )?);
    }
    Ok(figures)
}

fn broken(reason: String) -> BenchError {
    BenchError::Broken {
        what: "the session cache".into(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    fn quick() -> Bench<'static> {
        Bench::new(Duration::from_millis(2), &|_, _| ())
    }

    fn value(figures: &[Figure], id: &str) -> f64 {
        let found = figures.iter().find(|figure| figure.id == id);
        found.unwrap().measured.median
    }

    #[test]
    fn ids_differ_and_jumps_reach_far() {
        let ids: HashSet<_> = (0..1_000).map(id).collect();
        assert_eq!(ids.len(), 1_000);
        let mut jumps = Jumps::new(1, 1_000);
        let reached: HashSet<_> = (0..5_000).map(|_| jumps.next()).collect();
        assert!(reached.len() > 900 && reached.iter().all(|number| *number < 1_000));
    }

    #[test]
    fn a_client_certificate_makes_a_ticket_longer() {
        let figures = tickets(&quick()).unwrap();
        for version in ["tls12", "tls13"] {
            let plain = value(&figures, &format!("ticket/bytes/{version}"));
            let with = value(
                &figures,
                &format!("ticket/bytes/{version}/client-certificate"),
            );
            assert!(plain > 100.0 && with > plain + 200.0, "{plain} {with}");
        }
    }

    #[test]
    fn a_full_cache_stays_within_its_bound_and_forgets_the_unused_first() {
        let bytes = session_bytes().unwrap();
        assert!((50..500).contains(&bytes), "{bytes}");
        let figures = forgotten(&quick(), bytes).unwrap();
        let used = value(&figures, "session/kept/used");
        let unused = value(&figures, "session/kept/unused");
        assert!(used > unused, "{used} {unused}");
        let kept = resumption(false, 1_000).unwrap();
        let cache = SessionCache::of(&kept, SITE);
        insert(&cache, 0..1_000, bytes).unwrap();
        assert!(
            !overflow(&quick(), &kept, &cache, 1_000, bytes)
                .unwrap()
                .is_empty()
        );
        assert!(kept.sessions() <= 1_000);
    }
}
