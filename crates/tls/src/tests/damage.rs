//! Bytes that were changed, cut or made up: each is refused, and none stops the program.

use std::io::Write as _;

use proptest::prelude::*;
use rustls::server::ProducesTickets;
use tollgate_terms::{CertificateKind, NamedGroup, TlsVersion};

use super::support::{
    Client, Offer, SETTINGS, incoming, outgoing, policy, resumption, shake, site,
};
use crate::hello::{self, Reading};
use crate::resumption::SiteSessions;
use crate::{Handshake, Progress, ServerSite};

const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

fn client(version: TlsVersion) -> Client {
    Client::new(&Offer {
        version: Some(version),
        groups: vec![NamedGroup::X25519, NamedGroup::SECP256R1],
        ..Offer::default()
    })
}

/// Steps a handshake through `flights`, and then takes a failed or finished one no further.
fn play(site: &ServerSite, hello: &[u8], second: Option<&[u8]>) {
    let Reading::Complete(read) = hello::read(hello) else {
        return;
    };
    let mut handshake = Handshake::new(site, &read).unwrap();
    let mut output = Vec::new();
    let mut input = hello.to_vec();
    for flight in [None, second] {
        input.extend_from_slice(flight.unwrap_or_default());
        let step = handshake.step(&mut input, &mut output);
        input.drain(..step.consumed);
        match step.progress {
            Progress::NeedsInput => {}
            Progress::Done => {
                let (mut session, _) = handshake.finish();
                let _ = session.receive(&mut input, &mut |_| {});
                return;
            }
            Progress::Failed(failure) => {
                assert!(!failure.reason().name().is_empty());
                return;
            }
        }
    }
}

#[test]
fn a_hello_changed_in_any_byte_stops_nothing() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    for version in BOTH {
        let client = client(version);
        client.visit(&site).unwrap();
        // The second one carries a ticket.
        let hello = outgoing(&mut client.connection());
        for at in 0..hello.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = hello.clone();
                changed[at] ^= change;
                play(&site, &changed, None);
            }
        }
    }
}

#[test]
fn a_second_flight_changed_in_any_byte_fails_or_changes_nothing() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    for version in BOTH {
        let client = client(version);
        let mut at = 0;
        loop {
            let mut connection = client.connection();
            let mut input = outgoing(&mut connection);
            let Reading::Complete(read) = hello::read(&input) else {
                panic!("no hello");
            };
            let mut handshake = Handshake::new(&site, &read).unwrap();
            let mut output = Vec::new();
            let step = handshake.step(&mut input, &mut output);
            input.drain(..step.consumed);
            incoming(&mut connection, &output);
            let mut second = outgoing(&mut connection);
            let Some(byte) = second.get_mut(at) else {
                break;
            };
            *byte ^= 0x21;
            input.append(&mut second);
            let step = handshake.step(&mut input, &mut output);
            assert!(
                matches!(
                    step.progress,
                    Progress::Failed(_) | Progress::NeedsInput | Progress::Done
                ),
                "{version}, byte {at}"
            );
            at += 1;
        }
        assert!(at > 40);
    }
}

#[test]
fn data_changed_in_any_byte_fails_once_and_for_all() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    for version in BOTH {
        let client = client(version);
        // The minor version of a record is ignored by design (RFC 8446, section 5.1).
        for at in (0..40).filter(|at| *at != 2) {
            let mut connection = client.connection();
            let mut session = shake(&mut connection, &site, usize::MAX).unwrap().session;
            connection
                .writer()
                .write_all(b"some twenty bytes, ok")
                .unwrap();
            let mut wire = outgoing(&mut connection);
            if at >= wire.len() {
                break;
            }
            wire[at] ^= 0x10;
            let mut plain = Vec::new();
            let received = session.receive(&mut wire, &mut |bytes| plain.extend_from_slice(bytes));
            // A longer length only waits for more.
            assert!(received.is_err() || received.unwrap().consumed == 0);
            assert!(plain.is_empty());
        }
    }
}

fn sessions() -> SiteSessions {
    SiteSessions {
        resumption: resumption(SETTINGS).1,
        site: 7,
        policy: 0,
    }
}

#[test]
fn a_ticket_changed_or_cut_anywhere_does_not_open() {
    let sessions = sessions();
    let ticket = sessions.encrypt(b"a session").unwrap();
    assert_eq!(sessions.decrypt(&ticket).unwrap(), b"a session");
    for at in 0..ticket.len() {
        assert_eq!(sessions.decrypt(&ticket[..at]), None, "cut at {at}");
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        assert_eq!(sessions.decrypt(&changed), None, "changed at {at}");
    }
}

#[test]
fn no_two_tickets_are_alike() {
    let sessions = sessions();
    assert_ne!(sessions.encrypt(b"same"), sessions.encrypt(b"same"));
}

proptest! {
    #[test]
    fn bytes_that_are_no_ticket_do_not_open(bytes in proptest::collection::vec(any::<u8>(), 0..300), named in any::<bool>()) {
        let mut bytes = bytes;
        if named {
            // The name of the key that issues.
            bytes.splice(..bytes.len().min(16), [1; 16]);
        }
        prop_assert_eq!(sessions().decrypt(&bytes), None);
    }
}
