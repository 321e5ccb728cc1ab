//! The client role against our own server role, over in-memory pairs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at once"
)]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeFacts, HandshakeKind, NamedGroup, ResumptionMiss,
    SignatureScheme, TlsVersion, UnixTime,
};
use tollgate_testkit::{Authority, LeafKind, Validity};
use tollgate_tls::client::{ClientOffer, Intent, connect_as};
use tollgate_tls::{
    BackendTlsPolicy, Buffers, Certificate, ClientPolicy, ClientSite, ClientTrust, Clock, Failure,
    FailureReason, Resumption, ResumptionSettings, ServerSite, SitePolicy, handshake, read_hello,
};
use zeroize::Zeroizing;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.unwrap().as_secs())
}

struct Bench {
    authority: Authority,
    site: ServerSite,
    buffers: Buffers,
}

impl Bench {
    fn new(client: impl FnOnce(&Authority) -> ClientPolicy) -> Self {
        let authority = Authority::new("bench");
        let certificates = [LeafKind::EcdsaP256, LeafKind::Rsa2048]
            .map(|kind| authority.server(kind, &["app.test", "127.0.0.1"]))
            .map(|leaf| {
                Certificate::from_pem(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes()).unwrap()
            })
            .map(Arc::new);
        let ring = Ring::new(
            Lifetimes::new(24 * HOUR, 6 * HOUR).unwrap(),
            now(),
            KeyMaterial {
                name: [7; 16],
                secret: Zeroizing::new([9; 32]),
            },
        );
        let settings = ResumptionSettings {
            tickets: true,
            lifetime: HOUR,
            session_cache_entries: 16,
        };
        let policy = SitePolicy {
            id: 1,
            certificates: certificates.to_vec(),
            client: client(&authority),
            min_version: TlsVersion::Tls12,
            groups: Vec::new(),
            suites: Vec::new(),
            alpn: vec!["h2".into(), "http/1.1".into()],
        };
        let resumption = Resumption::new(Clock::new(now()), settings, &ring);
        Self {
            site: ServerSite::new(policy, resumption).unwrap(),
            authority,
            buffers: Buffers::new(),
        }
    }

    fn plain() -> Self {
        Self::new(|_| ClientPolicy::Off)
    }

    fn offer(&self) -> ClientOffer {
        ClientOffer {
            sessions: 4,
            ..ClientOffer::new(BackendTlsPolicy {
                verify: true,
                name: "app.test".into(),
                ca: Some(self.authority.root_pem().into_bytes()),
                certificate: None,
                alpn: vec!["http/1.1".into()],
            })
        }
    }

    /// Shakes hands and exchanges one message each way: what the client and the server say it was.
    async fn talk(
        &self,
        client: &ClientSite,
        intent: Intent,
    ) -> Result<(HandshakeFacts, Option<HandshakeFacts>), Failure> {
        let (near, mut far) = duplex(64 * 1024);
        let serve = async {
            let (hello, raw) = read_hello(&mut far, &self.buffers).await.ok()?;
            let shaken = handshake(far, raw, &hello, &self.site, &self.buffers).await;
            let (mut stream, facts, _) = shaken.ok()?;
            let mut question = [0; 4];
            stream.read_exact(&mut question).await.ok()?;
            stream.write_all(&question).await.ok()?;
            stream.shutdown().await.ok()?;
            Some(facts)
        };
        let ask = async {
            let (mut stream, facts) = connect_as(near, client, intent, &self.buffers).await?;
            stream.write_all(b"ping").await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            assert_eq!(answer, b"ping");
            Ok::<_, std::io::Error>(facts)
        };
        let (served, asked) = tokio::join!(serve, ask);
        match asked {
            Ok(facts) => Ok((facts, served)),
            Err(error) => Err(error.downcast::<Failure>().unwrap()),
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_backend_with_a_trusted_certificate_is_spoken_to() {
    let bench = Bench::plain();
    let client = ClientSite::new(bench.offer().policy).unwrap();
    let (facts, served) = bench.talk(&client, Intent::Resume).await.unwrap();
    assert_eq!(facts.kind, HandshakeKind::Full);
    assert_eq!(facts.miss, Some(ResumptionMiss::NothingOffered));
    assert_eq!(facts.version, TlsVersion::Tls13);
    assert_eq!(facts.suite, CipherSuite::TLS_AES_128_GCM_SHA256);
    assert_eq!(facts.group, Some(NamedGroup::X25519MLKEM768));
    assert_eq!(facts.certificate, Some(CertificateKind::EcdsaP256));
    assert_eq!(
        facts.signature,
        Some(SignatureScheme::ECDSA_SECP256R1_SHA256)
    );
    assert_eq!(facts.alpn.as_deref(), Some("http/1.1"));
    let served = served.unwrap();
    assert_eq!(served.kind, facts.kind);
    assert_eq!(served.server_name, facts.server_name);
}

#[tokio::test(flavor = "current_thread")]
async fn both_ends_agree_on_what_was_resumed_in_either_version() {
    let bench = Bench::plain();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let client = ClientSite::offering(ClientOffer {
            version: Some(version),
            ..bench.offer()
        })
        .unwrap();
        for (intent, resumed) in [
            (Intent::Resume, false),
            (Intent::Resume, true),
            (Intent::Resume, true),
            (Intent::Full, false),
            (Intent::Resume, true),
        ] {
            let (facts, served) = bench.talk(&client, intent).await.unwrap();
            assert_eq!(facts.version, version);
            assert_eq!(facts.kind.is_resumed(), resumed, "{version} {intent:?}");
            assert_eq!(served.unwrap().kind.is_resumed(), resumed);
            assert_eq!(facts.certificate.is_some(), !resumed);
            assert_eq!(facts.signature.is_some(), !resumed);
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn no_more_tickets_are_kept_than_allowed() {
    let bench = Bench::plain();
    let client = ClientSite::offering(ClientOffer {
        sessions: 2,
        ..bench.offer()
    })
    .unwrap();
    for _ in 0..5 {
        bench.talk(&client, Intent::Full).await.unwrap();
    }
    assert_eq!(client.sessions(), 2);
}

#[tokio::test(flavor = "current_thread")]
async fn a_forced_offer_is_what_is_negotiated() {
    let bench = Bench::plain();
    let forced = [
        (
            CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
            NamedGroup::SECP256R1,
            false,
        ),
        (
            CipherSuite::TLS_AES_256_GCM_SHA384,
            NamedGroup::X25519,
            true,
        ),
        (
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            NamedGroup::SECP384R1,
            false,
        ),
    ];
    for (suite, group, rsa_only) in forced {
        let client = ClientSite::offering(ClientOffer {
            suites: vec![suite],
            groups: vec![group],
            schemes: match rsa_only {
                true => ClientOffer::rsa_only_schemes(),
                false => Vec::new(),
            },
            ..bench.offer()
        })
        .unwrap();
        let (facts, _) = bench.talk(&client, Intent::Full).await.unwrap();
        assert_eq!(facts.suite, suite);
        assert_eq!(facts.group, Some(group));
        let rsa = rsa_only || suite.name().contains("RSA_WITH") && !suite.name().contains("ECDSA");
        assert_eq!(
            facts.certificate == Some(CertificateKind::Rsa(2048)),
            rsa,
            "{suite}"
        );
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_untrusted_backend_is_refused_and_a_wrong_name_too() {
    let bench = Bench::plain();
    let stranger = Authority::new("stranger").root_pem().into_bytes();
    for (name, ca, reason) in [
        (
            "app.test",
            stranger,
            FailureReason::CertificateUnknownIssuer,
        ),
        (
            "other.test",
            bench.authority.root_pem().into_bytes(),
            FailureReason::CertificateWrongName,
        ),
    ] {
        let mut policy = bench.offer().policy;
        policy.name = name.into();
        policy.ca = Some(ca);
        let client = ClientSite::new(policy).unwrap();
        let failure = bench.talk(&client, Intent::Resume).await.unwrap_err();
        assert_eq!(failure.reason(), reason);
        assert_eq!(failure.culprit().name(), "backend");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn without_verification_any_certificate_will_do_and_an_address_is_a_name() {
    let bench = Bench::plain();
    let mut policy = bench.offer().policy;
    policy.verify = false;
    policy.ca = None;
    for name in ["other.test", "127.0.0.1", "::1"] {
        policy.name = name.into();
        let client = ClientSite::new(policy.clone()).unwrap();
        let (facts, _) = bench.talk(&client, Intent::Resume).await.unwrap();
        assert_eq!(facts.kind, HandshakeKind::Full);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_address_is_checked_in_the_certificate() {
    let bench = Bench::plain();
    let mut policy = bench.offer().policy;
    policy.name = "127.0.0.1".into();
    let client = ClientSite::new(policy).unwrap();
    bench.talk(&client, Intent::Resume).await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_certificate_is_shown_to_a_backend_that_wants_one() {
    let required = |authority: &Authority| {
        let trust = ClientTrust::from_pem(authority.root_pem().as_bytes(), &[]).unwrap();
        ClientPolicy::Required(Arc::new(trust))
    };
    let bench = Bench::new(required);
    let leaf = bench.authority.client("gate", Validity::Now);
    let shown = Certificate::from_pem(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes()).unwrap();

    let mut policy = bench.offer().policy;
    let bare = ClientSite::new(policy.clone()).unwrap();
    let failure = bench.talk(&bare, Intent::Resume).await.unwrap_err();
    assert_eq!(
        failure.reason().name(),
        "alert_received_certificate_required"
    );

    policy.certificate = Some(Arc::new(shown));
    let client = ClientSite::new(policy).unwrap();
    for resumed in [false, true] {
        let (facts, served) = bench.talk(&client, Intent::Resume).await.unwrap();
        assert_eq!(facts.kind.is_resumed(), resumed);
        assert_eq!(served.unwrap().client.unwrap().common_name, "gate");
    }
}

#[test]
fn an_offer_that_cannot_be_made_says_why() {
    let policy = BackendTlsPolicy {
        verify: true,
        name: "app.test".into(),
        ca: None,
        certificate: None,
        alpn: Vec::new(),
    };
    let without_roots = ClientSite::new(policy.clone()).err().unwrap();
    assert!(without_roots.to_string().contains("certificate authority"));
    let bad_name = BackendTlsPolicy {
        verify: false,
        name: "not a name".into(),
        ..policy
    };
    let bad_name = ClientSite::new(bad_name).err().unwrap();
    assert!(bad_name.to_string().contains("\"not a name\""));
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_talks_nonsense_or_leaves_is_a_failure_of_the_backend() {
    let bench = Bench::plain();
    let client = ClientSite::new(bench.offer().policy).unwrap();
    for (reply, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "bad_message"),
        (b"", "closed"),
        (
            b"\x15\x03\x03\x00\x02\x02\x28",
            "alert_received_handshake_failure",
        ),
    ] {
        let (near, mut far) = duplex(16 * 1024);
        let serve = async {
            let mut hello = [0; 5];
            far.read_exact(&mut hello).await.unwrap();
            far.write_all(reply).await.unwrap();
            drop(far);
        };
        let ask = connect_as(near, &client, Intent::Resume, &bench.buffers);
        let ((), asked) = tokio::join!(serve, ask);
        let failure = asked.err().unwrap();
        assert_eq!(failure.reason().name(), reason);
        assert_eq!(failure.culprit().name(), "backend");
    }
}
