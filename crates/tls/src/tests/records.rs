//! The records after the handshake: with the library's client, and with a peer that keeps to no rule.

use std::io::Write as _;

use tollgate_terms::{CertificateKind, CipherSuite, TlsVersion};

use super::support::{Client, Offer, incoming, outgoing, policy, shake, site};
use crate::client::{ClientHandshake, ClientOffer, Intent};
use crate::hello::{self, Reading};
use crate::{
    BackendTlsPolicy, ClientSite, Closed, FailureReason, Handshake, Progress, ServerSite, Session,
};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

const SUITES: [(TlsVersion, CipherSuite); 6] = [
    (TlsVersion::Tls13, CipherSuite::TLS_AES_128_GCM_SHA256),
    (TlsVersion::Tls13, CipherSuite::TLS_AES_256_GCM_SHA384),
    (TlsVersion::Tls13, CipherSuite::TLS_CHACHA20_POLY1305_SHA256),
    (
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        TlsVersion::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

const TLS13: (TlsVersion, CipherSuite) = SUITES[0];
const TLS12: (TlsVersion, CipherSuite) = SUITES[3];

fn any_site() -> ServerSite {
    site(policy(&[CertificateKind::EcdsaP256]))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

/// Both ends in our hands: the client first.
fn pair((version, suite): (TlsVersion, CipherSuite)) -> (Session, Session) {
    let backend = ClientSite::offering(ClientOffer {
        version: Some(version),
        suites: vec![suite],
        ..ClientOffer::new(BackendTlsPolicy {
            verify: false,
            name: "localhost".into(),
            ca: None,
            certificate: None,
            alpn: Vec::new(),
        })
    })
    .unwrap();
    let mut client = ClientHandshake::new(&backend, Intent::Full).unwrap();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.step(&mut [], &mut up);
    let Reading::Complete(hello) = hello::read(&up) else {
        panic!("no hello");
    };
    let mut server = Handshake::new(&any_site(), &hello).unwrap();
    let mut done = [false; 2];
    while done != [true; 2] {
        let step = server.step(&mut up, &mut down);
        up.drain(..step.consumed);
        done[0] = matches!(step.progress, Progress::Done);
        let step = client.step(&mut down, &mut up);
        down.drain(..step.consumed);
        done[1] = matches!(step.progress, Progress::Done);
    }
    assert!(up.is_empty() && down.is_empty());
    let (mut client, mut server) = (client.finish(&backend).0, server.finish().0);
    let before = backend.sessions();
    let mut ticket = server.held().to_vec();
    server.forget_held();
    client.receive(&mut ticket, &mut |_| {}).unwrap();
    let tickets = usize::from(version == TlsVersion::Tls13);
    assert_eq!(backend.sessions(), before + tickets);
    (client, server)
}

fn receive(session: &mut Session, wire: &[u8]) -> Result<Vec<u8>, FailureReason> {
    let mut wire = wire.to_vec();
    let mut plain = Vec::new();
    let received = session
        .receive(&mut wire, &mut |bytes| plain.extend_from_slice(bytes))
        .map_err(|failure| failure.reason())?;
    assert_eq!(received.plain, plain.len());
    assert_eq!(received.consumed, wire.len());
    Ok(plain)
}

fn sealed(session: &mut Session, plain: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    session.seal(plain, &mut wire).unwrap();
    wire
}

/// The alert that `from` holds, as `to` sees it.
fn alert_seen(from: &mut Session, to: &mut Session) -> FailureReason {
    let held = from.held().to_vec();
    from.forget_held();
    receive(to, &held).unwrap_err()
}

#[test]
fn the_librarys_client_understands_every_suite_both_ways() {
    let site = any_site();
    for (version, suite) in SUITES {
        let client = Client::new(&Offer {
            version: Some(version),
            suites: vec![suite],
            ..Offer::default()
        });
        let mut connection = client.connection();
        let mut session = shake(&mut connection, &site, usize::MAX).unwrap().session;
        for length in [0, 1, 1000, 16_383, 16_384, 16_385, 50_000] {
            let plain = pattern(length);
            let wire = sealed(&mut session, &plain);
            assert!(
                incoming(&mut connection, &wire) == plain,
                "{suite:?} {length}"
            );
            let mut came = Vec::new();
            for piece in plain.chunks(16_384) {
                connection.writer().write_all(piece).unwrap();
                came.extend(receive(&mut session, &outgoing(&mut connection)).unwrap());
            }
            assert!(came == plain, "{suite:?} {length}");
        }
        connection.send_close_notify();
        let mut wire = outgoing(&mut connection);
        let received = session.receive(&mut wire, &mut |_| {}).unwrap();
        assert_eq!(received.closed, Some(Closed::CloseNotify));
        let mut end = Vec::new();
        session.close_notify(&mut end).unwrap();
        assert!(session.seal(b"late", &mut Vec::new()).is_err());
        connection.read_tls(&mut end.as_slice()).unwrap();
        assert!(connection.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn both_of_our_roles_understand_each_other_in_pieces_of_any_size() {
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        let plain = pattern(40_000);
        for piece in [1, 7, 4096, 100_000] {
            let wire = sealed(&mut client, &plain);
            let mut came = Vec::new();
            let mut input = Vec::new();
            for piece in wire.chunks(piece) {
                input.extend_from_slice(piece);
                let received =
                    server.receive(&mut input, &mut |bytes| came.extend_from_slice(bytes));
                input.drain(..received.unwrap().consumed);
            }
            assert!(input.is_empty() && came == plain, "{suite:?}");
            let wire = sealed(&mut server, &plain);
            assert!(receive(&mut client, &wire).unwrap() == plain);
        }
    }
}

#[test]
fn keys_change_before_they_have_protected_too_much() {
    let site = any_site();
    for (version, suite) in &SUITES[..3] {
        let client = Client::new(&Offer {
            version: Some(*version),
            suites: vec![*suite],
            ..Offer::default()
        });
        let mut connection = client.connection();
        let mut session = shake(&mut connection, &site, usize::MAX).unwrap().session;
        session.limit_records(10);
        for round in 0..50 {
            let plain = pattern(17_000 + round);
            let wire = sealed(&mut session, &plain);
            assert!(incoming(&mut connection, &wire) == plain, "{round}");
            connection.refresh_traffic_keys().unwrap();
            connection.writer().write_all(b"more").unwrap();
            let came = receive(&mut session, &outgoing(&mut connection));
            assert_eq!(came.unwrap(), b"more");
        }
    }
    let (mut near, _) = pair(TLS13);
    near.limit_records(10);
    let lengths: Vec<usize> = (0..12).map(|_| sealed(&mut near, b"x").len()).collect();
    // Six records of one byte, then a key update of five in front of the seventh.
    assert_eq!(lengths[..6], [23; 6]);
    assert_eq!(lengths[6], 23 + 27);
    assert_eq!(lengths[7..12], [23; 5]);
}

#[test]
fn tls_1_2_ends_when_its_key_has_protected_too_much() {
    let (mut client, mut server) = pair(TLS12);
    server.limit_records(10);
    let mut count = 0;
    let failure = loop {
        let mut wire = Vec::new();
        match server.seal(b"x", &mut wire) {
            Ok(()) => assert_eq!(receive(&mut client, &wire).unwrap(), b"x"),
            Err(failure) => break failure,
        }
        count += 1;
    };
    assert_eq!(failure.reason(), FailureReason::Exhausted);
    assert!((3..10).contains(&count), "{count}");
    let mut end = Vec::new();
    server.close_notify(&mut end).unwrap();
    let received = client.receive(&mut end, &mut |_| {}).unwrap();
    assert_eq!(received.closed, Some(Closed::CloseNotify));
}

#[test]
fn key_updates_pass_in_both_roles_whole_and_in_fragments() {
    for (cut, suite) in (0..5).zip(SUITES[..3].iter().cycle()) {
        for swap in [false, true] {
            let (mut near, mut far) = pair(*suite);
            if swap {
                std::mem::swap(&mut near, &mut far);
            }
            for request in [0, 1] {
                let update = [24, 0, 0, 1, request];
                let mut wire = Vec::new();
                if cut > 0 {
                    wire.extend(near.seal_any(HANDSHAKE, &update[..cut]));
                }
                wire.extend(near.seal_any(HANDSHAKE, &update[cut..]));
                near.change_writing_key();
                wire.extend(sealed(&mut near, b"after"));
                assert_eq!(receive(&mut far, &wire).unwrap(), b"after");
                assert_eq!(far.held().is_empty(), request == 0);
                let wire = sealed(&mut far, b"answer");
                assert_eq!(receive(&mut near, &wire).unwrap(), b"answer");
            }
        }
    }
}

#[test]
fn many_requests_for_new_keys_are_answered_once_and_too_many_are_refused() {
    let (mut near, mut far) = pair(TLS13);
    for round in 0..32 {
        let wire = near.seal_any(HANDSHAKE, &[24, 0, 0, 1, 1]);
        near.change_writing_key();
        assert_eq!(receive(&mut far, &wire).unwrap(), b"", "{round}");
        assert_eq!(far.held().len(), 27);
    }
    let wire = near.seal_any(HANDSHAKE, &[24, 0, 0, 1, 1]);
    assert_eq!(receive(&mut far, &wire), Err(FailureReason::PeerMisbehaved));
    let seen = alert_seen(&mut far, &mut near);
    assert_eq!(seen.name(), "alert_received_unexpected_message");
}

#[test]
fn records_without_data_are_bounded_in_a_row() {
    for (suite, kind, plain) in [
        (TLS13, DATA, &[][..]),
        (TLS12, DATA, &[][..]),
        (TLS13, ALERT, &[1, 90][..]),
        (TLS12, ALERT, &[1, 100][..]),
        (TLS12, HANDSHAKE, &[1, 0, 0, 0][..]),
    ] {
        let (mut client, mut server) = pair(suite);
        for _ in 0..3 {
            for _ in 0..32 {
                let wire = client.seal_any(kind, plain);
                assert_eq!(receive(&mut server, &wire).unwrap(), b"");
            }
            let wire = sealed(&mut client, b"x");
            assert_eq!(receive(&mut server, &wire).unwrap(), b"x");
            // A renegotiation is answered with a warning each time, which leaves with what is sent next.
            let wire = sealed(&mut server, b"y");
            assert_eq!(receive(&mut client, &wire).unwrap(), b"y");
        }
        for _ in 0..32 {
            receive(&mut server, &client.seal_any(kind, plain)).unwrap();
        }
        let wire = client.seal_any(kind, plain);
        assert_eq!(
            receive(&mut server, &wire),
            Err(FailureReason::PeerMisbehaved)
        );
    }
}

#[test]
fn what_breaks_the_protocol_is_refused_with_its_alert() {
    const UNEXPECTED: &str = "alert_received_unexpected_message";
    const DECODE: &str = "alert_received_decode_error";
    const ILLEGAL: &str = "alert_received_illegal_parameter";
    for (suite, kind, plain, alert) in [
        (TLS13, 20, &[1][..], UNEXPECTED),
        (TLS13, 24, b"heartbeat", UNEXPECTED),
        // Nothing but padding.
        (TLS13, 0, &[0; 10], UNEXPECTED),
        (TLS13, HANDSHAKE, &[], UNEXPECTED),
        // A second hello, a ticket from a client, a CertificateRequest.
        (TLS13, HANDSHAKE, &[1, 0, 0, 0], UNEXPECTED),
        (TLS13, HANDSHAKE, &[4, 0, 0, 1, 0], UNEXPECTED),
        (TLS13, HANDSHAKE, &[13, 0, 0, 0], UNEXPECTED),
        (TLS13, HANDSHAKE, &[24, 0, 0, 1, 0, 24], UNEXPECTED),
        (TLS13, HANDSHAKE, &[24, 0, 0, 1, 2], ILLEGAL),
        (TLS13, HANDSHAKE, &[24, 0, 0, 0], ILLEGAL),
        (TLS13, HANDSHAKE, &[24, 0, 0, 2], DECODE),
        (TLS13, HANDSHAKE, &[24, 255, 255, 255], DECODE),
        (TLS13, ALERT, &[], DECODE),
        (TLS13, ALERT, &[2], DECODE),
        (TLS13, ALERT, &[2, 40, 2, 40], DECODE),
        (TLS13, ALERT, &[1, 41], DECODE),
        (TLS13, ALERT, &[3, 40], ILLEGAL),
        (TLS12, 20, &[1], UNEXPECTED),
        (TLS12, 24, b"heartbeat", UNEXPECTED),
        (TLS12, HANDSHAKE, &[], UNEXPECTED),
        (TLS12, HANDSHAKE, &[24, 0, 0, 1, 0], UNEXPECTED),
        (TLS12, HANDSHAKE, &[0, 0, 0, 0], UNEXPECTED),
        (TLS12, HANDSHAKE, &[1, 1, 0, 0], DECODE),
        (TLS12, ALERT, &[3, 40], ILLEGAL),
    ] {
        let (mut client, mut server) = pair(suite);
        let wire = client.seal_any(kind, plain);
        assert!(receive(&mut server, &wire).is_err(), "{kind} {plain:?}");
        let seen = alert_seen(&mut server, &mut client);
        assert_eq!(seen.name(), alert, "{suite:?} {kind} {plain:?}");
        // And nothing goes on.
        let wire = client.seal_any(DATA, b"more");
        assert!(receive(&mut server, &wire).is_err());
        assert!(server.seal(b"more", &mut Vec::new()).is_err());
        assert!(server.held().is_empty());
    }
}

#[test]
fn a_fatal_alert_ends_the_connection_without_an_answer() {
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        let wire = client.seal_any(ALERT, &[2, 40]);
        let reason = receive(&mut server, &wire).unwrap_err();
        assert_eq!(reason.name(), "alert_received_handshake_failure");
        assert!(server.held().is_empty());
    }
}

#[test]
fn plaintext_and_unknown_records_are_refused_after_the_handshake() {
    for (suite, wire) in [
        (TLS13, &[21, 3, 3, 0, 2, 2, 40][..]),
        (TLS13, &[22, 3, 3, 0, 4, 1, 0, 0, 0]),
        (TLS13, &[20, 3, 3, 0, 1, 1]),
        (TLS12, &[20, 3, 3, 0, 1, 1]),
        (TLS12, &[21, 3, 3, 0, 2, 2, 40]),
        (TLS13, b"GET / HTTP/1.1\r\n"),
        (TLS13, &[23, 3, 3, 0, 0]),
        (TLS12, &[23, 3, 3, 0, 16]),
    ] {
        let (_, mut server) = pair(suite);
        let mut input = wire.to_vec();
        let received = server.receive(&mut input, &mut |_| panic!("nothing to hand over"));
        // The last one is a record that has not come yet.
        assert_eq!(received.is_ok(), wire.ends_with(&[0, 16]), "{wire:?}");
    }
}

#[test]
fn a_record_of_full_length_passes_and_a_longer_one_does_not() {
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        let wire = client.seal_any(DATA, &[1; 16_384]);
        assert_eq!(receive(&mut server, &wire).unwrap().len(), 16_384);
        let wire = client.seal_any(DATA, &[1; 16_385]);
        assert_eq!(receive(&mut server, &wire), Err(FailureReason::BadRecord));
        let seen = alert_seen(&mut server, &mut client);
        assert_eq!(seen.name(), "alert_received_record_overflow");
        // Its header alone is enough.
        let (_, mut server) = pair(suite);
        let header = [23, 3, 3, 0x41, 0x01];
        assert_eq!(receive(&mut server, &header), Err(FailureReason::BadRecord));
    }
}

#[test]
fn padding_is_taken_off() {
    let (mut client, mut server) = pair(TLS13);
    for padding in [0, 1, 255, 10_000] {
        let mut inner = b"data\0".to_vec();
        inner.push(DATA);
        inner.resize(6 + padding, 0);
        // The content type that is added is then a zero of the padding.
        let wire = client.seal_any(0, &inner);
        assert_eq!(receive(&mut server, &wire).unwrap(), b"data\0");
    }
}

#[test]
fn a_message_is_not_interrupted_by_data() {
    let (mut client, mut server) = pair(TLS13);
    let mut wire = client.seal_any(HANDSHAKE, &[24, 0]);
    wire.extend(sealed(&mut client, b"between"));
    assert_eq!(
        receive(&mut server, &wire),
        Err(FailureReason::PeerMisbehaved)
    );
}

#[test]
fn a_ticket_in_fragments_is_kept_and_an_endless_one_refused() {
    let (mut client, mut server) = pair(TLS13);
    // Lifetime, age, nonce, ticket, no extensions (RFC 8446, section 4.6.1).
    let mut ticket = vec![4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 7];
    ticket.extend([0x40, 0]);
    ticket.extend([9; 0x4000]);
    ticket.extend([0, 0]);
    let length = ticket.len() - 4;
    ticket[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    for piece in [1, 1000, 16_000] {
        for fragment in ticket.chunks(piece) {
            receive(&mut client, &server.seal_any(HANDSHAKE, fragment)).unwrap();
        }
        let wire = sealed(&mut server, b"data");
        assert_eq!(receive(&mut client, &wire).unwrap(), b"data");
    }
    let wire = server.seal_any(HANDSHAKE, &[4, 1, 0, 0]);
    assert_eq!(receive(&mut client, &wire), Err(FailureReason::BadMessage));
}

#[test]
fn a_record_changed_in_any_byte_or_sent_twice_is_refused() {
    for suite in SUITES {
        let length = pair(suite).0.seal_any(DATA, b"some bytes").len();
        for at in 0..length {
            let (mut client, mut server) = pair(suite);
            let mut changed = client.seal_any(DATA, b"some bytes");
            changed[at] ^= 0x10;
            // TLS 1.3 ignores the minor version.
            let ignored = at == 2 && suite.0 == TlsVersion::Tls13;
            let mut plain = 0;
            match server.receive(&mut changed, &mut |bytes| plain += bytes.len()) {
                // A longer length waits for more.
                Ok(received) => {
                    assert!(ignored || (received.consumed == 0 && (3..5).contains(&at)))
                }
                Err(_) => assert!(!server.held().is_empty() && !ignored),
            }
            assert_eq!(plain > 0, ignored, "{suite:?}, byte {at}");
        }
        let (mut client, mut server) = pair(suite);
        let wire = client.seal_any(DATA, b"some bytes");
        assert_eq!(receive(&mut server, &wire).unwrap(), b"some bytes");
        assert_eq!(receive(&mut server, &wire), Err(FailureReason::BadRecord));
        let seen = alert_seen(&mut server, &mut client);
        assert_eq!(seen.name(), "alert_received_bad_record_mac");
    }
}

#[test]
fn after_the_end_nothing_is_looked_at() {
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        let mut wire = Vec::new();
        client.close_notify(&mut wire).unwrap();
        wire.extend_from_slice(b"anything at all");
        let length = wire.len();
        let received = server.receive(&mut wire, &mut |_| {}).unwrap();
        assert_eq!(received.closed, Some(Closed::CloseNotify));
        assert_eq!(received.consumed, length);
        // The other way is still open.
        let wire = sealed(&mut server, b"last words");
        assert_eq!(receive(&mut client, &wire).unwrap(), b"last words");
    }
}

#[test]
fn what_comes_with_the_end_of_the_handshake_is_kept_to_the_byte() {
    let site = any_site();
    for (version, suite) in SUITES {
        for (longest_record, no_tickets) in [(None, false), (Some(37), false), (None, true)] {
            let client = Client::new(&Offer {
                version: Some(version),
                suites: vec![suite],
                longest_record,
                no_tickets,
                ..Offer::default()
            });
            // Full, then resumed, where the one or the other end finishes first in TLS 1.2.
            for _ in 0..2 {
                let mut connection = client.connection();
                let mut input = outgoing(&mut connection);
                let Reading::Complete(hello) = hello::read(&input) else {
                    panic!("no hello");
                };
                let mut handshake = Handshake::new(&site, &hello).unwrap();
                let mut output = Vec::new();
                let sent = pattern(3_000);
                let mut is_sent = false;
                // At the end a part of a record is still missing.
                let mut late = Vec::new();
                loop {
                    let step = handshake.step(&mut input, &mut output);
                    input.drain(..step.consumed);
                    incoming(&mut connection, &std::mem::take(&mut output));
                    if !connection.is_handshaking() && !is_sent {
                        connection.writer().write_all(&sent).unwrap();
                        is_sent = true;
                    }
                    input.extend(outgoing(&mut connection));
                    if is_sent && late.is_empty() && input.len() > 1000 {
                        late = input.split_off(input.len() - 10);
                    }
                    match step.progress {
                        Progress::Done => break,
                        Progress::NeedsInput => {}
                        Progress::Failed(failure) => panic!("{failure}"),
                    }
                }
                let (mut session, _) = handshake.finish();
                incoming(&mut connection, session.held());
                session.forget_held();
                let mut came = Vec::new();
                for more in [Vec::new(), late] {
                    input.extend(more);
                    let received =
                        session.receive(&mut input, &mut |bytes| came.extend_from_slice(bytes));
                    input.drain(..received.unwrap().consumed);
                }
                assert!(came == sent && input.is_empty(), "{suite:?}");
                let wire = sealed(&mut session, b"answer");
                assert_eq!(incoming(&mut connection, &wire), b"answer");
            }
        }
    }
}
