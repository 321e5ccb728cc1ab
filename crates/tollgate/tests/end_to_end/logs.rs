//! `logs` on what nginx, HAProxy and Tollgate really wrote, of handshakes whose number is known.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tollgate_review::logs::{HAPROXY_LOG_FORMAT, NGINX_LOG_FORMAT};
use tollgate_testkit::{Address, free_port, http_backend};

use crate::peers::Peer;
use crate::server::{Place, Server};
use crate::tools::{Ran, eventually, run};

/// Full and resumed handshakes, and requests on connections that were there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Driven {
    full: u64,
    resumed: u64,
    more_requests: u64,
}

impl Driven {
    fn lines(self) -> usize {
        (self.full + self.resumed + self.more_requests) as usize
    }
}

/// The JSON values of a run that went well.
fn values(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    serde_json::Deserializer::from_str(&ran.out)
        .into_iter()
        .map(|value| value.unwrap_or_else(|error| panic!("{error}: {}", ran.all())))
        .collect()
}

/// Two full and four resumed handshakes of `probe`, one full one of curl with three requests, and what `load` counts
/// of 200 connections.
fn drive(place: &Place, address: SocketAddr) -> Driven {
    let mut driven = Driven::default();
    let target = address.to_string();
    let trusted = ["--server-name", "shop.test", "--ca", "ca.pem", "--json"];
    for version in ["--tls12", "--tls13"] {
        let mut arguments = vec!["probe", &target, version, "--get", "/status/200"];
        arguments.extend(["--no-early-data", "--resumptions", "2"]);
        arguments.extend(trusted);
        assert_eq!(values(&place.tollgate(&arguments)).len(), 3);
        driven.full += 1;
        driven.resumed += 2;
    }
    let mut curl = Command::new("curl");
    let connect = format!("shop.test:{}:{target}", address.port());
    let url = format!("https://shop.test:{}/status/200", address.port());
    curl.args([
        "--silent",
        "--show-error",
        "--http1.1",
        "--cacert",
        "ca.pem",
    ])
    .args(["--connect-to", &connect, &url, &url, &url])
    .current_dir(place.folder.path());
    let ran = run(&mut curl, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    driven.full += 1;
    driven.more_requests += 2;

    let mut arguments = vec!["load", "tps", &target, "--tls12", "--hit-rate", "0.75"];
    arguments.extend([
        "--operations",
        "200",
        "--warm-up",
        "0ms",
        "--connections",
        "1",
    ]);
    arguments.extend(["--duration", "30s"]);
    arguments.extend(trusted);
    let result = &values(&place.tollgate(&arguments))[0];
    assert_eq!(result["operations"], 200, "{result}");
    driven.full += result["handshakes"]["full"].as_u64().unwrap();
    driven.resumed += result["handshakes"]["resumed"].as_u64().unwrap();
    driven
}

/// What `logs` says of `file`, with these options.
fn said(place: &Place, file: &str, options: &[&str]) -> Value {
    let mut arguments = vec!["logs", file, "--json"];
    arguments.extend(options);
    values(&place.tollgate(&arguments)).remove(0)
}

/// Drives the server and holds what `logs` says against it. `load` opens one connection before its window: its handshake
/// is a full one, and no count of `load` has it.
fn agree(place: &Place, address: SocketAddr, log: impl Fn() -> String, options: &[&str]) -> Value {
    let mut driven = drive(place, address);
    driven.full += 1;
    let complete = || tls_lines(&log()) >= driven.lines();
    assert!(
        eventually(Duration::from_secs(10), complete),
        "{driven:?}\n{}",
        log()
    );
    place.folder.write("seen.log", log());
    let said = said(place, "seen.log", options);
    let handshakes = &said["handshakes"];
    let told = Driven {
        full: handshakes["full"].as_u64().unwrap(),
        resumed: handshakes["resumed"].as_u64().unwrap(),
        more_requests: said["lines_of_known_connections"].as_u64().unwrap(),
    };
    assert_eq!(told, driven, "{said}");
    assert_eq!(handshakes["not_told"], 0, "{said}");
    assert_eq!(said["missing"], Value::Array(Vec::new()), "{said}");
    assert_eq!(said["by_version"][0]["name"], "TLSv1.2", "{said}");
    assert_eq!(said["by_version"][1]["full"], 2, "{said}");
    assert_eq!(said["by_version"][1]["resumed"], 2, "{said}");
    assert_eq!(
        said["by_suite"][0]["name"], "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "{said}"
    );
    said
}

fn tls_lines(log: &str) -> usize {
    log.lines().filter(|line| line.contains("TLSv1.")).count()
}

#[test]
fn nginx_is_read_as_it_was_driven() {
    let place = Place::new();
    let port = free_port();
    let body = format!(
        "http {{ log_format tls '{NGINX_LOG_FORMAT}'; access_log access.log tls; server {{ listen 127.0.0.1:{port} ssl; \
         ssl_certificate ecdsa.pem; ssl_certificate_key ecdsa.key; ssl_protocols TLSv1.2 TLSv1.3; \
         ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256; location / {{ return 200 \"fine\\n\"; }} }} }}"
    );
    let peer = Peer::nginx(&place, port, &body);
    let log = || place.folder.read("access.log");
    let said = agree(
        &place,
        peer.address(),
        log,
        &["--log-format", NGINX_LOG_FORMAT],
    );
    assert_eq!(said["by_site"][0]["name"], "shop.test", "{said}");
}

#[test]
fn haproxy_is_read_as_it_was_driven() {
    let place = Place::new();
    let port = free_port();
    let pem = place.folder.read("ecdsa.pem") + &place.folder.read("ecdsa.key");
    place.folder.write_secret("both.pem", pem);
    let body = format!(
        "frontend f\n  log stdout format raw local0 info\n  mode http\n  \
         bind 127.0.0.1:{port} ssl crt both.pem ssl-min-ver TLSv1.2 ciphers ECDHE-ECDSA-AES128-GCM-SHA256\n  \
         log-format '{HAPROXY_LOG_FORMAT}'\n  \
         http-request return status 200 content-type text/plain string \"fine\""
    );
    let peer = Peer::haproxy(&place, port, &body);
    let log = || {
        let said = peer.said(&place);
        let lines = said.lines().filter(|line| line.contains("TLSv1."));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let said = agree(
        &place,
        peer.address(),
        log,
        &["--log-format", HAPROXY_LOG_FORMAT],
    );
    assert_eq!(said["by_site"][0]["name"], "shop.test", "{said}");
}

#[test]
fn the_httpslog_of_haproxy_is_known_by_itself() {
    let place = Place::new();
    let port = free_port();
    let pem = place.folder.read("ecdsa.pem") + &place.folder.read("ecdsa.key");
    place.folder.write_secret("both.pem", pem);
    let body = format!(
        "frontend f\n  log stdout format raw local0 info\n  mode http\n  option httpslog\n  \
         bind 127.0.0.1:{port} ssl crt both.pem ssl-min-ver TLSv1.2 ciphers ECDHE-ECDSA-AES128-GCM-SHA256\n  \
         http-request return status 200 content-type text/plain string \"fine\""
    );
    let peer = Peer::haproxy(&place, port, &body);
    let log = || {
        let said = peer.said(&place);
        let lines = said.lines().filter(|line| line.contains("TLSv1."));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let said = agree(&place, peer.address(), log, &[]);
    assert_eq!(said["product"], "haproxy", "{said}");
}

#[test]
fn tollgate_is_read_as_it_was_driven() {
    for (format, lines) in [("json", "JSON"), ("logfmt", "logfmt")] {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let place = Place::new();
        let config = place.config("http", &[&format!("http://{}", backend.address())]);
        let config = format!("{config}log: {{ access: access.log, format: {format} }}\n");
        let server = Server::start(place, &config);
        let log = || server.place.folder.read("access.log");
        let said = agree(&server.place, server.address(), log, &[]);
        assert_eq!(said["product"], "tollgate", "{said}");
        assert!(said["format"].as_str().unwrap().contains(lines), "{said}");
    }
}

#[test]
fn the_exit_code_says_whether_enough_resumed() {
    let place = Place::new();
    let mut log = String::new();
    for n in 0..200_u64 {
        let second = n / 50 * 10;
        let resumed = n % 10 != 0 && n / 50 != 2;
        log.push_str(&format!(
            "time=2026-11-21T18:00:{second:02}Z tls_version=TLSv1.3 tls_resumed={resumed}\n"
        ));
    }
    place.folder.write("some.log", &log);
    let code = |options: &[&str]| {
        let mut arguments = vec!["logs", "some.log"];
        arguments.extend(options);
        place.tollgate(&arguments)
    };
    for (options, expected) in [
        (&[][..], Some(0)),
        (&["--below", "0.6"], Some(0)),
        (&["--below", "0.7"], Some(1)),
        (&["--below", "0.6", "--each-interval"], Some(1)),
        (&["--format", "apache"], Some(2)),
        (&["--log-format", "$ssl_protocol$ssl_cipher"], Some(2)),
        (&["--since", "soon"], Some(2)),
        (&["absent.log"], Some(2)),
        (&["--below", "0.5", "--until", "2020-01-01"], Some(2)),
    ] {
        let ran = code(options);
        assert_eq!(ran.code, expected, "{options:?}: {}", ran.all());
    }
    let text = code(&["--below", "0.6", "--each-interval"]).out;
    for part in [
        "200: 65 full, 135 resumed",
        "hit rate    67.5 %",
        "2026-11-21T18:00:20Z for 10 s: down to 0 %, at 5.00 /s handshakes",
        "requests were counted",
        "the log does not tell the cipher suite, the site",
        "missed: 67.5 % in all, 60.0 % asked for; intervals that are lower: 1",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn bytes_that_are_no_log_are_refused_and_shown() {
    let place = Place::new();
    let mut bytes = vec![0xff; 200_000];
    bytes.extend(b"\n\x1b[2Jwhat\n");
    fs::write(place.folder.join("odd.log"), bytes).unwrap();
    let ran = place.tollgate(&["logs", "odd.log"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(
        ran.out.contains("line 1: longer than 65536 bytes"),
        "{}",
        ran.all()
    );
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.all());
    fs::write(place.folder.join("packed.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let ran = place.tollgate(&["logs", "packed.gz"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("zcat"), "{}", ran.all());
}
