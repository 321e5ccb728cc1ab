//! What the record layer and the ledger cost, without a socket.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tollgate_terms::{CertificateKind, CipherSuite, CpuTime, NamedGroup, TlsVersion};

use super::support::{Client, Offer, incoming, outgoing, policy, shake, site};
use crate::hello::{self, Reading};
use crate::ledger::Account;
use crate::{Buffers, Clocks, Handshake, Progress};

const ROUNDS: usize = 4_000;

#[test]
#[ignore = "a figure for comparison, not a test: cargo test --release -p tollgate-tls --lib -- --ignored --nocapture"]
fn the_cost_of_records_in_memory() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let buffers = Buffers::new();
    for (version, suite) in [
        (TlsVersion::Tls13, CipherSuite::TLS_AES_128_GCM_SHA256),
        (
            TlsVersion::Tls12,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
    ] {
        for length in [1024, 16 * 1024] {
            let client = Client::new(&Offer {
                version: Some(version),
                suites: vec![suite],
                ..Offer::default()
            });
            let mut connection = client.connection();
            let mut session = shake(&mut connection, &site, usize::MAX).unwrap().session;
            let plain = vec![7; length];
            let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..ROUNDS {
                let mut output = buffers.output().borrow_mut();
                let start = Instant::now();
                let written = session.seal_into(&plain, &mut output).unwrap();
                sealing += start.elapsed();
                assert_eq!(incoming(&mut connection, &output[..written]).len(), length);
                std::io::Write::write_all(&mut connection.writer(), &plain).unwrap();
                let mut wire = outgoing(&mut connection);
                let start = Instant::now();
                let received = session.receive(&mut wire, &mut |_| {}).unwrap();
                opening += start.elapsed();
                assert_eq!(received.plain, length);
            }
            let nanos = |all: Duration| all.as_nanos() / ROUNDS as u128;
            println!(
                "{version}, AES-128-GCM, {length} bytes: seal {} ns, open {} ns",
                nanos(sealing),
                nanos(opening)
            );
        }
    }
}

/// Time since the first reading, by the clock that the workers use.
fn monotonic() -> CpuTime {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    CpuTime(u64::try_from(since.as_nanos()).unwrap())
}

#[test]
#[ignore = "a figure for comparison, not a test: cargo test --release -p tollgate-tls --lib -- --ignored --nocapture"]
fn the_cost_of_the_ledger_in_memory() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let buffers = Buffers::new();
    let clocks = Clocks {
        now: monotonic,
        held_up: |_| CpuTime(0),
    };
    let client = Client::new(&Offer {
        version: Some(TlsVersion::Tls13),
        groups: vec![NamedGroup::X25519],
        ..Offer::default()
    });
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        buffers.count_by((round % 2 == 1).then_some(clocks));
        let mut connection = client.connection();
        let mut server = Duration::ZERO;
        let mut hello = outgoing(&mut connection);
        let start = Instant::now();
        let mut account = Account::open(&buffers);
        let Reading::Complete(read) = account.timed(|| hello::read(&hello)) else {
            panic!("our own hello cannot be read");
        };
        let mut handshake = account.timed(|| Handshake::new(&site, &read)).unwrap();
        let mut flight = Vec::new();
        account.timed(|| handshake.step(&mut hello, &mut flight));
        server += start.elapsed();
        incoming(&mut connection, &flight);
        let mut answer = outgoing(&mut connection);
        let start = Instant::now();
        flight.clear();
        let step = account.timed(|| handshake.step(&mut answer, &mut flight));
        assert!(matches!(step.progress, Progress::Done));
        let established = account.timed(|| handshake.finish());
        let spent = account.close();
        server += start.elapsed();
        drop(established);
        assert_eq!(spent.cost.total() > CpuTime(0), round % 2 == 1);
        taken[round % 2].push(server);
    }
    let [off, on] = taken.map(|mut all| {
        all.sort();
        all[all.len() / 2].as_nanos() as f64
    });
    println!(
        "a full handshake, TLS 1.3, ECDSA P-256: {off} ns, with the ledger {on} ns: {:+.2} %",
        (on / off - 1.0) * 100.0
    );
}
