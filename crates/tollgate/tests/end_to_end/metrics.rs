//! The console: metrics and the snapshot.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, Backend, Client, Offer, http_backend};

use crate::load_modes::{load, reached};
use crate::server::{Place, Server, get, http_get};
use crate::tools::{eventually, find, run};

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

/// `/live.json`, once it fulfils `condition`.
fn live_when(server: &Server, condition: impl Fn(&Value) -> bool) -> Value {
    let mut live = Value::Null;
    let found = eventually(Duration::from_secs(10), || {
        let text = http_get(server.place.console, "/live.json").unwrap_or_default();
        live = serde_json::from_str(&text).unwrap_or(Value::Null);
        live.is_object() && condition(&live)
    });
    assert!(found, "{live:#}");
    live
}

/// Number since the start of the part of a mix that has this name.
fn total(mix: &Value, name: &str) -> u64 {
    let parts = mix.as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == name);
    part.map_or(0, |part| part["total"].as_u64().unwrap())
}

#[test]
fn a_known_load_is_told_alike_by_metrics_and_live_json() {
    let (server, _backend) = served();
    live_when(&server, |live| live["minute"]["seconds"] != 0.0);
    let exchange = |client: &Client| {
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/status/200")).unwrap();
        connection.resumed()
    };
    let mut resumed = 0;
    for _ in 0..20 {
        let client = server.client(&Offer {
            resume: true,
            ..Offer::default()
        });
        for _ in 0..16 {
            resumed += u64::from(exchange(&client));
        }
    }
    for _ in 0..180 {
        assert!(!exchange(&server.client(&Offer::default())));
    }
    assert_eq!(resumed, 300);
    let live = live_when(&server, |live| {
        total(&live["mixes"]["kinds"], "full") + total(&live["mixes"]["kinds"], "resumed") == 500
            && live["minute"]["open"]["http"] == 0
    });
    let metrics = server.metrics();
    let count = |name, labels: &[(&str, &str)]| metrics.sum(name, labels) as u64;
    let kinds = &live["mixes"]["kinds"];
    for (kind, expected) in [("full", 200), ("resumed", 300)] {
        assert_eq!(total(kinds, kind), expected, "{kinds}");
        assert_eq!(
            count("tollgate_handshakes_total", &[("kind", kind)]),
            expected
        );
    }
    assert_eq!(total(&live["misses"], "nothing_offered"), 200);
    assert_eq!(count("tollgate_resumption_misses_total", &[]), 200);
    assert_eq!(count("tollgate_ticket_age_seconds_count", &[]), 300);
    assert_eq!(count("tollgate_requests_per_connection_count", &[]), 500);
    assert_eq!(count("tollgate_requests_per_connection_sum", &[]), 500);
    assert_eq!(live["minute"]["hit_rate"], 0.6);
    assert!((metrics.sum("tollgate_hit_ratio", &[]) - 0.6).abs() < 1e-9);
    let minute = &live["minute"];
    let (seconds, full) = (&minute["seconds"], &minute["full_per_second"]);
    let product = seconds.as_f64().unwrap() * full.as_f64().unwrap();
    assert!((product - 200.0).abs() < 1e-6, "{minute}");
    assert_eq!(minute["requests_per_handshake"], 1.0);
    assert_eq!(live["sites"][0]["site"], "shop.test");
    the_past_holds(&server, 500.0);
}

/// The area under the graphs is the number of handshakes.
fn the_past_holds(server: &Server, handshakes: f64) {
    let text = http_get(server.place.console, "/history.json?seconds=600&points=300").unwrap();
    let past: Value = serde_json::from_str(&text).unwrap();
    let column = |name: &str| -> Vec<f64> {
        let values = past[name].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let (at, full, resumed) = (
        column("at_seconds"),
        column("full_per_second"),
        column("resumed_per_second"),
    );
    // The first point begins with the start, to some milliseconds.
    let mut before = past["marks"][0]["at_seconds"].as_f64().unwrap();
    let mut area = 0.0;
    for (point, at) in at.iter().enumerate() {
        area += (at - before) * (full[point] + resumed[point]);
        before = *at;
    }
    assert!((area - handshakes).abs() < 2.0, "{area} {past}");
    assert_eq!(past["marks"][0]["kind"], "start");
}

#[test]
fn a_hit_rate_that_was_asked_for_is_shown() {
    let (server, _backend) = served();
    live_when(&server, |live| live["minute"]["seconds"] != 0.0);
    let target = server.address().to_string();
    let more = "--insecure --hit-rate 0.9 -c 4 --operations 1000 --duration 60s";
    reached(&load(&server.place, "tps", &target, more));
    let live = live_when(&server, |live| {
        let kinds = &live["mixes"]["kinds"];
        total(kinds, "full") + total(kinds, "resumed") >= 1_000
    });
    let shown = live["minute"]["hit_rate"].as_f64().unwrap();
    assert!((shown - 0.9).abs() <= 0.01, "{shown}");
    let ratio = server.metrics().sum("tollgate_hit_ratio", &[]);
    assert!((ratio - 0.9).abs() <= 0.01, "{ratio}");
    let price = &live["price"];
    assert!(price["saved_cores"].as_f64().unwrap() >= 0.0, "{price}");
    assert!(price["cores_at_zero"].as_f64() >= price["cores_now"].as_f64());
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
    let mut described = BTreeSet::new();
    let mut series = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, kind == "counter", "{name} is a {kind}");
            assert!(
                described.insert(name.to_owned()),
                "{name} is described twice"
            );
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no help"
            );
        } else if !line.starts_with('#') {
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            assert!(
                series.insert(labelled.to_owned()),
                "{labelled} is there twice"
            );
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
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
