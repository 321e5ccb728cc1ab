//! What an established connection holds while nothing happens on it.

use std::io::Write as _;

use tollgate_terms::{CertificateKind, CipherSuite, TlsVersion};

use super::support::{Client, Offer, outgoing, policy, shake, site};
use crate::{Buffers, ServerSite, TlsStream};

/// A quiet connection holds this much at most: the stream itself, and everything behind it on the heap.
/// Most of it is two expanded keys.
const MOST_BYTES: usize = 2_200;

const CONNECTIONS: usize = 2_000;

/// Anonymous resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kilobytes: String = line.unwrap().chars().filter(char::is_ascii_digit).collect();
    kilobytes.parse::<usize>().unwrap() * 1024
}

/// A connection that has shaken hands and exchanged a request and an answer.
fn quiet(client: &Client, site: &ServerSite, buffers: &Buffers) -> TlsStream<()> {
    let mut connection = client.connection();
    let mut session = shake(&mut connection, site, usize::MAX).unwrap().session;
    connection.writer().write_all(&[b'x'; 1000]).unwrap();
    let mut wire = outgoing(&mut connection);
    let received = session.receive(&mut wire, &mut |_| {}).unwrap();
    assert_eq!(received.plain, 1000);
    let mut output = buffers.output().borrow_mut();
    session.seal_into(&[b'y'; 1000], &mut output).unwrap();
    drop(output);
    let stream = TlsStream::established((), session, CipherSuite(0), Vec::new(), buffers);
    assert!(stream.is_quiet());
    stream
}

#[test]
#[ignore = "measures the whole process, so it runs by itself: cargo test -p tollgate-tls --lib -- --ignored --nocapture"]
fn a_quiet_connection_is_small() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let buffers = Buffers::new();
    // Kept to the end, so that one measurement does not live on what the other has freed.
    let mut all = Vec::new();
    for version in [TlsVersion::Tls13, TlsVersion::Tls12] {
        let client = Client::new(&Offer {
            version: Some(version),
            alpn: vec!["http/1.1"],
            ..Offer::default()
        });
        let mut kept = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS / 4 {
            kept.push(quiet(&client, &site, &buffers));
        }
        let before = resident();
        let first = kept.len();
        while kept.len() < CONNECTIONS {
            kept.push(quiet(&client, &site, &buffers));
        }
        let each = (resident() - before) / (kept.len() - first);
        println!(
            "{version}: {each} bytes each; the stream itself {}",
            size_of::<TlsStream<()>>(),
        );
        assert!(each <= MOST_BYTES, "{version}: {each}");
        all.push(kept);
    }
}

#[test]
#[ignore = "a figure for comparison, not a test: cargo test --release -p tollgate-tls --lib -- --ignored --nocapture"]
fn the_cost_of_a_handshake_in_memory() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let client = Client::new(&Offer {
        version: Some(TlsVersion::Tls13),
        groups: vec![tollgate_terms::NamedGroup::X25519],
        ..Offer::default()
    });
    let mut server = std::time::Duration::ZERO;
    for _ in 0..2_000 {
        let mut connection = client.connection_to("localhost");
        let hello_bytes = outgoing(&mut connection);
        let crate::hello::Reading::Complete(hello) = crate::hello::read(&hello_bytes) else {
            panic!("no hello");
        };
        let mut input = hello_bytes;
        let mut output = Vec::new();
        let start = std::time::Instant::now();
        let mut handshake = crate::Handshake::new(&site, &hello).unwrap();
        handshake.step(&mut input, &mut output);
        server += start.elapsed();
        super::support::incoming(&mut connection, &output);
        let mut input = outgoing(&mut connection);
        let start = std::time::Instant::now();
        handshake.step(&mut input, &mut output);
        let session = handshake.finish();
        server += start.elapsed();
        drop(session);
    }
    println!(
        "full TLS 1.3, ECDSA P-256, X25519, server side: {:?} each",
        server / 2_000
    );
}
