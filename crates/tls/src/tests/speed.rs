//! What the record layer costs, without a socket.

use std::time::{Duration, Instant};

use tollgate_terms::{CertificateKind, CipherSuite, TlsVersion};

use super::support::{Client, Offer, incoming, outgoing, policy, shake, site};
use crate::Buffers;

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
