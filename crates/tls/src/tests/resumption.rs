//! Tickets and the session cache: what resumes, and why the rest does not.

use std::sync::Arc;

use tollgate_keys::{Duty, Lifetimes, Ring};
use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeFacts, HandshakeKind, ResumptionMethod, ResumptionMiss,
    TlsVersion, UnixTime,
};

use super::support::{
    Client, HOUR, Offer, SETTINGS, START, hours, material, policy, resumption, ring,
};
use crate::{Clock, Resumption, ResumptionSettings, ServerSite, SitePolicy};

const BY_TICKET: HandshakeKind = HandshakeKind::Resumed(ResumptionMethod::Ticket);
const BY_CACHE: HandshakeKind = HandshakeKind::Resumed(ResumptionMethod::SessionCache);
const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

fn ecdsa() -> SitePolicy {
    policy(&[CertificateKind::EcdsaP256])
}

fn only(version: TlsVersion) -> Offer {
    Offer {
        version: Some(version),
        ..Offer::default()
    }
}

fn without_tickets() -> Offer {
    Offer {
        no_tickets: true,
        ..only(TlsVersion::Tls12)
    }
}

struct Place {
    clock: Clock,
    resumption: Arc<Resumption>,
    site: ServerSite,
}

impl Place {
    fn new(settings: ResumptionSettings) -> Self {
        let (clock, resumption) = resumption(settings);
        let site = ServerSite::new(ecdsa(), Arc::clone(&resumption)).unwrap();
        Self {
            clock,
            resumption,
            site,
        }
    }

    fn visit(&self, client: &Client) -> HandshakeFacts {
        client.visit(&self.site).unwrap()
    }

    fn reload(&mut self, policy: SitePolicy) {
        self.site = ServerSite::new(policy, Arc::clone(&self.resumption)).unwrap();
    }
}

fn assert_miss(facts: &HandshakeFacts, miss: ResumptionMiss) {
    assert_eq!((facts.kind, facts.miss), (HandshakeKind::Full, Some(miss)));
    assert!(facts.certificate.is_some() && facts.signature.is_some());
}

#[test]
fn a_ticket_resumes_and_the_facts_say_so() {
    let place = Place::new(SETTINGS);
    for version in BOTH {
        let client = Client::new(&only(version));
        assert_miss(&place.visit(&client), ResumptionMiss::NothingOffered);
        let facts = place.visit(&client);
        assert_eq!(facts.kind, BY_TICKET, "{version}");
        assert_eq!(
            (facts.miss, facts.certificate, facts.signature),
            (None, None, None)
        );
        assert_eq!(facts.group.is_some(), version == TlsVersion::Tls13);
        assert_eq!(facts.version, version);
        // And again with the ticket that the resumed handshake gave.
        assert_eq!(place.visit(&client).kind, BY_TICKET, "{version}");
    }
    assert_eq!(place.resumption.sessions(), 0);
}

#[test]
fn a_tls12_client_without_tickets_resumes_from_the_cache() {
    let place = Place::new(SETTINGS);
    let client = Client::new(&without_tickets());
    assert_miss(&place.visit(&client), ResumptionMiss::NothingOffered);
    assert_eq!(place.resumption.sessions(), 1);
    assert_eq!(place.visit(&client).kind, BY_CACHE);
    assert_eq!(place.visit(&client).kind, BY_CACHE);
}

#[test]
fn with_tickets_off_both_versions_resume_from_the_cache() {
    let place = Place::new(ResumptionSettings {
        tickets: false,
        ..SETTINGS
    });
    for version in BOTH {
        let client = Client::new(&only(version));
        assert_miss(&place.visit(&client), ResumptionMiss::NothingOffered);
        assert_eq!(place.visit(&client).kind, BY_CACHE, "{version}");
        assert_eq!(place.visit(&client).kind, BY_CACHE, "{version}");
    }
}

#[test]
fn the_cache_keeps_no_more_sessions_than_it_may_and_an_evicted_one_is_not_in_cache() {
    let place = Place::new(ResumptionSettings {
        session_cache_entries: 3,
        ..SETTINGS
    });
    let clients: Vec<Client> = (0..20).map(|_| Client::new(&without_tickets())).collect();
    for client in &clients {
        place.visit(client);
        assert!(place.resumption.sessions() <= 3);
    }
    let misses = clients
        .iter()
        .filter(|client| place.visit(client).miss == Some(ResumptionMiss::NotInCache))
        .count();
    assert!(misses >= 17 - 3, "{misses}");
}

#[test]
fn without_cache_and_tickets_nothing_resumes_and_nothing_fails() {
    let place = Place::new(ResumptionSettings {
        tickets: false,
        session_cache_entries: 0,
        ..SETTINGS
    });
    for offer in [
        only(TlsVersion::Tls13),
        only(TlsVersion::Tls12),
        without_tickets(),
    ] {
        let client = Client::new(&offer);
        for _ in 0..2 {
            assert_miss(&place.visit(&client), ResumptionMiss::NothingOffered);
        }
    }
}

#[test]
fn a_session_resumes_until_its_lifetime_is_over_and_then_is_full_and_resumes_again() {
    for (offer, kind) in [
        (only(TlsVersion::Tls13), BY_TICKET),
        (only(TlsVersion::Tls12), BY_TICKET),
        (without_tickets(), BY_CACHE),
    ] {
        let place = Place::new(SETTINGS);
        let client = Client::new(&offer);
        place.visit(&client);
        for hour in [1, 3, 5] {
            place.clock.set(hours(hour));
            assert_eq!(place.visit(&client).kind, kind, "at hour {hour}");
        }
        // Six hours after the full handshake, however fresh the last ticket is.
        place.clock.set(hours(6));
        assert_miss(&place.visit(&client), ResumptionMiss::Expired);
        place.clock.set(hours(11));
        assert_eq!(place.visit(&client).kind, kind);
    }
}

#[test]
fn a_ticket_of_a_key_that_only_accepts_resumes_and_of_a_retired_one_does_not() {
    let mut place = Place::new(ResumptionSettings {
        lifetime: HOUR * 100,
        ..SETTINGS
    });
    for version in BOTH {
        let mut ring = ring();
        place.clock.set(START);
        place.resumption.set_ring(&ring);
        let client = Client::new(&only(version));
        place.visit(&client);
        for hour in 1..=40 {
            place.clock.set(hours(hour));
            if let Some(next) = ring.turn(hours(hour), || material(2)) {
                ring = next;
                place.resumption.set_ring(&ring);
            }
            let duty = ring.find(&[1; 16]).map(|key| ring.duty(key, hours(hour)));
            match duty {
                Some(Duty::Accept) => {
                    assert_eq!(place.visit(&client).kind, BY_TICKET);
                    break;
                }
                Some(_) => {}
                None => panic!("the key retired before it accepted"),
            }
        }
        // The visit has given a ticket of the new key; this client still holds one of the old key.
        place.reload(ecdsa());
        let client = Client::new(&only(version));
        place.clock.set(START);
        place.visit(&client);
        place.clock.set(hours(31));
        assert_miss(&place.visit(&client), ResumptionMiss::UnknownKey);
        // Key 2 issues now.
        assert_eq!(place.visit(&client).kind, BY_TICKET);
    }
}

#[test]
fn tickets_of_keys_that_are_gone_are_of_an_unknown_key() {
    let place = Place::new(SETTINGS);
    for version in BOTH {
        place.resumption.set_ring(&ring());
        let client = Client::new(&only(version));
        place.visit(&client);
        let lifetimes = Lifetimes::new(HOUR * 24, HOUR * 6).unwrap();
        place
            .resumption
            .set_ring(&Ring::new(lifetimes, START, material(9)));
        assert_miss(&place.visit(&client), ResumptionMiss::UnknownKey);
        assert_eq!(place.visit(&client).kind, BY_TICKET, "{version}");
    }
}

#[test]
fn a_ticket_under_the_right_name_with_another_secret_is_malformed() {
    let place = Place::new(SETTINGS);
    let client = Client::new(&Offer::default());
    place.visit(&client);
    let lifetimes = Lifetimes::new(HOUR * 24, HOUR * 6).unwrap();
    let mut forged = material(1);
    forged.secret = [0; 32].into();
    place
        .resumption
        .set_ring(&Ring::new(lifetimes, START, forged));
    assert_miss(&place.visit(&client), ResumptionMiss::Malformed);
}

#[test]
fn a_session_does_not_resume_at_another_site() {
    for (offer, kind) in [
        (only(TlsVersion::Tls13), BY_TICKET),
        (only(TlsVersion::Tls12), BY_TICKET),
        (without_tickets(), BY_CACHE),
    ] {
        let mut place = Place::new(SETTINGS);
        let client = Client::new(&offer);
        place.visit(&client);
        let mut other = ecdsa();
        other.id = 8;
        place.reload(other);
        assert_miss(&place.visit(&client), ResumptionMiss::OtherSite);
        assert_eq!(place.visit(&client).kind, kind);
    }
}

#[test]
fn sessions_survive_a_reload_of_the_same_policy() {
    for (offer, kind) in [
        (only(TlsVersion::Tls13), BY_TICKET),
        (only(TlsVersion::Tls12), BY_TICKET),
        (without_tickets(), BY_CACHE),
    ] {
        let mut place = Place::new(SETTINGS);
        let client = Client::new(&offer);
        place.visit(&client);
        place.reload(ecdsa());
        place.resumption.reconfigure(ResumptionSettings {
            session_cache_entries: 50,
            ..SETTINGS
        });
        assert_eq!(place.visit(&client).kind, kind);
    }
}

#[test]
fn a_session_of_a_suite_that_is_not_spoken_any_more_is_not_usable() {
    for version in BOTH {
        let mut place = Place::new(SETTINGS);
        let client = Client::new(&only(version));
        place.visit(&client);
        let mut other = ecdsa();
        other.suites = vec![
            CipherSuite::TLS_AES_256_GCM_SHA384,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ];
        place.reload(other);
        assert_miss(&place.visit(&client), ResumptionMiss::NotUsable);
    }
}

#[test]
fn turning_tickets_off_and_on_costs_full_handshakes_and_nothing_else() {
    let place = Place::new(SETTINGS);
    for version in BOTH {
        let client = Client::new(&only(version));
        place.resumption.reconfigure(SETTINGS);
        place.visit(&client);
        place.resumption.reconfigure(ResumptionSettings {
            tickets: false,
            ..SETTINGS
        });
        let facts = place.visit(&client);
        assert_eq!(facts.kind, HandshakeKind::Full, "{version}");
        // The library gives no session id to a TLS 1.2 client that still shows a ticket.
        if version == TlsVersion::Tls13 {
            assert_eq!(place.visit(&client).kind, BY_CACHE, "{version}");
        }
        place.resumption.reconfigure(SETTINGS);
        let _ = place.visit(&client);
        assert_eq!(place.visit(&client).kind, BY_TICKET, "{version}");
    }
}

#[test]
fn a_clock_that_goes_back_does_not_fail_a_handshake() {
    let place = Place::new(SETTINGS);
    for version in BOTH {
        place.clock.set(hours(1));
        let client = Client::new(&only(version));
        place.visit(&client);
        place.clock.set(UnixTime(START.0 - 1));
        // No key issues yet; the old ticket still opens.
        assert_eq!(place.visit(&client).kind, BY_TICKET, "{version}");
    }
}
