#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber,
};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const START: UnixTime = UnixTime(1_767_225_600); // 2026-01-01
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/material");

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(FIXTURES).join(name)).unwrap()
}

/// A certificate with its key: what a test signs with and puts in order.
struct Signed {
    pem: String,
    der: Vec<u8>,
    key: KeyPair,
    parameters: CertificateParams,
}

impl Signed {
    fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

fn parameters(name: &str, is_authority: bool) -> CertificateParams {
    let names = match is_authority {
        true => vec![],
        false => vec![name.to_owned()],
    };
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
    parameters.serial_number = Some(SerialNumber::from_slice(&[0x8f, 1]));
    if is_authority {
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    }
    parameters
}

fn root(name: &str) -> Signed {
    let (parameters, key) = (parameters(name, true), KeyPair::generate().unwrap());
    let made = parameters.self_signed(&key).unwrap();
    Signed {
        pem: made.pem(),
        der: made.der().to_vec(),
        key,
        parameters,
    }
}

fn issued(by: &Signed, parameters: CertificateParams) -> Signed {
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&by.parameters, &by.key);
    let made = parameters.signed_by(&key, &issuer).unwrap();
    Signed {
        pem: made.pem(),
        der: made.der().to_vec(),
        key,
        parameters,
    }
}

fn read_chain(parts: &[&Signed]) -> Certificate {
    let chain: String = parts.iter().map(|part| part.pem.as_str()).collect();
    Certificate::from_pem(chain.as_bytes(), parts[0].key_pem().as_bytes()).unwrap()
}

fn codes(findings: &[MaterialFinding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

fn refusal(chain: &[u8], key: &[u8]) -> String {
    Certificate::from_pem(chain, key).unwrap_err().to_string()
}

#[test]
fn every_kind_is_made_and_read_back() {
    for kind in [
        CertificateKind::EcdsaP256,
        CertificateKind::EcdsaP384,
        CertificateKind::Ed25519,
        CertificateKind::Rsa(2048),
    ] {
        let made = Certificate::self_signed(kind, &["localhost", "127.0.0.1", "::1"]).unwrap();
        assert_eq!(made.kind(), kind);
        assert_eq!(made.names(), ["localhost", "127.0.0.1", "::1"]);
        assert!(made.certified_key().keys_match().is_ok());
        assert!(!codes(&made.findings(START)).contains(&"expired"));
    }
    let year = UnixTime(1_800_000_000)..UnixTime(1_831_536_000);
    let made =
        Certificate::self_signed_for(CertificateKind::EcdsaP256, &["localhost"], year.clone());
    let made = made.unwrap();
    assert_eq!(made.not_before()..made.not_after(), year);
    let refused = Certificate::self_signed(CertificateKind::Rsa(1024), &["localhost"]);
    assert!(matches!(refused, Err(MaterialError::NotMade { .. })));
}

#[test]
fn a_combined_file_is_chain_and_key_at_once() {
    let made = make_self_signed(CertificateKind::EcdsaP256, &["localhost"]).unwrap();
    for combined in [
        format!("{}{}", made.chain_pem, *made.key_pem),
        format!("{}\nsome text\n{}", *made.key_pem, made.chain_pem),
        format!("{}{}", *made.key_pem, made.chain_pem).replace('\n', "\r\n"),
    ] {
        let read = Certificate::from_pem(combined.as_bytes(), combined.as_bytes()).unwrap();
        assert_eq!(read.names(), ["localhost"]);
        assert_eq!(read.chain_pem(), made.chain_pem.replace("\r\n", "\n"));
    }
}

#[test]
fn keys_in_the_forms_that_openssl_writes_are_read() {
    for (chain, key, kind) in [
        ("ec.crt", "ec.sec1.key", CertificateKind::EcdsaP256),
        ("ec.crt", "ec.pkcs8.key", CertificateKind::EcdsaP256),
        ("rsa.crt", "rsa.pkcs1.key", CertificateKind::Rsa(2048)),
        ("rsa.crt", "rsa.pkcs8.key", CertificateKind::Rsa(2048)),
    ] {
        let read = Certificate::from_pem(&fixture(chain), &fixture(key)).unwrap();
        assert_eq!(read.kind(), kind, "{key}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_a_way_out() {
    let ec = fixture("ec.crt");
    let made = make_self_signed(CertificateKind::EcdsaP256, &["localhost"]).unwrap();
    let two_keys = [fixture("ec.sec1.key"), fixture("rsa.pkcs8.key")].concat();
    let cut = &ec[..ec.len() - 40];
    for (chain, key, words) in [
        (
            &ec[..],
            &fixture("ec.encrypted.key")[..],
            "openssl pkey -in",
        ),
        (&ec, &fixture("ec.legacy_encrypted.key"), "openssl pkey -in"),
        (&ec, &fixture("ec.key.der"), "openssl pkey -inform DER"),
        (&fixture("ec.crt.der"), &ec, "openssl x509 -inform DER"),
        (&fixture("ec.p12"), &ec, "openssl pkcs12 -in"),
        (
            &ec,
            &ec,
            "no private key found, the key file holds 1 CERTIFICATE",
        ),
        (&ec, b"", "holds nothing in PEM form"),
        (
            made.key_pem.as_bytes(),
            &ec,
            "no certificate found, the chain holds 1 PRIVATE KEY",
        ),
        (&ec, &two_keys, "2 private keys found"),
        (
            &ec,
            made.key_pem.as_bytes(),
            "does not fit the first certificate (CN=ec.example,O=Shop",
        ),
        (cut, &ec, "has no END line"),
        (
            &fixture("p521.crt"),
            &fixture("p521.key"),
            "the certificate's key is ECDSA P-521",
        ),
        (
            &fixture("rsa1024.crt"),
            &fixture("rsa1024.key"),
            "RSA key has 1024 bits",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &ec,
            "certificate 1 is not a readable X.509 certificate",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\n****\n-----END CERTIFICATE-----\n",
            &ec,
            "it is not base64",
        ),
    ] {
        let message = refusal(chain, key);
        assert!(message.contains(words), "{message:?} should say {words:?}");
        assert!(
            !message.contains('\n') && !message.ends_with('.'),
            "{message}"
        );
    }
}

#[test]
fn a_key_that_fits_a_later_certificate_says_which() {
    let root = root("root");
    let end = issued(&root, parameters("shop.example", false));
    let chain = format!("{}{}", root.pem, end.pem);
    assert_eq!(
        Certificate::from_pem(chain.as_bytes(), end.key_pem().as_bytes()).unwrap_err(),
        MaterialError::KeyMismatch {
            subject: "CN=root".to_owned(),
            fits: Some(2)
        }
    );
}

#[test]
fn a_name_is_covered_exactly_or_by_one_wildcard_label() {
    let made = Certificate::self_signed(
        CertificateKind::EcdsaP256,
        &["shop.example", "*.shop.example", "192.0.2.1"],
    )
    .unwrap();
    for name in [
        "shop.example",
        "SHOP.example.",
        "a.shop.example",
        "192.0.2.1",
    ] {
        assert!(made.covers(name), "{name}");
    }
    for name in [
        "example",
        "a.b.shop.example",
        "ashop.example",
        "192.0.2.2",
        "",
        "*",
    ] {
        assert!(!made.covers(name), "{name}");
    }
}

#[test]
fn validity_is_judged_by_the_time_handed_in() {
    let authority = root("root");
    let middle = issued(&authority, {
        let mut parameters = parameters("middle", true);
        parameters.not_after = rcgen::date_time_ymd(2030, 1, 1);
        parameters
    });
    let end = issued(&middle, parameters("shop.example", false));
    let certificate = read_chain(&[&end, &middle]);
    assert_eq!(certificate.not_before(), START);
    for (now, expected) in [
        (START - DAY, vec!["not_yet_valid", "not_yet_valid"]),
        (START, vec![]),
        (START + DAY * 75, vec![]),
        (START + DAY * 77, vec!["expires_soon"]),
        (certificate.not_after(), vec!["expires_soon"]),
        (
            certificate.not_after() + Duration::from_secs(1),
            vec!["expired"],
        ),
    ] {
        assert_eq!(codes(&certificate.findings(now)), expected, "at {now:?}");
    }
    let expired = certificate.findings(START + DAY * 100);
    assert_eq!(
        expired[0].message,
        "the certificate (CN=shop.example) expired on 2026-04-01, 10 days ago; renew it"
    );
    assert_eq!(expired[0].severity, Severity::Error);
}

#[test]
fn an_odd_chain_is_used_and_told() {
    let authority = root("root");
    let middle = issued(&authority, parameters("middle", true));
    let lower = issued(&middle, parameters("lower", true));
    let end = issued(&lower, parameters("shop.example", false));
    for (chain, expected) in [
        (vec![&end, &lower, &middle], vec![]),
        (
            vec![&end, &lower, &middle, &authority],
            vec!["root_included"],
        ),
        (vec![&end], vec!["no_intermediates"]),
        (vec![&end, &lower, &lower, &middle], vec!["duplicate"]),
        (
            vec![&end, &middle, &lower],
            vec!["chain_order", "chain_order"],
        ),
    ] {
        assert_eq!(codes(&read_chain(&chain).findings(START)), expected);
    }
}

#[test]
fn an_end_entity_certificate_that_clients_refuse_is_an_error() {
    let authority = root("root");
    let mut for_clients = parameters("client", false);
    for_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for_clients.subject_alt_names.clear();
    let end = issued(&authority, for_clients);
    let findings = read_chain(&[&end]).findings(START);
    assert_eq!(
        codes(&findings),
        ["no_names", "not_for_servers", "no_intermediates"]
    );
    let ed = Certificate::self_signed(CertificateKind::Ed25519, &["localhost"]).unwrap();
    assert_eq!(codes(&ed.findings(START)), ["ed25519", "self_signed"]);
}

#[test]
fn a_certificate_is_described_as_openssl_describes_it() {
    let described = inspect(&fixture("ec.crt")).unwrap();
    assert_eq!(described, inspect(&fixture("ec.crt.der")).unwrap());
    let expected = String::from_utf8(fixture("ec.expected")).unwrap();
    let mut lines = expected.lines();
    let mut next = || {
        lines
            .next()
            .unwrap()
            .split_once('=')
            .unwrap()
            .1
            .to_lowercase()
    };
    assert_eq!(described[0].serial, next());
    assert_eq!(described[0].sha256, next().replace(':', ""));
    assert_eq!(described[0].subject.to_lowercase(), next());
    assert_eq!(described[0].names, ["ec.example", "192.0.2.7"]);
    assert_eq!(described[0].key, "ECDSA P-256");
}

#[test]
fn a_subject_cannot_smuggle_a_line_or_a_second_name() {
    let authority = root("root");
    let mut parameters = parameters("x", false);
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, " a,O=evil\r\nb\\ ");
    let end = issued(&authority, parameters);
    let identity = client_identity(&end.der).unwrap();
    assert_eq!(identity.subject, "CN=\\ a\\,O=evil\\0d\\0ab\\\\\\ ");
    assert!(!identity.common_name.contains(char::is_control));
    assert_eq!(identity.serial, "8f01");
    assert_eq!(identity.alternative_names, ["x"]);
    assert_eq!(identity.fingerprint_sha256.len(), 64);
}

fn revocations(by: &Signed, serials: &[SerialNumber]) -> rcgen::CertificateRevocationList {
    let revoked = |serial: &SerialNumber| RevokedCertParams {
        serial_number: serial.clone(),
        revocation_time: rcgen::date_time_ymd(2026, 1, 2),
        reason_code: Some(RevocationReason::KeyCompromise),
        invalidity_date: None,
    };
    CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2026, 1, 2),
        next_update: rcgen::date_time_ymd(2026, 2, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
    .signed_by(&Issuer::from_params(&by.parameters, &by.key))
    .unwrap()
}

#[test]
fn a_client_is_trusted_by_its_authority_until_it_is_revoked() {
    let (ours, other) = (root("ours"), root("other"));
    let client = issued(&ours, {
        let mut client = parameters("client", false);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        client
    });
    let list = revocations(&ours, client.parameters.serial_number.as_slice());
    let verify = |trust: &ClientTrust| {
        let now = rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(START.0 + 1));
        let verifier = trust.verifier(true).unwrap();
        verifier.verify_client_cert(&client.der.clone().into(), &[], now)
    };
    let trust = ClientTrust::from_pem(ours.pem.as_bytes(), &[]).unwrap();
    assert!(verify(&trust).is_ok());
    for crl in [list.pem().unwrap().into_bytes(), list.der().to_vec()] {
        let trust = ClientTrust::from_pem(ours.pem.as_bytes(), &[crl]).unwrap();
        assert_eq!(trust.crls().len(), 1);
        assert!(verify(&trust).is_err());
        assert_eq!(codes(&trust.findings(START)), Vec::<&str>::new());
        let stale = codes(&trust.findings(START + DAY * 40));
        assert_eq!(stale, ["revocation_list_stale"]);
    }
    let elsewhere = ClientTrust::from_pem(other.pem.as_bytes(), &[]).unwrap();
    assert!(verify(&elsewhere).is_err());
    assert!(trust.verifier(true).unwrap().client_auth_mandatory());
    assert!(!trust.verifier(false).unwrap().client_auth_mandatory());
}

#[test]
fn a_trust_is_the_same_whatever_the_order_of_its_files() {
    let (a, b) = (root("a"), root("b"));
    let digest = |bundle: String, crls: &[Vec<u8>]| {
        ClientTrust::from_pem(bundle.as_bytes(), crls)
            .unwrap()
            .digest()
    };
    let both = digest(format!("{}{}", a.pem, b.pem), &[]);
    assert_eq!(both, digest(format!("{}{}{}", b.pem, a.pem, b.pem), &[]));
    assert_ne!(both, digest(a.pem.clone(), &[]));
    let list = revocations(&a, &[]).der().to_vec();
    assert_ne!(both, digest(format!("{}{}", a.pem, b.pem), &[list]));
}

#[test]
fn a_bundle_or_list_that_is_none_is_refused() {
    let authority = root("root");
    for (bundle, crls, words) in [
        (
            b"".as_slice(),
            vec![],
            "no certificate authority found, the bundle holds nothing",
        ),
        (&authority.der, vec![], "openssl x509 -inform DER"),
        (
            authority.pem.as_bytes(),
            vec![authority.pem.clone().into_bytes()],
            "revocation list 1 is not readable (the file holds 1 CERTIFICATE)",
        ),
        (
            authority.pem.as_bytes(),
            vec![authority.der.clone()],
            "revocation list 1",
        ),
    ] {
        let message = ClientTrust::from_pem(bundle, &crls)
            .unwrap_err()
            .to_string();
        assert!(message.contains(words), "{message:?} should say {words:?}");
    }
    let end = issued(&authority, parameters("shop.example", false));
    let odd = ClientTrust::from_pem(end.pem.as_bytes(), &[]).unwrap();
    assert_eq!(codes(&odd.findings(START)), ["not_an_authority"]);
}
