//! Findings from connections that are made up here.

use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeKind, NamedGroup, ResumptionMethod, TlsVersion, UnixTime,
};

use super::super::verdict::{Finding, Worth, ordered, sentence};
use super::super::{
    CertificateReport, Chain, Connection, EarlyDataOutcome, INITIAL_WINDOW_BYTES, Profile,
    RoundTrips, StapleReport, Ticket,
};
use super::{Pair, Seen, rules};

const NOW: UnixTime = UnixTime(1_800_000_000);
const DAY: u64 = 86_400;

fn certificate(subject: &str, issuer: &str) -> CertificateReport {
    CertificateReport {
        subject: subject.into(),
        issuer: issuer.into(),
        key: "ECDSA P-256".into(),
        serial: "01".into(),
        names: vec!["shop.test".into()],
        bytes: 500,
        key_bytes: 65,
        signature_bytes: 71,
        not_before_seconds: NOW.0 - DAY,
        not_after_seconds: NOW.0 + 60 * DAY,
        self_issued: subject == issuer,
        authority: subject != "CN=shop.test",
    }
}

fn chain(certificates: Vec<CertificateReport>) -> Option<Chain> {
    let bytes = certificates.iter().map(|one| one.bytes).sum();
    Some(Chain {
        certificates,
        bytes,
    })
}

/// A good full connection at 10 ms distance, which took 100 ms in all.
fn connection(version: TlsVersion) -> Connection {
    Connection {
        timestamp_us: 0,
        name: "initial".into(),
        target: "shop.test".into(),
        endpoint: "192.0.2.1:443".into(),
        refused_endpoints: Vec::new(),
        server_name: "shop.test".into(),
        verified: true,
        sent_early_data: false,
        early_data_accepted: false,
        early_data: EarlyDataOutcome::NotAttempted,
        early_data_reason: None,
        connect_time_ms: 10.0,
        start_tls_time_ms: None,
        handshake_time_ms: 12.0,
        kind: HandshakeKind::Full,
        hello_retry_request: false,
        resumption_miss: None,
        version,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        alpn: None,
        named_group: Some(NamedGroup::X25519MLKEM768),
        signature_scheme: None,
        certificate_kind: Some(CertificateKind::EcdsaP256),
        chain: chain(vec![
            certificate("CN=shop.test", "CN=between"),
            certificate("CN=between", "CN=root"),
        ]),
        server_flight_bytes: 2000,
        initial_window_bytes: INITIAL_WINDOW_BYTES,
        initial_window_advice: None,
        staple: None,
        tickets: vec![Ticket {
            lifetime_seconds: DAY,
            bytes: 200,
            early_data_bytes: 16_384,
        }],
        ja4: None,
        round_trips: RoundTrips::default(),
        round_trips_total: 3,
        request_time_ms: Some(78.0),
        first_line: Some("HTTP/1.1 200 OK".into()),
        contents: None,
        total_time_ms: 100.0,
    }
}

fn resumed(version: TlsVersion) -> Connection {
    Connection {
        kind: HandshakeKind::Resumed(ResumptionMethod::Ticket),
        chain: None,
        ..connection(version)
    }
}

fn pair(version: TlsVersion) -> Pair {
    Pair {
        full: connection(version),
        resumed: Some(resumed(version)),
    }
}

/// A server that leaves nothing to wish for.
fn good() -> Seen {
    let early = Connection {
        early_data: EarlyDataOutcome::Accepted,
        ..resumed(TlsVersion::Tls13)
    };
    let profiles = Profile::ALL.iter().map(|profile| {
        let given = Connection {
            suite: profile.suites[0],
            ..connection(profile.version.unwrap_or(TlsVersion::Tls13))
        };
        (profile, Ok(given))
    });
    Seen {
        untrusted: None,
        tls13: Ok(pair(TlsVersion::Tls13)),
        tls12: Ok(pair(TlsVersion::Tls12)),
        early: Some(early),
        profiles: profiles.collect(),
    }
}

fn findings(change: impl FnOnce(&mut Seen)) -> Vec<Finding> {
    let mut seen = good();
    change(&mut seen);
    ordered(rules::findings(&seen, NOW))
}

/// What the only finding is called, and what it is worth.
fn only(change: impl FnOnce(&mut Seen)) -> (&'static str, Worth) {
    let findings = findings(change);
    assert_eq!(findings.len(), 1, "{findings:?}");
    (findings[0].id, findings[0].worth)
}

fn full(seen: &mut Seen) -> &mut Connection {
    &mut seen
        .tls13
        .as_mut()
        .unwrap_or_else(|reason| panic!("{reason}"))
        .full
}

fn profile<'s>(seen: &'s mut Seen, name: &str) -> &'s mut Result<Connection, String> {
    let mut profiles = seen.profiles.iter_mut();
    let named = profiles.find(|(profile, _)| profile.name == name);
    &mut named.unwrap().1
}

#[test]
fn a_server_that_does_everything_has_no_findings() {
    assert_eq!(findings(|_| ()), []);
    assert!(sentence(&findings(|_| ())).starts_with("Nothing to do"));
}

#[test]
fn a_round_trip_is_weighed_against_the_whole_wait() {
    let no_early = |seen: &mut Seen| {
        seen.early = Some(resumed(TlsVersion::Tls13));
    };
    let (id, worth) = only(no_early);
    assert_eq!(id, "no_early_data");
    let Worth::Saving {
        saving_seconds,
        saving_share,
    } = worth
    else {
        panic!("{worth:?}");
    };
    assert!((saving_seconds - 0.010).abs() < 1e-9);
    assert!((saving_share - 0.10).abs() < 1e-9);
    let verdict = sentence(&findings(no_early));
    assert!(
        verdict.starts_with("Not worth it") && verdict.contains("10 %"),
        "{verdict}"
    );

    // Where the response is fast, the same round trip is worth it.
    let verdict = sentence(&findings(|seen| {
        let early = Connection {
            total_time_ms: 35.0,
            ..resumed(TlsVersion::Tls13)
        };
        seen.early = Some(early);
    }));
    assert!(verdict.starts_with("Worth it: 1 change"), "{verdict}");
}

#[test]
fn what_a_server_lacks_is_named() {
    let id = |change: fn(&mut Seen)| only(change).0;
    assert_eq!(
        id(|seen| {
            seen.tls13 = Err("no".into());
            seen.early = None;
        }),
        "no_tls13"
    );
    assert_eq!(
        id(|seen| seen.tls12.as_mut().unwrap().resumed = None),
        "no_resumption_tls12"
    );
    assert_eq!(
        id(|seen| seen.tls13.as_mut().unwrap().resumed = None),
        "no_resumption_tls13"
    );
    assert_eq!(
        id(|seen| full(seen).initial_window_advice = Some("trim it".into())),
        "first_flight"
    );
    assert_eq!(
        id(|seen| full(seen).tickets[0].lifetime_seconds = 300),
        "ticket_short"
    );
}

#[test]
fn faults_of_certificates_and_staples_are_faults_whatever_they_cost() {
    let fault = |change: fn(&mut Seen)| {
        let (id, worth) = only(change);
        assert_eq!(worth, Worth::Fault, "{id}");
        id
    };
    assert_eq!(
        fault(|seen| seen.untrusted = Some("expired".into())),
        "certificate_refused"
    );
    assert_eq!(
        fault(|seen| {
            let chain = full(seen).chain.as_mut().unwrap();
            chain.certificates[0].not_after_seconds = NOW.0 + 3 * DAY;
        }),
        "certificate_expires"
    );
    assert_eq!(
        fault(|seen| {
            full(seen).chain = chain(vec![
                certificate("CN=shop.test", "CN=between"),
                certificate("CN=stranger", "CN=other"),
            ]);
        }),
        "chain_order"
    );
    assert_eq!(
        fault(|seen| {
            full(seen).staple = Some(StapleReport {
                bytes: 500,
                status: "revoked",
                revoked_seconds: None,
                this_update_seconds: None,
                next_update_seconds: None,
                problem: None,
            });
        }),
        "staple"
    );
    assert_eq!(
        fault(|seen| full(seen).tickets[0].lifetime_seconds = 8 * DAY),
        "ticket_too_long"
    );
}

#[test]
fn a_root_that_is_sent_along_is_told_of_with_its_bytes() {
    let findings = findings(|seen| {
        full(seen).chain = chain(vec![
            certificate("CN=shop.test", "CN=root"),
            certificate("CN=root", "CN=root"),
        ]);
    });
    assert_eq!(findings[0].id, "root_included");
    assert!(
        findings[0].what.contains("500 bytes"),
        "{}",
        findings[0].what
    );
}

#[test]
fn what_clients_are_given_is_judged_by_what_they_asked_for() {
    let id = |change: fn(&mut Seen)| only(change).0;
    assert_eq!(
        id(|seen| {
            let phone = profile(seen, "phone-without-aes").as_mut().unwrap();
            phone.suite = CipherSuite::TLS_AES_128_GCM_SHA256;
        }),
        "no_chacha20"
    );
    assert_eq!(
        id(|seen| {
            let browser = profile(seen, "browser").as_mut().unwrap();
            browser.named_group = Some(NamedGroup::X25519);
        }),
        "no_post_quantum"
    );
    assert_eq!(
        id(|seen| {
            let browser = profile(seen, "browser").as_mut().unwrap();
            browser.hello_retry_request = true;
        }),
        "hello_retry_request"
    );
    assert_eq!(
        id(|seen| *profile(seen, "rsa-only") = Err("refused".into())),
        "client_shut_out"
    );
    assert_eq!(
        id(|seen| {
            let browser = profile(seen, "browser").as_mut().unwrap();
            browser.certificate_kind = Some(CertificateKind::Rsa(2048));
        }),
        "rsa_certificate"
    );
}
