//! The client role against the library's own server: early data, tickets, retries, staples.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::server::ServerSessionMemoryCache;
use rustls::{ServerConfig, ServerConnection};
use tollgate_terms::{CertificateKind, HandshakeFacts, HandshakeKind, NamedGroup, TlsVersion};

use super::support::certificate;
use crate::client::{ClientHandshake, ClientOffer, HandshakeDetails, Intent};
use crate::{BackendTlsPolicy, ClientSite, Progress, Session};

const STAPLE: &[u8] = b"whatever the server staples";

fn server(early_data_bytes: u32) -> ServerConfig {
    let certified = certificate(CertificateKind::EcdsaP256);
    let certified = certified.certified_key();
    let mut stapled = (**certified).clone();
    stapled.ocsp = Some(STAPLE.to_vec());
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(stapled)));
    config.session_storage = ServerSessionMemoryCache::new(32);
    config.max_early_data_size = early_data_bytes;
    config
}

fn offer(early_data: bool) -> ClientOffer {
    ClientOffer {
        early_data,
        ..ClientOffer::new(BackendTlsPolicy {
            verify: false,
            name: "localhost".into(),
            ca: None,
            certificate: None,
            alpn: Vec::new(),
        })
    }
}

struct Talk {
    facts: HandshakeFacts,
    details: HandshakeDetails,
    room: usize,
    accepted: bool,
    /// What the server got as early data.
    early: Vec<u8>,
    session: Session,
}

/// One connection: handshake with early data if there is room, then a question and its answer.
fn talk(site: &ClientSite, config: &Arc<ServerConfig>, intent: Intent, early: &[u8]) -> Talk {
    let mut server = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut client = ClientHandshake::new(site, intent).unwrap();
    let mut output = Vec::new();
    client.step(&mut [], &mut output);
    let room = client.early_data_room();
    let sealed = client.seal_early_data(early, &mut output).unwrap();
    assert_eq!(sealed, early.len().min(room));
    let mut input = Vec::new();
    let mut received = Vec::new();
    loop {
        give(&mut server, &mut output, &mut received);
        while server.wants_write() {
            server.write_tls(&mut input).unwrap();
        }
        let step = client.step(&mut input, &mut output);
        input.drain(..step.consumed);
        match step.progress {
            Progress::NeedsInput => assert!(!output.is_empty(), "a deadlock"),
            Progress::Done => break,
            Progress::Failed(failure) => panic!("{failure}"),
        }
    }
    let (accepted, details) = (client.early_data_accepted(), client.details());
    let (mut session, facts) = client.finish(site);
    session.seal(b"a question", &mut output).unwrap();
    give(&mut server, &mut output, &mut received);
    let mut question = [0; 10];
    server.reader().read_exact(&mut question).unwrap();
    assert_eq!(&question, b"a question");
    server.writer().write_all(b"an answer").unwrap();
    while server.wants_write() {
        server.write_tls(&mut input).unwrap();
    }
    let mut answer = Vec::new();
    session
        .receive(&mut input, &mut |plain| answer.extend_from_slice(plain))
        .unwrap();
    assert_eq!(answer, b"an answer");
    Talk {
        facts,
        details,
        room,
        accepted,
        early: received,
        session,
    }
}

fn give(server: &mut ServerConnection, output: &mut Vec<u8>, early: &mut Vec<u8>) {
    let mut bytes = &output[..];
    while !bytes.is_empty() {
        server.read_tls(&mut bytes).unwrap();
        server.process_new_packets().unwrap();
        if let Some(mut reader) = server.early_data() {
            reader.read_to_end(early).unwrap();
        }
    }
    output.clear();
}

#[test]
fn early_data_is_accepted_and_the_connection_goes_on_behind_it() {
    let config = Arc::new(server(100));
    let site = ClientSite::offering(offer(true)).unwrap();
    let first = talk(&site, &config, Intent::Resume, b"unsent");
    assert_eq!((first.room, first.accepted), (0, false));
    assert_eq!(first.facts.kind, HandshakeKind::Full);
    for _ in 0..3 {
        let talk = talk(&site, &config, Intent::Resume, b"GET / HTTP/1.1\r\n\r\n");
        assert!(talk.facts.kind.is_resumed());
        assert_eq!((talk.room, talk.accepted), (100, true));
        assert_eq!(talk.early, b"GET / HTTP/1.1\r\n\r\n");
    }
    // No more than the ticket allows is ever sealed.
    let long = talk(&site, &config, Intent::Resume, &[7; 150]);
    assert_eq!((long.accepted, long.early), (true, vec![7; 100]));
    // Nothing at all may be sent, too.
    let none = talk(&site, &config, Intent::Resume, b"");
    assert!(none.accepted && none.early.is_empty());
}

#[test]
fn early_data_is_not_offered_unless_asked_for_and_allowed() {
    let config = Arc::new(server(100));
    let shy = ClientSite::offering(offer(false)).unwrap();
    let strict = Arc::new(server(0));
    let eager = ClientSite::offering(offer(true)).unwrap();
    for (site, config) in [(&shy, &config), (&eager, &strict)] {
        talk(site, config, Intent::Full, b"");
        let talk = talk(site, config, Intent::Resume, b"early");
        assert!(talk.facts.kind.is_resumed());
        assert_eq!((talk.room, talk.accepted), (0, false));
    }
}

#[test]
fn rejected_early_data_is_said_to_be_and_the_connection_goes_on() {
    // The server takes the ticket but no early data any more.
    let config = server(100);
    let mut strict = config.clone();
    strict.max_early_data_size = 0;
    let (config, strict) = (Arc::new(config), Arc::new(strict));
    let site = ClientSite::offering(offer(true)).unwrap();
    talk(&site, &config, Intent::Full, b"");
    let resumed = talk(&site, &strict, Intent::Resume, b"early");
    assert!(resumed.facts.kind.is_resumed());
    assert_eq!((resumed.room, resumed.accepted), (100, false));
    // It takes neither.
    talk(&site, &config, Intent::Full, b"");
    let full = talk(&site, &Arc::new(server(100)), Intent::Resume, b"early");
    assert_eq!(full.facts.kind, HandshakeKind::Full);
    assert_eq!((full.room, full.accepted), (100, false));
    assert!(resumed.early.is_empty() && full.early.is_empty());
}

#[test]
fn tickets_of_both_versions_are_described() {
    let mut config = server(100);
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    config.max_early_data_size = 0;
    config.send_tls13_tickets = 3;
    let config = Arc::new(config);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let site = ClientSite::offering(ClientOffer {
            version: Some(version),
            ..offer(false)
        })
        .unwrap();
        let talk = talk(&site, &config, Intent::Full, b"");
        let seen = match version {
            TlsVersion::Tls12 => talk.details.tls12_ticket.into_iter().collect(),
            TlsVersion::Tls13 => talk.session.tickets().to_vec(),
        };
        let expected = match version {
            TlsVersion::Tls12 => 1,
            TlsVersion::Tls13 => 3,
        };
        assert_eq!(seen.len(), expected, "{version}");
        for ticket in seen {
            assert!(ticket.lifetime > Duration::from_secs(3600), "{ticket:?}");
            assert!(ticket.bytes > 50 && ticket.early_data_bytes == 0);
        }
    }
}

#[test]
fn chain_staple_and_flight_are_shown_when_full_and_the_chain_when_resumed() {
    let config = Arc::new(server(0));
    let der = certificate(CertificateKind::EcdsaP256).certified_key().cert[0].to_vec();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let site = ClientSite::offering(ClientOffer {
            version: Some(version),
            ..offer(false)
        })
        .unwrap();
        let full = talk(&site, &config, Intent::Full, b"").details;
        assert_eq!(full.staple.as_deref(), Some(STAPLE), "{version}");
        assert_eq!(full.chain, std::slice::from_ref(&der));
        assert!(full.longest_flight_bytes > der.len() + STAPLE.len());
        let resumed = talk(&site, &config, Intent::Resume, b"").details;
        assert_eq!((resumed.staple, &resumed.chain), (None, &full.chain));
        assert!(resumed.longest_flight_bytes < full.longest_flight_bytes);
        assert!(resumed.longest_flight_bytes > 100 && !resumed.retried);
    }
}

#[test]
fn a_retry_is_seen_in_full_and_in_resumed_handshakes() {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::SECP384R1];
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(server(0).cert_resolver);
    config.session_storage = ServerSessionMemoryCache::new(32);
    config.max_early_data_size = 100;
    let config = Arc::new(config);
    let groups = vec![NamedGroup::X25519, NamedGroup::SECP384R1];
    let site = ClientSite::offering(ClientOffer {
        groups,
        ..offer(true)
    })
    .unwrap();
    let full = talk(&site, &config, Intent::Full, b"");
    assert!(full.details.retried);
    assert_eq!(full.facts.kind, HandshakeKind::FullWithRetry);
    // The client remembers the group; without a retry early data is fine.
    let next = talk(&site, &config, Intent::Resume, b"early");
    assert!(!next.details.retried && next.accepted);
}
