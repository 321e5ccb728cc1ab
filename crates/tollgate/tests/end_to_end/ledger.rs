//! The ledger: what a serving instance says that TLS takes of it, set beside what the kernel says and
//! beside what was done to it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::{
    Address, Backend, Client, Offer, TlsConnection, http_backend, tcp_echo_backend,
};

use crate::load_modes::{load, reached};
use crate::server::{Metrics, Place, Server, get};
use crate::tools::{eventually, run};

const PHASES: &str = "tollgate_cpu_seconds_total";
const BY_HANDSHAKE: &str = "tollgate_handshake_cpu_seconds_total";
const HELD: &str = "tollgate_connection_memory_bytes";

/// A server in front of a backend that answers, with one worker and `more` lines of configuration.
fn served(mode: &str, more: &str) -> (Server, Backend) {
    let backend = match mode {
        "http" => http_backend(&Address::Loopback, None, "one", false),
        _ => tcp_echo_backend(&Address::Loopback, None, false),
    };
    let place = Place::new();
    let scheme = if mode == "http" { "http://" } else { "" };
    let mut config = place.config(mode, &[&format!("{scheme}{}", backend.address())]);
    config.push_str("workers: { count: 1 }\n");
    config.push_str(more);
    (Server::start(place, &config), backend)
}

/// CPU time that the kernel has counted for the worker threads of a process, in seconds.
fn kernel_seconds(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = tasks.flatten().filter_map(|task| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(Path::new(name)));
        if !read("comm").ok()?.starts_with("worker-") {
            return None;
        }
        let times = read("schedstat").ok()?;
        times.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e9
}

/// What grew between two looks.
fn growth(before: &Metrics, after: &Metrics, name: &str, labels: &[(&str, &str)]) -> f64 {
    after.sum(name, labels) - before.sum(name, labels)
}

/// Metrics that show so many handshakes at least: those of the latest second may not show at once.
fn metrics_after(server: &Server, handshakes: f64) -> Metrics {
    let mut metrics = Metrics::default();
    let seen = eventually(Duration::from_secs(10), || {
        metrics = server.metrics();
        metrics.sum("tollgate_handshakes_total", &[]) >= handshakes
            && metrics.sum("tollgate_connections", &[]) < 0.5
    });
    assert!(seen, "{:?}", metrics.series("tollgate_handshakes_total"));
    metrics
}

#[test]
fn phases_and_the_rest_make_the_cpu_time_of_the_workers() {
    let (server, _backend) = served("http", "");
    let target = server.address().to_string();
    let loads = [
        ("tps", "-c 8"),
        ("tps", "-c 8 --tls12 --hit-rate 0.9"),
        ("requests", "-c 8"),
        ("download", "-c 2 --path /bytes/1000000"),
    ];
    for (mode, more) in loads {
        let before = server.metrics();
        let kernel_before = kernel_seconds(server.pid());
        let more = format!("--insecure {more} --duration 2s --warm-up 0s");
        reached(&load(&server.place, mode, &target, &more));
        // The counts are taken once a second; what came in the last one must be in both.
        let settled = eventually(Duration::from_secs(10), || {
            let counted = growth(
                &before,
                &server.metrics(),
                "tollgate_worker_cpu_seconds_total",
                &[],
            );
            let kernel = kernel_seconds(server.pid()) - kernel_before;
            (counted - kernel).abs() <= 0.02 * kernel
        });
        assert!(settled, "{mode} {more}: the kernel's own counts differ");
        let after = server.metrics();
        let all = growth(&before, &after, "tollgate_worker_cpu_seconds_total", &[]);
        let told = growth(&before, &after, PHASES, &[]);
        assert!(all > 0.05, "{mode}: {all} s is no load");
        assert!(
            (told - all).abs() <= 0.05 * all,
            "{mode} {more}: the phases tell of {told:.3} s, the kernel of {all:.3} s: {:?}",
            after.series(PHASES)
        );
        let tls = told - growth(&before, &after, PHASES, &[("phase", "not_tls")]);
        assert!(tls > 0.0 && tls < told, "{mode}: {tls} of {told}");
    }
}

#[test]
fn a_full_handshake_with_rsa_pays_for_its_signature_and_a_resumed_one_does_not() {
    let (server, _backend) = served("http", "");
    let target = server.address().to_string();
    let more = "--insecure --tls13 --groups x25519 --rsa-only --hit-rate 0.5 -c 2 --operations 400 --duration 60s";
    reached(&load(&server.place, "tps", &target, more));
    let metrics = metrics_after(&server, 400.0);
    let each = |kind: &str, phase: &str| {
        let spent = metrics.sum(BY_HANDSHAKE, &[("kind", kind), ("phase", phase)]);
        spent / metrics.sum("tollgate_handshakes_total", &[("kind", kind)])
    };
    let (full, resumed) = (each("full", "asymmetric"), each("resumed", "asymmetric"));
    assert!(resumed > 0.0, "TLS 1.3 exchanges keys when it resumes");
    assert!(full > 3.0 * resumed, "{full} s against {resumed} s");
    assert!(each("full", "derivation") > 0.0 && each("resumed", "derivation") > 0.0);
    let share = full / (full + each("full", "derivation"));
    assert!((0.5..1.0).contains(&share), "{share}");
    // What the series of handshakes tell is in the phases, to the last nanosecond but for float sums.
    for phase in ["asymmetric", "derivation"] {
        let told = metrics.sum(BY_HANDSHAKE, &[("phase", phase)]);
        let all = metrics.sum(PHASES, &[("phase", phase)]);
        assert!(
            told <= all * 1.000_001 && told > 0.9 * all,
            "{phase}: {told} of {all}"
        );
    }
    let sealed = [("direction", "sealed"), ("suite", "TLS_AES_128_GCM_SHA256")];
    assert!(metrics.sum("tollgate_records_total", &sealed) >= 400.0);
    assert!(metrics.sum("tollgate_record_bytes_total", &sealed) > 0.0);
    assert!(metrics.sum("tollgate_record_cpu_seconds_total", &sealed) > 0.0);
}

#[test]
fn a_handshake_that_fails_is_paid_for_without_being_one() {
    let (server, _backend) = served("http", "");
    for _ in 0..5 {
        let mut command = Command::new("curl");
        // It does not trust the authority, and says so once it has seen the certificate.
        command.args(["-sS", "--max-time", "30"]);
        command.arg(format!("https://{}/", server.address()));
        assert_eq!(run(&mut command, b"").code, Some(60));
    }
    assert!(
        server.wait_metrics(|metrics| {
            metrics.sum("tollgate_handshake_failures_total", &[]) > 4.5
                && metrics.sum(PHASES, &[("phase", "asymmetric")]) > 0.0
        }),
        "{:?}",
        server.metrics()
    );
    let metrics = server.metrics();
    assert!(metrics.sum(PHASES, &[("phase", "derivation")]) > 0.0);
    assert!(metrics.sum("tollgate_handshakes_total", &[]) < 0.5);
    assert!(metrics.sum(BY_HANDSHAKE, &[]) == 0.0);
}

/// A connection on which one request was answered, so that its ticket has come.
fn visited(client: &Client, server: &Server) -> TlsConnection {
    let mut connection = client.connect(server.address(), "shop.test").unwrap();
    let answer = connection.exchange(&get("/status/200")).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    connection
}

#[test]
fn a_ticket_of_another_node_shows_the_name_of_its_key_and_an_own_one_its_age() {
    let (near, _first) = served("http", "");
    let other = Place::new();
    near.place
        .authority
        .server(tollgate_testkit::LeafKind::EcdsaP256, &crate::server::NAMES)
        .write(&other.folder, "ecdsa");
    let backend = http_backend(&Address::Loopback, None, "two", false);
    let mut config = other.config("http", &[&format!("http://{}", backend.address())]);
    config.push_str("workers: { count: 1 }\n");
    let far = Server::start(other, &config);
    // A worker tells a name from the eighth time on.
    for turn in 0..10 {
        let client = near.client(&Offer {
            tls12: turn % 2 == 0,
            resume: true,
            ..Offer::default()
        });
        assert!(!visited(&client, &near).resumed());
        assert!(visited(&client, &near).resumed());
        assert!(!visited(&client, &far).resumed());
    }
    let reason = [("reason", "unknown_key")];
    let counts = |metrics: &Metrics, name: &str, labels: &[(&str, &str)]| {
        (metrics.sum(name, labels) - 10.0).abs() < 0.5
    };
    assert!(far.wait_metrics(|metrics| {
        counts(metrics, "tollgate_unknown_ticket_keys_total", &[])
            && counts(metrics, "tollgate_resumption_misses_total", &reason)
    }));
    let metrics = far.metrics();
    let keys = metrics.series("tollgate_unknown_ticket_keys_total");
    let named: Vec<&str> = keys.iter().map(|series| series.label("key")).collect();
    let named: Vec<&&str> = named.iter().filter(|name| **name != "other").collect();
    assert!(
        matches!(named.as_slice(), [name] if name.len() == 32
            && name.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "all tickets were made with one key: {keys:?}"
    );

    assert!(near.wait_metrics(|metrics| counts(metrics, "tollgate_ticket_age_seconds_count", &[])));
    let metrics = near.metrics();
    let buckets = metrics.series("tollgate_ticket_age_seconds_bucket");
    // The test takes no ten minutes from one connection to the next.
    let young = buckets.iter().filter(|bucket| {
        let bound = bucket.label("le").parse::<f64>();
        bound.is_ok_and(|bound| (600.0..7_000.0).contains(&bound))
    });
    assert!(young.clone().count() > 0, "{buckets:?}");
    assert!(
        young
            .clone()
            .all(|bucket| (bucket.value - 10.0).abs() < 0.5)
    );
    assert!(metrics.sum("tollgate_resumption_look_ups_total", &[]) > 1.5);
    assert!(metrics.sum("tollgate_resumption_look_up_seconds_total", &[]) > 0.0);
    assert!(metrics.sum("tollgate_tickets_issued_total", &[]) > 1.5);
    let size = metrics.sum("tollgate_ticket_bytes_total", &[])
        / metrics.sum("tollgate_tickets_issued_total", &[]);
    assert!((100.0..2_000.0).contains(&size), "{size} bytes each");
}

#[test]
fn held_connections_hold_bytes_each_in_its_mode_and_none_when_they_are_gone() {
    const CONNECTIONS: usize = 100;
    for mode in ["http", "tcp"] {
        let (server, _backend) = served(mode, "");
        let client = server.client(&Offer::default());
        let held: Vec<TlsConnection> = (0..CONNECTIONS)
            .map(|_| match mode {
                "http" => visited(&client, &server),
                _ => client.connect(server.address(), "shop.test").unwrap(),
            })
            .collect();
        let open = |metrics: &Metrics| {
            let open = metrics.sum("tollgate_connections", &[("mode", mode)]);
            (open - CONNECTIONS as f64).abs() < 0.5
        };
        assert!(server.wait_metrics(open));
        let each = |metrics: &Metrics| metrics.sum(HELD, &[("mode", mode)]) / CONNECTIONS as f64;
        // What the cryptographic library takes beside its keys is not in it; see docs.
        assert!(
            server.wait_metrics(|metrics| (1_000.0..12_000.0).contains(&each(metrics))),
            "{mode}: {} bytes each",
            each(&server.metrics())
        );
        let shaking = server.metrics().sum(HELD, &[("mode", "handshake")]);
        assert!(
            shaking.abs() < 1_000.0,
            "{mode}: {shaking} bytes in handshakes"
        );
        drop(held);
        assert!(
            server.wait_metrics(|metrics| {
                metrics.sum("tollgate_connections", &[]) < 0.5
                    && metrics.series(HELD).iter().all(|held| held.value == 0.0)
            }),
            "{mode}: {:?}",
            server.metrics().series(HELD)
        );
        let lived = [("mode", mode)];
        let lifetimes = server.metrics();
        let ended = lifetimes.sum("tollgate_connection_lifetime_seconds_count", &lived);
        assert!((ended - CONNECTIONS as f64).abs() < 0.5, "{mode}: {ended}");
    }
}

#[test]
fn a_connection_that_is_kept_busy_does_not_seem_to_grow() {
    let (server, _backend) = served("http", "");
    let mut connection = visited(&server.client(&Offer::default()), &server);
    let one = [("mode", "http")];
    assert!(server.wait_metrics(|metrics| metrics.sum(HELD, &one) > 0.0));
    let first = server.metrics().sum(HELD, &one);
    const REQUESTS: usize = 500;
    for _ in 0..REQUESTS {
        connection.exchange(&get("/bytes/1000")).unwrap();
    }
    let done = |metrics: &Metrics| metrics.sum("tollgate_requests_total", &[]) > REQUESTS as f64;
    assert!(server.wait_metrics(done));
    // Each wrote a line of some 700 bytes, which another thread frees.
    let now = server.metrics().sum(HELD, &one);
    assert!(
        (now - first).abs() < 20.0 * REQUESTS as f64,
        "{first} bytes have become {now}"
    );
    drop(connection);
    assert!(server.wait_metrics(|metrics| {
        metrics.sum("tollgate_requests_per_connection_sum", &[]) > REQUESTS as f64
    }));
}

#[test]
fn the_ledger_can_be_switched_off_and_on_again() {
    let (server, _backend) = served("http", "ledger: off\n");
    let client = server.client(&Offer::default());
    let connection = visited(&client, &server);
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_handshakes_total", &[]) > 0.5));
    let metrics = server.metrics();
    for name in [PHASES, BY_HANDSHAKE, HELD, "tollgate_records_total"] {
        assert!(metrics.sum(name, &[]) == 0.0, "{:?}", metrics.series(name));
    }
    drop(connection);
    let config = server.place.folder.read("tls.yaml");
    let on = config.replace("ledger: off", "ledger: on");
    assert_eq!(server.reload(&on).as_deref(), Some("succeeded"));
    drop(visited(&client, &server));
    assert!(server.wait_metrics(|metrics| {
        metrics.sum(PHASES, &[("phase", "asymmetric")]) > 0.0
            && metrics.sum("tollgate_records_total", &[]) > 0.5
    }));
}
