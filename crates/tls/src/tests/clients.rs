//! Client certificates: off, optional, required, expired, revoked, and their sessions.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tollgate_terms::{
    CertificateKind, Culprit, HandshakeFacts, HandshakeKind, ResumptionMethod, ResumptionMiss,
    TlsVersion, UnixTime,
};
use tollgate_testkit::{Authority, Leaf, Validity};

use super::support::{Client, Offer, SETTINGS, policy, ring};
use crate::{ClientPolicy, ClientTrust, Clock, Failure, FailureReason, Resumption, ServerSite};

const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

/// The testkit's certificates are valid around the present.
fn present() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.unwrap().as_secs())
}

fn keeping() -> Arc<Resumption> {
    let clock = Clock::new(present());
    let resumption = Resumption::new(clock, SETTINGS, &ring());
    let lifetimes = ring().lifetimes();
    let ring = tollgate_keys::Ring::new(lifetimes, present(), super::support::material(3));
    resumption.set_ring(&ring);
    resumption
}

fn trust(authority: &Authority, revoked: &[u64]) -> Arc<ClientTrust> {
    let crls: Vec<Vec<u8>> = match revoked {
        [] => Vec::new(),
        serials => vec![authority.revoked_pem(serials).into_bytes()],
    };
    Arc::new(ClientTrust::from_pem(authority.root_pem().as_bytes(), &crls).unwrap())
}

fn site(client: ClientPolicy, resumption: &Arc<Resumption>) -> ServerSite {
    let mut policy = policy(&[CertificateKind::EcdsaP256]);
    policy.client = client;
    ServerSite::new(policy, Arc::clone(resumption)).unwrap()
}

fn with(leaf: &Leaf, version: TlsVersion) -> Client {
    let chain = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
    Client::new(&Offer {
        version: Some(version),
        identity: Some((chain, Arc::new(key))),
        ..Offer::default()
    })
}

fn without(version: TlsVersion) -> Client {
    Client::new(&Offer {
        version: Some(version),
        ..Offer::default()
    })
}

fn common_name(visit: Result<HandshakeFacts, Failure>) -> Option<String> {
    visit.unwrap().client.map(|client| client.common_name)
}

#[test]
fn a_required_certificate_must_be_shown_and_is_named_in_the_facts() {
    let authority = Authority::new("clients");
    let leaf = authority.client("alice", Validity::Now);
    let site = site(ClientPolicy::Required(trust(&authority, &[])), &keeping());
    for version in BOTH {
        assert_eq!(
            common_name(with(&leaf, version).visit(&site)).as_deref(),
            Some("alice")
        );
        let failure = without(version).visit(&site).unwrap_err();
        assert_eq!(failure.reason(), FailureReason::CertificateMissing);
        assert_eq!(failure.culprit(), Culprit::Client);
    }
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let authority = Authority::new("clients");
    let stranger = Authority::new("strangers");
    let leaf = authority.client("alice", Validity::Now);
    let foreign = stranger.client("mallory", Validity::Now);
    let site = site(ClientPolicy::Optional(trust(&authority, &[])), &keeping());
    for version in BOTH {
        assert_eq!(common_name(without(version).visit(&site)), None);
        assert_eq!(
            common_name(with(&leaf, version).visit(&site)).as_deref(),
            Some("alice")
        );
        let failure = with(&foreign, version).visit(&site).unwrap_err();
        assert_eq!(failure.reason(), FailureReason::CertificateUnknownIssuer);
    }
}

#[test]
fn a_certificate_is_not_asked_for_when_the_policy_is_off() {
    let leaf = Authority::new("clients").client("alice", Validity::Now);
    let site = site(ClientPolicy::Off, &keeping());
    for version in BOTH {
        assert_eq!(common_name(with(&leaf, version).visit(&site)), None);
    }
}

#[test]
fn expired_and_revoked_certificates_are_refused_for_that() {
    let authority = Authority::new("clients");
    let expired = authority.client("late", Validity::Expired);
    let early = authority.client("early", Validity::NotYet);
    let revoked = authority.client("gone", Validity::Now);
    let fine = authority.client("fine", Validity::Now);
    let site = site(
        ClientPolicy::Required(trust(&authority, &[revoked.serial])),
        &keeping(),
    );
    for version in BOTH {
        for (leaf, reason) in [
            (&expired, FailureReason::CertificateExpired),
            (&early, FailureReason::CertificateExpired),
            (&revoked, FailureReason::CertificateRevoked),
        ] {
            let failure = with(leaf, version).visit(&site).unwrap_err();
            assert_eq!(failure.reason(), reason, "{failure}");
        }
        assert!(common_name(with(&fine, version).visit(&site)).is_some());
    }
}

#[test]
fn a_resumed_session_keeps_the_identity() {
    let authority = Authority::new("clients");
    let leaf = authority.client("alice", Validity::Now);
    let resumption = keeping();
    for version in BOTH {
        let client = with(&leaf, version);
        for (round, kind) in [
            HandshakeKind::Full,
            HandshakeKind::Resumed(ResumptionMethod::Ticket),
        ]
        .into_iter()
        .enumerate()
        {
            // A reload between the two.
            let site = site(ClientPolicy::Required(trust(&authority, &[])), &resumption);
            let facts = client.visit(&site).unwrap();
            assert_eq!(facts.kind, kind, "{version}, round {round}");
            assert_eq!(facts.client.unwrap().common_name, "alice");
        }
    }
}

#[test]
fn a_session_does_not_resume_under_another_client_certificate_policy() {
    let authority = Authority::new("clients");
    let leaf = authority.client("alice", Validity::Now);
    let other = authority.client("bob", Validity::Now);
    let plain = trust(&authority, &[]);
    let policies = [
        ClientPolicy::Off,
        ClientPolicy::Optional(Arc::clone(&plain)),
        ClientPolicy::Required(plain),
        ClientPolicy::Required(trust(&authority, &[other.serial])),
        ClientPolicy::Required(trust(&Authority::new("second"), &[])),
    ];
    for version in BOTH {
        for (before, after) in policies.iter().zip(&policies[1..]) {
            let resumption = keeping();
            let client = with(&leaf, version);
            client.visit(&site(before.clone(), &resumption)).unwrap();
            match client.visit(&site(after.clone(), &resumption)) {
                Ok(facts) => assert_eq!(facts.miss, Some(ResumptionMiss::PolicyChanged)),
                Err(failure) => {
                    assert_eq!(failure.reason(), FailureReason::CertificateUnknownIssuer);
                }
            }
        }
    }
}
