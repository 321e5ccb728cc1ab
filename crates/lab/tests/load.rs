//! Load runs against our own server role on 127.0.0.1: both ends must tell the same story.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at once"
)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_lab::{LoadError, LoadOptions, LoadResult, Mode, run};
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion, UnixTime};
use tollgate_tls::{
    Buffers, Certificate, ClientPolicy, Clock, Resumption, ResumptionSettings, ServerSite,
    SitePolicy, handshake, read_hello,
};
use zeroize::Zeroizing;

const HOUR: Duration = Duration::from_secs(3600);
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: ";

/// What the server has counted.
#[derive(Default)]
struct Seen {
    full: Cell<u64>,
    resumed: Cell<u64>,
}

fn site(lifetime: Duration) -> ServerSite {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = UnixTime(since.unwrap().as_secs());
    let material = KeyMaterial {
        name: [1; 16],
        secret: Zeroizing::new([2; 32]),
    };
    let ring = Ring::new(Lifetimes::new(24 * HOUR, 6 * HOUR).unwrap(), now, material);
    let settings = ResumptionSettings {
        tickets: true,
        lifetime,
        session_cache_entries: 0,
    };
    let certificates = [CertificateKind::EcdsaP256, CertificateKind::Rsa(2048)]
        .map(|kind| Arc::new(Certificate::self_signed(kind, &["localhost"]).unwrap()));
    let policy = SitePolicy {
        id: 1,
        certificates: certificates.to_vec(),
        client: ClientPolicy::Off,
        min_version: TlsVersion::Tls12,
        groups: Vec::new(),
        suites: Vec::new(),
        alpn: Vec::new(),
    };
    let resumption = Resumption::new(Clock::new(now), settings, &ring);
    ServerSite::new(policy, resumption).unwrap()
}

/// Serves `body` on an own port until the test is over.
async fn serve(site: ServerSite, body: usize) -> (String, Rc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Rc::new(Seen::default());
    let (site, counted, buffers) = (Rc::new(site), Rc::clone(&seen), Buffers::new());
    spawn_local(async move {
        loop {
            let (mut io, _) = listener.accept().await.unwrap();
            let (site, seen, buffers) = (Rc::clone(&site), Rc::clone(&counted), buffers.clone());
            spawn_local(async move {
                let (hello, raw) = read_hello(&mut io, &buffers).await.ok()?;
                let shaken = handshake(io, raw, &hello, &site, &buffers).await;
                let (mut stream, facts, _) = shaken.ok()?;
                let count = match facts.kind.is_resumed() {
                    true => &seen.resumed,
                    false => &seen.full,
                };
                count.set(count.get() + 1);
                let mut reply = format!("{HEAD}{body}\r\n\r\n").into_bytes();
                reply.resize(reply.len() + body, b'x');
                let mut request = [0; 1024];
                while stream.read(&mut request).await.ok()? > 0 {
                    stream.write_all(&reply).await.ok()?;
                }
                Some(())
            });
        }
    });
    (address, seen)
}

fn options(mode: Mode, address: &str) -> LoadOptions {
    LoadOptions {
        insecure: true,
        server_name: Some("localhost".into()),
        duration: Duration::from_millis(300),
        warm_up: Duration::from_millis(100),
        connections: 4,
        path: "/".into(),
        group: Some(NamedGroup::X25519),
        ..LoadOptions::new(mode, address)
    }
}

async fn in_set<T>(test: impl Future<Output = T>) -> T {
    LocalSet::new().run_until(test).await
}

fn share(result: &LoadResult) -> f64 {
    result.handshakes.resumed as f64 / (result.handshakes.full + result.handshakes.resumed) as f64
}

#[tokio::test(flavor = "current_thread")]
async fn the_share_of_resumed_handshakes_is_what_was_asked_for_in_either_version() {
    in_set(async {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            for hit_rate in [0.0, 0.5, 1.0] {
                let (address, seen) = serve(site(HOUR), 100).await;
                let result = run(LoadOptions {
                    hit_rate,
                    version: Some(version),
                    group: None,
                    ..options(Mode::Tps, &address)
                })
                .await
                .unwrap();
                assert!(result.reached(), "{version} {hit_rate}: {result}");
                assert!((share(&result) - hit_rate).abs() < 0.02, "{result}");
                assert!(result.operations > 10, "{result}");
                // The server has seen the warm-up as well.
                assert!(seen.resumed.get() >= result.handshakes.resumed);
                assert!(seen.full.get() >= result.handshakes.full);
                assert!(hit_rate > 0.0 || seen.resumed.get() == 0);
                assert!(
                    result
                        .handshakes
                        .kinds
                        .iter()
                        .all(|kind| kind.version == version.name())
                );
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_does_not_resume_makes_the_run_miss_its_regime() {
    in_set(async {
        let (address, seen) = serve(site(Duration::ZERO), 100).await;
        let result = run(LoadOptions {
            hit_rate: 1.0,
            ..options(Mode::Tps, &address)
        })
        .await
        .unwrap();
        assert!(!result.reached());
        assert!(result.missed[0].contains("0.000 was reached"), "{result}");
        assert_eq!(seen.resumed.get(), 0);
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn what_was_negotiated_is_reported_and_not_what_was_offered() {
    in_set(async {
        let (address, _) = serve(site(HOUR), 100).await;
        let result = run(LoadOptions {
            suite: Some(CipherSuite::TLS_AES_256_GCM_SHA384),
            rsa_only: true,
            ..options(Mode::Tps, &address)
        })
        .await
        .unwrap();
        let [kind] = &result.handshakes.kinds[..] else {
            panic!("{result}");
        };
        assert_eq!(kind.suite, "TLS_AES_256_GCM_SHA384");
        assert_eq!(kind.certificate, Some("rsa-2048"));
        assert_eq!(kind.group.as_deref(), Some("x25519"));
        assert_eq!(kind.signature.as_deref(), Some("rsa_pss_rsae_sha256"));
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn requests_share_their_connections_and_downloads_count_bytes() {
    in_set(async {
        let (address, seen) = serve(site(HOUR), 100).await;
        let result = run(options(Mode::Requests, &address)).await.unwrap();
        assert!(result.reached(), "{result}");
        assert!(result.operations > 10);
        // Four connections and the one that tries the server out.
        assert_eq!(seen.full.get(), 5);

        let (address, _) = serve(site(HOUR), 3_000_000).await;
        let result = run(options(Mode::Download, &address)).await.unwrap();
        assert!(result.reached(), "{result}");
        assert!(result.body_bytes > 3_000_000, "{result}");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn held_connections_are_open_at_the_end_and_the_watched_process_is_weighed() {
    in_set(async {
        let (address, _) = serve(site(HOUR), 100).await;
        let result = run(LoadOptions {
            count: 50,
            watch: vec![std::process::id()],
            ..options(Mode::Hold, &address)
        })
        .await
        .unwrap();
        assert!(result.reached(), "{result}");
        assert_eq!(result.operations, 50);
        let server = result.server.unwrap();
        assert!(server.memory_bytes_after > 1_000_000);
        assert!(server.memory_bytes_per_connection.is_some());
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn an_open_loop_starts_as_many_operations_as_it_was_told() {
    in_set(async {
        let (address, _) = serve(site(HOUR), 100).await;
        let result = run(LoadOptions {
            rate: Some(100.0),
            duration: Duration::from_secs(1),
            ..options(Mode::Tps, &address)
        })
        .await
        .unwrap();
        assert!((80..=120).contains(&result.operations), "{result}");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_run_that_cannot_begin_says_why() {
    let nobody = run(options(Mode::Tps, "127.0.0.1:1")).await;
    assert!(matches!(nobody, Err(LoadError::Unreachable { .. })));
    let rate = run(LoadOptions {
        hit_rate: 1.5,
        ..options(Mode::Tps, "127.0.0.1:1")
    });
    assert!(matches!(rate.await, Err(LoadError::HitRate(_))));
    let watch = run(LoadOptions {
        watch: vec![u32::MAX],
        ..options(Mode::Tps, "127.0.0.1:1")
    });
    assert!(matches!(watch.await, Err(LoadError::Watch(u32::MAX))));
    let alpn = run(LoadOptions {
        alpn: vec!["h3".into()],
        ..options(Mode::Tps, "127.0.0.1:1")
    });
    assert!(matches!(alpn.await, Err(LoadError::Alpn(_))));
    let target = run(options(Mode::Tps, "localhost")).await;
    assert!(matches!(target, Err(LoadError::Target(_))));
}
