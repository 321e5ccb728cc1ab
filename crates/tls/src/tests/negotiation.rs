//! What is agreed: versions, suites, groups, certificates, signatures, application protocols.

use rustls::SignatureScheme as Scheme;
use tollgate_terms::{
    CertificateKind, CipherSuite, Culprit, HandshakeKind, NamedGroup, SignatureScheme, TlsVersion,
};

use super::support::{Client, Offer, policy, shake, site};
use crate::{FailureReason, hello};

const ECDSA: CertificateKind = CertificateKind::EcdsaP256;
const RSA: CertificateKind = CertificateKind::Rsa(2048);

#[test]
fn every_suite_of_both_versions_is_spoken_when_it_is_all_that_the_client_has() {
    let site = site(policy(&[RSA, ECDSA]));
    for suite in [
        CipherSuite::TLS_AES_128_GCM_SHA256,
        CipherSuite::TLS_AES_256_GCM_SHA384,
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ] {
        let version = match suite.0 >> 8 {
            0x13 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let facts = Client::new(&Offer {
            version: Some(version),
            suites: vec![suite],
            ..Offer::default()
        })
        .visit(&site)
        .unwrap();
        assert_eq!((facts.version, facts.suite), (version, suite));
        assert_eq!(facts.kind, HandshakeKind::Full, "{suite}");
        assert_eq!(facts.server_name.unwrap().as_str(), "localhost");
        let rsa = suite.name().contains("_RSA_");
        assert_eq!(
            facts.certificate,
            Some(if rsa { RSA } else { ECDSA }),
            "{suite}"
        );
    }
}

#[test]
fn every_group_is_spoken_in_each_version_that_has_it() {
    let site = site(policy(&[ECDSA]));
    for group in [
        NamedGroup::X25519MLKEM768,
        NamedGroup::X25519,
        NamedGroup::SECP256R1,
        NamedGroup::SECP384R1,
    ] {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            if (group, version) == (NamedGroup::X25519MLKEM768, TlsVersion::Tls12) {
                continue;
            }
            // TLS 1.2 clients name the curve of the certificate among their groups too.
            let mut groups = vec![group];
            if version == TlsVersion::Tls12 && group != NamedGroup::SECP256R1 {
                groups.push(NamedGroup::SECP256R1);
            }
            let facts = Client::new(&Offer {
                version: Some(version),
                groups,
                ..Offer::default()
            })
            .visit(&site)
            .unwrap();
            assert_eq!(facts.group, Some(group), "{version}");
        }
    }
}

#[test]
fn aes_128_goes_first_whatever_the_client_prefers_except_chacha20() {
    let site = site(policy(&[ECDSA]));
    let aes_256_first = vec![
        CipherSuite::TLS_AES_256_GCM_SHA384,
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_AES_128_GCM_SHA256,
    ];
    let mut chacha_first = aes_256_first.clone();
    chacha_first.swap(0, 1);
    for (suites, agreed) in [
        (aes_256_first, CipherSuite::TLS_AES_128_GCM_SHA256),
        (chacha_first, CipherSuite::TLS_CHACHA20_POLY1305_SHA256),
    ] {
        let offer = Offer {
            suites,
            version: Some(TlsVersion::Tls13),
            ..Offer::default()
        };
        assert_eq!(Client::new(&offer).visit(&site).unwrap().suite, agreed);
    }
    let offer = Offer {
        version: Some(TlsVersion::Tls12),
        suites: vec![
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ],
        ..Offer::default()
    };
    assert_eq!(
        Client::new(&offer).visit(&site).unwrap().suite,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
    );
}

#[test]
fn the_order_of_suites_in_the_policy_decides() {
    let mut policy = policy(&[ECDSA]);
    policy.suites = vec![
        CipherSuite::TLS_AES_256_GCM_SHA384,
        CipherSuite::TLS_AES_128_GCM_SHA256,
    ];
    let site = site(policy);
    let facts = Client::new(&Offer::default()).visit(&site).unwrap();
    assert_eq!(facts.suite, CipherSuite::TLS_AES_256_GCM_SHA384);
}

#[test]
fn a_client_without_ecdsa_gets_the_rsa_certificate_and_others_the_ecdsa_one() {
    let site = site(policy(&[RSA, ECDSA]));
    let rsa_schemes = vec![Scheme::RSA_PSS_SHA256, Scheme::RSA_PKCS1_SHA256];
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let mut offer = Offer {
            version: Some(version),
            ..Offer::default()
        };
        let facts = Client::new(&offer).visit(&site).unwrap();
        assert_eq!(facts.certificate, Some(ECDSA), "{version}");
        assert_eq!(
            facts.signature,
            Some(SignatureScheme::ECDSA_SECP256R1_SHA256)
        );
        offer.schemes = rsa_schemes.clone();
        let facts = Client::new(&offer).visit(&site).unwrap();
        assert_eq!(facts.certificate, Some(RSA), "{version}");
        assert_eq!(facts.signature, Some(SignatureScheme::RSA_PSS_RSAE_SHA256));
    }
}

#[test]
fn a_tls12_client_without_the_curve_of_the_certificate_gets_the_rsa_one() {
    let site = site(policy(&[CertificateKind::EcdsaP384, RSA]));
    let offer = Offer {
        version: Some(TlsVersion::Tls12),
        groups: vec![NamedGroup::X25519, NamedGroup::SECP256R1],
        ..Offer::default()
    };
    let facts = Client::new(&offer).visit(&site).unwrap();
    assert_eq!(facts.certificate, Some(RSA));
}

#[test]
fn certificates_of_every_kind_are_shown_to_clients_that_can_verify_them() {
    for (kind, signature) in [
        (ECDSA, SignatureScheme::ECDSA_SECP256R1_SHA256),
        (
            CertificateKind::EcdsaP384,
            SignatureScheme::ECDSA_SECP384R1_SHA384,
        ),
        (CertificateKind::Ed25519, SignatureScheme::ED25519),
        (RSA, SignatureScheme::RSA_PSS_RSAE_SHA256),
    ] {
        let site = site(policy(&[kind]));
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let offer = Offer {
                version: Some(version),
                ..Offer::default()
            };
            let facts = Client::new(&offer).visit(&site).unwrap();
            assert_eq!(facts.certificate, Some(kind), "{version}");
            assert_eq!(facts.signature, Some(signature), "{version}");
        }
    }
}

#[test]
fn a_key_share_of_another_group_leads_to_one_retry() {
    let mut policy = policy(&[ECDSA]);
    policy.groups = vec![NamedGroup::SECP384R1];
    let site = site(policy);
    let offer = Offer {
        groups: vec![NamedGroup::X25519, NamedGroup::SECP384R1],
        ..Offer::default()
    };
    let facts = Client::new(&offer).visit(&site).unwrap();
    assert_eq!(facts.kind, HandshakeKind::FullWithRetry);
    assert_eq!(facts.group, Some(NamedGroup::SECP384R1));
}

#[test]
fn the_sites_order_of_application_protocols_decides() {
    let site = site(policy(&[ECDSA]));
    for (offered, agreed) in [
        (vec!["http/1.1", "h2"], Some("h2")),
        (vec!["http/1.1"], Some("http/1.1")),
        (vec![], None),
    ] {
        let offer = Offer {
            alpn: offered,
            ..Offer::default()
        };
        let facts = Client::new(&offer).visit(&site).unwrap();
        assert_eq!(facts.alpn.as_deref(), agreed);
    }
}

#[test]
fn what_is_not_in_common_is_named_and_charged_to_the_client() {
    let mut strict = policy(&[ECDSA]);
    strict.min_version = TlsVersion::Tls13;
    strict.suites = vec![CipherSuite::TLS_AES_128_GCM_SHA256];
    strict.groups = vec![NamedGroup::X25519];
    let site = site(strict);
    let all = Offer::default();
    let offers = [
        (
            Offer {
                version: Some(TlsVersion::Tls12),
                ..all.clone()
            },
            FailureReason::NoCommonVersion,
        ),
        (
            Offer {
                version: Some(TlsVersion::Tls13),
                suites: vec![CipherSuite::TLS_CHACHA20_POLY1305_SHA256],
                ..all.clone()
            },
            FailureReason::NoCommonSuite,
        ),
        (
            Offer {
                groups: vec![NamedGroup::SECP384R1],
                ..all.clone()
            },
            FailureReason::NoCommonGroup,
        ),
        (
            Offer {
                alpn: vec!["imap"],
                ..all.clone()
            },
            FailureReason::NoCommonAlpn,
        ),
        (
            Offer {
                schemes: vec![Scheme::RSA_PSS_SHA256],
                ..all.clone()
            },
            FailureReason::NoSuitableCertificate,
        ),
    ];
    for (offer, reason) in offers {
        let failure = Client::new(&offer).visit(&site).unwrap_err();
        assert_eq!(failure.reason(), reason, "{failure}");
        assert_eq!(failure.culprit(), Culprit::Client);
        assert!(failure.to_string().starts_with(reason.name()));
    }
}

#[test]
fn a_tls12_client_that_can_verify_no_certificate_is_refused_for_that() {
    let site = site(policy(&[ECDSA]));
    let offer = Offer {
        version: Some(TlsVersion::Tls12),
        schemes: vec![Scheme::RSA_PSS_SHA256],
        ..Offer::default()
    };
    let failure = Client::new(&offer).visit(&site).unwrap_err();
    assert_eq!(failure.reason(), FailureReason::NoSuitableCertificate);
}

#[test]
fn a_handshake_survives_any_segmentation() {
    let site = site(policy(&[ECDSA]));
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let client = Client::new(&Offer {
            version: Some(version),
            ..Offer::default()
        });
        for piece in [1, 2, 5, 100] {
            let mut connection = client.connection();
            let mut shaken = shake(&mut connection, &site, piece).unwrap();
            assert_eq!(shaken.facts.version, version);
            let mut wire = {
                use std::io::Write;
                connection.writer().write_all(b"hello").unwrap();
                super::support::outgoing(&mut connection)
            };
            let mut plain = Vec::new();
            shaken
                .session
                .receive(&mut wire, &mut |bytes| plain.extend_from_slice(bytes))
                .unwrap();
            assert_eq!(plain, b"hello");
        }
    }
}

#[test]
fn garbage_after_the_hello_fails_with_an_alert_and_without_a_panic() {
    let site = site(policy(&[ECDSA]));
    let mut connection = Client::new(&Offer::default()).connection();
    let mut wire = super::support::outgoing(&mut connection);
    let hello::Reading::Complete(hello) = hello::read(&wire) else {
        panic!("no hello");
    };
    let mut handshake = crate::Handshake::new(&site, &hello).unwrap();
    let mut output = Vec::new();
    let step = handshake.step(&mut wire, &mut output);
    assert!(matches!(step.progress, crate::Progress::NeedsInput));
    output.clear();
    let mut garbage = vec![23, 3, 3, 0, 40];
    garbage.extend([0x55; 40]);
    let step = handshake.step(&mut garbage, &mut output);
    let crate::Progress::Failed(failure) = step.progress else {
        panic!("garbage was accepted");
    };
    assert_eq!(failure.reason(), FailureReason::BadRecord);
    assert!(!output.is_empty(), "no alert was given");
}

#[test]
fn a_client_that_refuses_our_certificate_is_counted_by_its_alert() {
    let site = site(policy(&[ECDSA]));
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let client = Client::new(&Offer {
            version: Some(version),
            ..Offer::default()
        });
        let mut wire = super::support::outgoing(&mut client.connection());
        let hello::Reading::Complete(hello) = hello::read(&wire) else {
            panic!("no hello");
        };
        let mut handshake = crate::Handshake::new(&site, &hello).unwrap();
        handshake.step(&mut wire, &mut Vec::new());
        // unknown_ca, RFC 8446, section 6.2.
        let mut output = Vec::new();
        let step = handshake.step(&mut crate::alert_bytes(48), &mut output);
        let crate::Progress::Failed(failure) = step.progress else {
            panic!("the alert was not noticed");
        };
        assert_eq!(failure.reason().name(), "alert_received_unknown_ca");
        assert_eq!(failure.culprit(), Culprit::Client);
        assert!(output.is_empty(), "an alert is not answered");
    }
}
