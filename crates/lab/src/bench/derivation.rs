//! Phase 2: what a handshake costs around its signature and key exchange, in pieces and as a whole.

use std::hint::black_box;
use std::time::Instant;

use tollgate_cost::{Figure, Unit};
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion};
use tollgate_tls::primitives::{
    Hash, Issued, Revocation, Schedule12, Schedule13, ServedChain, Transcripts, issue,
};

use super::asymmetric::{broken, certificate_label, group_label};
use super::in_memory::{InMemory, Scenario, Share, cipher_name, now};
use super::steps::Steps;
use super::{Bench, BenchError};

const NAME: &str = "bench.test";
/// Entries of a list of a hundred kilobytes.
const LONG_LIST: usize = 2_800;
const DEPTHS: [usize; 3] = [1, 2, 3];
/// Handshakes in one sample. It is the middle one of them: a handshake during which another process had
/// the core finds its caches cold, which says nothing about handshakes.
const TOGETHER: usize = 9;
const LEAST_SAMPLES: usize = 15;
const MOST_SAMPLES: usize = 400;
/// As many figures as there are, about; for the progress only.
const FIGURES: usize = 50;

/// Measures phase 2.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut steps = Steps::new(bench, FIGURES);
    let mut figures = schedules(bench, &mut steps)?;
    figures.extend(chains(bench, &mut steps)?);
    figures.extend(tickets(bench, &mut steps)?);
    for scenario in scenarios() {
        steps.next(&format!("make keys for {}", label(&scenario)));
        let mut memory = InMemory::new(scenario)?;
        for resumed in [false, true] {
            steps.next(&format!("{}, {}", label(&scenario), kind(resumed)));
            figures.extend(handshakes(bench, &scenario, &mut memory, resumed)?);
        }
        if scenario == Scenario::USUAL {
            for resumed in [false, true] {
                steps.next(&format!("{}, {}, by part", label(&scenario), kind(resumed)));
                figures.extend(shares(bench, &scenario, &mut memory, resumed)?);
            }
        }
    }
    Ok(figures)
}

fn schedules(bench: &Bench<'_>, steps: &mut Steps<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for hash in [Hash::Sha256, Hash::Sha384] {
        let transcripts = Transcripts::any(hash);
        let shared = [5; 32];
        let name = hash.name();
        let people = name.to_ascii_uppercase().replace("SHA", "SHA-");
        let title = format!("key schedule, TLS 1.3, {people}");
        steps.next(&title);
        let schedule = Schedule13::new(hash).map_err(broken)?;
        figures.push(bench.time(
            format!("key-schedule/{name}"),
            title,
            "all secrets, keys, both Finished and a ticket's secret of one side, without hashing the \
             transcript",
            || {
                let derived = schedule.derive(&shared, &transcripts, &[0; 4]);
                black_box(derived.map_err(broken)?.digest());
                Ok(())
            },
        )?);
        let title = format!("key schedule, TLS 1.2, {people}");
        steps.next(&title);
        let schedule = Schedule12::new(hash).map_err(broken)?;
        figures.push(bench.time(
            format!("key-schedule/tls12-{name}"),
            title,
            "extended master secret, keys and both Finished of one side, by the PRF",
            || {
                black_box(schedule.derive(&shared, &transcripts).digest());
                Ok(())
            },
        )?);
    }
    Ok(figures)
}

fn chains(bench: &Bench<'_>, steps: &mut Steps<'_>) -> Result<Vec<Figure>, BenchError> {
    let p256 = CertificateKind::EcdsaP256;
    let mut figures = Vec::new();
    for depth in DEPTHS {
        let issued = issue(p256, p256, depth, &[NAME]).map_err(broken)?;
        let plain = ServedChain::new(&issued, &[]).map_err(broken)?;
        let people = format!("check a chain of {depth}, ECDSA P-256");
        let how = format!(
            "a client's check of {depth} certificate(s), {} bytes: path, signatures, name, dates, usage",
            plain.bytes()
        );
        let id = format!("chain/depth-{depth}");
        figures.push(check(bench, steps, &id, &people, &how, (&plain, None))?);
        let staple = issued.staple().map_err(broken)?;
        figures.push(check(
            bench,
            steps,
            &format!("{id}/staple"),
            &format!("{people}, with a staple"),
            &format!(
                "the same, and a staple of {} bytes: status, dates and signature, which our own check \
                 looks at because the library does not",
                staple.len()
            ),
            (&plain, Some(&staple)),
        )?);
        let list = issued.revocation_list(LONG_LIST, Revocation::Good);
        let list = list.map_err(broken)?;
        let listed = ServedChain::new(&issued, std::slice::from_ref(&list)).map_err(broken)?;
        figures.push(check(
            bench,
            steps,
            &format!("{id}/crl"),
            &format!("{people}, with a long revocation list"),
            &format!(
                "the same and a list of {} bytes for the end-entity certificate, read beforehand; its \
                 signature is checked each time",
                list.len()
            ),
            (&listed, None),
        )?);
        if depth == 2 {
            figures.extend(lists(bench, steps, &issued, &list)?);
        }
    }
    let rsa = CertificateKind::Rsa(2048);
    let issued = issue(rsa, rsa, 2, &[NAME]).map_err(broken)?;
    let plain = ServedChain::new(&issued, &[]).map_err(broken)?;
    figures.push(check(
        bench,
        steps,
        "chain/depth-2/rsa-2048",
        "check a chain of 2, RSA-2048",
        &format!("as above, {} bytes", plain.bytes()),
        (&plain, None),
    )?);
    Ok(figures)
}

/// What a revocation list costs before it is of use, and a short one when it is.
fn lists(
    bench: &Bench<'_>,
    steps: &mut Steps<'_>,
    issued: &Issued,
    long: &Vec<u8>,
) -> Result<[Figure; 2], BenchError> {
    let short = issued.revocation_list(1, Revocation::Good);
    let short = short.map_err(broken)?;
    let how = format!("the same with a list of {} bytes", short.len());
    let listed = ServedChain::new(issued, &[short]).map_err(broken)?;
    let short = check(
        bench,
        steps,
        "chain/depth-2/crl-short",
        "check a chain of 2, ECDSA P-256, with a short revocation list",
        &how,
        (&listed, None),
    )?;
    steps.next("read a long revocation list");
    let read = bench.time(
        "crl/read",
        "read a long revocation list",
        format!(
            "{} bytes, into an index by serial number; once per list",
            long.len()
        ),
        || {
            black_box(ServedChain::new(issued, std::slice::from_ref(long)).map_err(broken)?);
            Ok(())
        },
    )?;
    Ok([short, read])
}

fn check(
    bench: &Bench<'_>,
    steps: &mut Steps<'_>,
    id: &str,
    label: &str,
    how: &str,
    (chain, staple): (&ServedChain, Option<&[u8]>),
) -> Result<Figure, BenchError> {
    steps.next(label);
    let now = now();
    bench.time(id, label, how, || {
        chain
            .check(staple.unwrap_or_default(), now)
            .map_err(broken)?;
        match staple {
            None => Ok(()),
            Some(staple) => chain.check_staple(staple, now).map_err(broken),
        }
    })
}

fn tickets(bench: &Bench<'_>, steps: &mut Steps<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for scenario in [Scenario::USUAL, TLS12] {
        let (version, people) = version(scenario.version);
        let (ticket, tickets) = InMemory::new(scenario)?.ticket()?;
        let session = tickets.open(&ticket).map_err(broken)?;
        let title = format!("seal a ticket, {people}");
        steps.next(&title);
        figures.push(bench.time(
            format!("ticket/seal/{version}"),
            title,
            format!("a session of {} bytes from a real handshake", session.len()),
            || tickets.seal(&session).map(drop).map_err(broken),
        )?);
        let title = format!("open a ticket, {people}");
        steps.next(&title);
        figures.push(bench.time(
            format!("ticket/open/{version}"),
            title,
            format!("a ticket of {} bytes, as a client showed it", ticket.len()),
            || tickets.open(&ticket).map(drop).map_err(broken),
        )?);
    }
    Ok(figures)
}

const TLS12: Scenario = Scenario {
    version: TlsVersion::Tls12,
    suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ..Scenario::USUAL
};

/// The usual handshake, and those that differ from it in one thing.
fn scenarios() -> Vec<Scenario> {
    let usual = Scenario::USUAL;
    let mut all = vec![usual];
    for certificate in [
        CertificateKind::EcdsaP384,
        CertificateKind::Ed25519,
        CertificateKind::Rsa(2048),
        CertificateKind::Rsa(4096),
    ] {
        all.push(Scenario {
            certificate,
            ..usual
        });
    }
    for group in [
        NamedGroup::X25519MLKEM768,
        NamedGroup::SECP256R1,
        NamedGroup::SECP384R1,
    ] {
        all.push(Scenario { group, ..usual });
    }
    for suite in [
        CipherSuite::TLS_AES_256_GCM_SHA384,
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
    ] {
        all.push(Scenario { suite, ..usual });
    }
    all.push(TLS12);
    all.push(Scenario {
        certificate: CertificateKind::Rsa(2048),
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ..TLS12
    });
    all
}

/// CPU time per handshake of the server and of the client.
fn handshakes(
    bench: &Bench<'_>,
    scenario: &Scenario,
    memory: &mut InMemory,
    resumed: bool,
) -> Result<[Figure; 2], BenchError> {
    let (mut server, mut client) = (Vec::new(), Vec::new());
    repeat(bench, || {
        let (mut at_server, mut at_client) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        for (at_server, at_client) in at_server.iter_mut().zip(&mut at_client) {
            let shaken = memory.handshake(resumed)?;
            (*at_server, *at_client) = (shaken.server_nanos, shaken.client_nanos);
        }
        server.push(middle(at_server));
        client.push(middle(at_client));
        Ok(())
    })?;
    let figure = |side: &str, how: &str, samples: &[f64]| {
        let (id, people, kind) = (scenario.id(), label(scenario), kind(resumed));
        bench.figure(
            format!("handshake/{id}/{kind}/{side}"),
            format!("{people}, {kind}, {side}"),
            how,
            Unit::Nanoseconds,
            samples,
        )
    };
    Ok([
        figure(
            "server",
            "a whole handshake in memory, from the ClientHello read to the session given back",
            &server[1..],
        )?,
        figure(
            "client",
            "the same on the other side, with the check of a chain of 2 when full, and the ticket",
            &client[1..],
        )?,
    ])
}

fn middle(mut nanos: [f64; TOGETHER]) -> f64 {
    nanos.sort_by(f64::total_cmp);
    nanos[TOGETHER / 2]
}

/// Where the server's time goes.
fn shares(
    bench: &Bench<'_>,
    scenario: &Scenario,
    memory: &mut InMemory,
    resumed: bool,
) -> Result<Vec<Figure>, BenchError> {
    let mut samples: Vec<Share> = Vec::new();
    repeat(bench, || {
        samples.push(memory.share(resumed)?);
        Ok(())
    })?;
    let mut figures = Vec::new();
    for part in ["key-exchange", "signature", "tickets", "rest"] {
        // A resumed handshake has no signature.
        if resumed && part == "signature" {
            continue;
        }
        let take = |share: &Share| match part {
            "key-exchange" => share.key_exchange,
            "signature" => share.signature,
            "tickets" => share.tickets,
            _ => share.rest(),
        };
        let values: Vec<f64> = samples[1..].iter().map(take).collect();
        figures.push(bench.figure(
            format!(
                "handshake/{}/{}/server/{part}",
                scenario.id(),
                kind(resumed)
            ),
            format!(
                "{}, {}, server: {}",
                label(scenario),
                kind(resumed),
                part.replace('-', " ")
            ),
            match part {
                "rest" => "key schedule, transcript, parsing, writing: what is left of the whole",
                _ => "its part of the whole handshake, by the clock around it",
            },
            Unit::Nanoseconds,
            &values,
        )?);
    }
    Ok(figures)
}

/// Calls `sample` for about the time of a figure; the first call is cold and not to be used.
fn repeat(
    bench: &Bench<'_>,
    mut sample: impl FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let begun = Instant::now();
    let mut count = 0;
    while count <= LEAST_SAMPLES || (begun.elapsed() < bench.per_figure && count <= MOST_SAMPLES) {
        sample()?;
        count += 1;
    }
    Ok(())
}

/// `TLS 1.3, ECDSA P-256, X25519, AES-128-GCM`.
fn label(scenario: &Scenario) -> String {
    format!(
        "handshake, {}, {}, {}, {}",
        version(scenario.version).1,
        certificate_label(scenario.certificate),
        group_label(scenario.group),
        match cipher_name(scenario.suite) {
            "chacha20-poly1305" => "ChaCha20-Poly1305".to_owned(),
            other => other.to_ascii_uppercase(),
        },
    )
}

fn version(version: TlsVersion) -> (&'static str, &'static str) {
    match version {
        TlsVersion::Tls12 => ("tls12", "TLS 1.2"),
        TlsVersion::Tls13 => ("tls13", "TLS 1.3"),
    }
}

fn kind(resumed: bool) -> &'static str {
    match resumed {
        true => "resumed",
        false => "full",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use std::time::Duration;

    use super::*;

    fn quick() -> Bench<'static> {
        Bench::new(Duration::from_millis(1), &|_, _| ())
    }

    #[test]
    fn schedules_chains_and_tickets_have_figures() {
        let quick = quick();
        let mut steps = Steps::new(&quick, 1);
        let mut figures = schedules(&quick, &mut steps).unwrap();
        figures.extend(chains(&quick, &mut steps).unwrap());
        figures.extend(tickets(&quick, &mut steps).unwrap());
        super::super::steps::assert_sound(&figures);
        let find = |id: &str| {
            let figure = figures.iter().find(|figure| figure.id == id);
            figure.unwrap_or_else(|| panic!("no {id}")).measured.median
        };
        // Each further certificate is a further signature.
        assert!(find("chain/depth-3") > 1.5 * find("chain/depth-1"));
        for id in [
            "key-schedule/sha384",
            "chain/depth-1/staple",
            "chain/depth-2/crl-short",
            "crl/read",
            "ticket/seal/tls12",
            "ticket/open/tls13",
        ] {
            find(id);
        }
    }

    #[test]
    fn handshakes_of_both_kinds_have_figures_for_both_ends() {
        let mut memory = InMemory::new(Scenario::USUAL).unwrap();
        let mut figures = Vec::new();
        for resumed in [false, true] {
            figures.extend(handshakes(&quick(), &Scenario::USUAL, &mut memory, resumed).unwrap());
            figures.extend(shares(&quick(), &Scenario::USUAL, &mut memory, resumed).unwrap());
        }
        super::super::steps::assert_sound(&figures);
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        let usual = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm";
        for end in [
            "full/server",
            "full/client",
            "resumed/server",
            "full/server/signature",
        ] {
            assert!(ids.contains(&format!("{usual}/{end}").as_str()), "{ids:?}");
        }
    }

    #[test]
    fn every_scenario_is_there_once() {
        let mut ids: Vec<String> = scenarios().iter().map(Scenario::id).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((all, ids.len()), (12, 12));
    }
}
