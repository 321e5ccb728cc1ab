//! The console: metrics and the snapshot.

use serde_json::Value;
use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server, get, http_get};
use crate::tools::{find, run};

fn served() -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend)
}

#[test]
fn requests_bytes_and_workers_add_up() {
    let (server, backend) = served();
    for _ in 0..10 {
        let mut connection = server.connect();
        connection.exchange(&get("/bytes/1000")).unwrap();
        connection.exchange(&get("/status/404")).unwrap();
    }
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_requests_total", &[]) >= 20.0));
    let metrics = server.metrics();
    let count = |name, labels: &[(&str, &str)]| {
        let sum = metrics.sum(name, labels);
        assert!(sum.fract() == 0.0);
        sum as u64
    };
    assert_eq!(
        count(
            "tollgate_requests_total",
            &[("code", "200"), ("site", "shop.test")]
        ),
        10
    );
    assert_eq!(count("tollgate_requests_total", &[("code", "404")]), 10);
    assert_eq!(count("tollgate_connections_total", &[]), 10);
    assert_eq!(count("tollgate_worker_accepted_total", &[]), 10);
    assert_eq!(count("tollgate_worker_handshakes_total", &[]), 10);
    assert_eq!(count("tollgate_worker_requests_total", &[]), 20);
    assert_eq!(metrics.series("tollgate_worker_accepted_total").len(), 2);
    assert_eq!(count("tollgate_handshake_seconds_count", &[]), 10);
    assert_eq!(count("tollgate_request_seconds_count", &[]), 20);
    assert!(count("tollgate_bytes_total", &[("site", "shop.test")]) >= 20_000);
    assert_eq!(backend.requests(), 20);
    assert!(count("tollgate_certificate_expiry_timestamp_seconds", &[]) > 1_700_000_000);
    assert_eq!(metrics.series("tollgate_build_info").len(), 1);
    assert_eq!(metrics.series("tollgate_config_info").len(), 1);
}

#[test]
fn the_snapshot_says_the_same_as_json() {
    let (server, _backend) = served();
    server.get("/").unwrap();
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_requests_total", &[]) >= 1.0));
    let text = http_get(server.place.console, "/snapshot.json").unwrap();
    let json: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert!(json.is_object(), "{json}");
}

#[test]
fn clients_cannot_make_series() {
    let (server, _backend) = served();
    let before = {
        server.get("/").unwrap();
        let _ = server.s_client(&["-servername", "first.unknown.test"], "");
        assert!(server.wait_metrics(|metrics| {
            metrics.sum("tollgate_handshake_failures_total", &[]) >= 1.0
        }));
        server.metrics().0.len()
    };
    for number in 0..10 {
        let _ = server.s_client(&["-servername", &format!("n{number}.unknown.test")], "");
        let mut connection = server.connect();
        let request = format!("M{number} /path{number} HTTP/1.1\r\nhost: x{number}.test\r\n\r\n");
        let _ = connection.exchange(&request);
        let _ = connection.exchange(&format!(
            "GET /status/20{number} HTTP/1.1\r\nhost: shop.test\r\n\r\n"
        ));
    }
    let after = server.metrics();
    let text: String = after
        .0
        .iter()
        .flat_map(|series| series.labels.iter().map(|(_, value)| format!("{value} ")))
        .collect();
    assert!(
        !text.contains("unknown.test") && !text.contains("path"),
        "{text}"
    );
    assert!(
        after.0.len() < before + 40,
        "{before} series became {}",
        after.0.len()
    );
}

#[test]
fn the_exposition_format_is_sound() {
    let (server, _backend) = served();
    server.get("/").unwrap();
    let text = http_get(server.place.console, "/metrics").unwrap();
    let mut described = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(
                described.insert(name.to_owned()),
                "{name} is described twice"
            );
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no help"
            );
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_total", "_bucket", "_sum", "_count", "_info"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            assert!(
                described.contains(name) || family.is_some_and(|family| described.contains(family)),
                "{name} has no type"
            );
        }
    }
    if let Some(promtool) = find("promtool") {
        let ran = run(
            std::process::Command::new(promtool).args(["check", "metrics"]),
            text.as_bytes(),
        );
        assert_eq!(ran.code, Some(0), "{}", ran.all());
    }
}

#[test]
fn the_console_answers_only_what_it_has() {
    let (server, _backend) = served();
    let port = server.place.console.to_string();
    let url = format!("http://127.0.0.1:{port}/nothing");
    let ran = run(
        std::process::Command::new("curl").args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &url,
        ]),
        b"",
    );
    assert_eq!(ran.out, "404", "{}", ran.all());
    let url = format!("http://127.0.0.1:{port}/metrics");
    let ran = run(
        std::process::Command::new("curl").args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{content_type}",
            &url,
        ]),
        b"",
    );
    assert!(ran.out.starts_with("200 "), "{}", ran.all());
}
