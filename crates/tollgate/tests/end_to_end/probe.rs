//! `probe`: single connections to servers of all kinds, reached in all ways.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{
    Address, Authority, Backend, BackendTls, LeafKind, Validity, free_port, http_backend,
};

use crate::peers::Peer;
use crate::probe_relay::{Line, Relay};
use crate::server::{Place, Server, binary, signal};
use crate::tools::{Ran, eventually, wait};

/// Runs `probe` against `target`, trusting the authority of `place`, as `shop.test`.
pub fn probe(place: &Place, target: &str, more: &[&str]) -> Ran {
    let mut arguments = vec![
        "probe",
        target,
        "--server-name",
        "shop.test",
        "--ca",
        "ca.pem",
    ];
    arguments.extend(more);
    place.tollgate(&arguments)
}

/// The same with `--json`: one object per connection, from a run that ended with `code`.
pub fn objects(place: &Place, target: &str, more: &[&str], code: i32) -> Vec<Value> {
    let mut arguments = vec!["--json"];
    arguments.extend(more);
    let ran = probe(place, target, &arguments);
    assert_eq!(ran.code, Some(code), "{}", ran.all());
    ran.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Whether each connection resumed.
fn resumed(connections: &[Value]) -> Vec<bool> {
    connections
        .iter()
        .map(|connection| connection["handshake_kind"] == "Resumed")
        .collect()
}

fn is_fine(connection: &Value) -> bool {
    let line = connection["first_line"].as_str().unwrap();
    line.starts_with("HTTP/1.1 200 ")
}

/// A server with TLS of its own.
fn tls_backend(place: &Place, address: &Address) -> Backend {
    let leaf = place.authority.server(LeafKind::EcdsaP256, &["shop.test"]);
    http_backend(
        address,
        Some(BackendTls::new(&leaf, None, &[])),
        "tls",
        false,
    )
}

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

/// nginx with these lines in its server; logs what `log` says per request.
pub fn nginx(place: &Place, listen: &str, log: &str, lines: &str) -> Peer {
    let port = free_port();
    let body = format!(
        "http {{ log_format probe '{log}'; access_log access-{port}.log probe; server {{ listen 127.0.0.1:{port} ssl {listen}; \
         ssl_certificate ecdsa.pem; ssl_certificate_key ecdsa.key; ssl_protocols TLSv1.2 TLSv1.3; {lines} \
         location / {{ return 200 \"fine\\n\"; }} }} }}"
    );
    Peer::nginx(place, port, &body)
}

#[test]
fn a_server_of_ours_is_resumed_with_and_without_a_request() {
    let (server, _backend) = served("");
    let target = server.address().to_string();
    // Our ticket waits for the first response, or leaves by itself after 100 ms.
    for ask in [&["--get", "/status/200"][..], &[]] {
        for version in ["--tls12", "--tls13"] {
            let mut arguments = vec![version, "--resumptions", "2"];
            arguments.extend(ask);
            let connections = objects(&server.place, &target, &arguments, 0);
            assert_eq!(
                resumed(&connections),
                [false, true, true],
                "{version} {ask:?}"
            );
        }
    }
    // Who does not wait has nothing to resume with.
    let hasty = ["--tls13", "--ticket-wait", "0ms"];
    let connections = objects(&server.place, &target, &hasty, 0);
    assert_eq!(resumed(&connections), [false, false]);
}

#[test]
fn ipv6_literals_and_unix_sockets_are_targets() {
    let place = Place::new();
    let ipv6 = tls_backend(&place, &Address::Ip("[::1]:0".parse().unwrap()));
    let connections = objects(&place, ipv6.address(), &["--get", "/"], 0);
    assert_eq!(connections[0]["endpoint"], ipv6.address());
    assert!(is_fine(&connections[0]), "{connections:?}");

    let path = place.folder.join("tls.sock");
    let unix = tls_backend(&place, &Address::UnixPath(path.clone()));
    let abstract_name = format!("tollgate-probe-{}", std::process::id());
    let hidden = tls_backend(&place, &Address::UnixAbstract(abstract_name.clone()));
    for (socket, backend) in [
        (path.display().to_string(), &unix),
        (format!("@{abstract_name}"), &hidden),
    ] {
        let arguments = ["--unix", &socket, "--get", "/"];
        let connections = objects(&place, "shop.test", &arguments, 0);
        assert_eq!(resumed(&connections), [false, true], "{socket}");
        assert_eq!(connections[0]["round_trips"]["tcp"], 0);
        assert_eq!(backend.requests(), 2);
    }
}

#[test]
fn of_several_endpoints_the_first_that_answers_is_probed_and_the_others_are_told_of() {
    let place = Place::new();
    let backend = tls_backend(&place, &Address::Loopback);
    let closed = format!("127.0.0.1:{}", free_port());
    let arguments = ["--endpoint", &closed, "--endpoint", backend.address()];
    let connections = objects(&place, "shop.test", &arguments, 0);
    assert_eq!(connections[0]["endpoint"], backend.address());
    let refused = connections[0]["refused_endpoints"][0].as_str().unwrap();
    assert!(refused.starts_with(&closed), "{refused}");
}

#[test]
fn a_hello_retry_request_is_shown_with_its_round_trip() {
    let place = Place::new();
    let peer = nginx(&place, "", "-", "ssl_ecdh_curve secp384r1;");
    let target = peer.address().to_string();
    let connections = objects(&place, &target, &["--tls13"], 0);
    let first = &connections[0];
    assert_eq!(first["hello_retry_request"], true);
    assert_eq!(first["named_group"], "secp384r1");
    assert_eq!(first["round_trips"]["handshake"], 2);
    let text = probe(&place, &target, &["--tls13"]);
    assert!(text.out.contains("HelloRetryRequest"), "{}", text.all());
}

/// An OCSP response that says `good`, made by openssl without a network.
fn staple(place: &Place) {
    let name = "/CN=staple.test";
    let script = format!(
        "set -e; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root.key -out root.pem -days 30 \
         -subj '/CN=staple root' 2>/dev/null
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout staple.key -out staple.csr -subj {name} 2>/dev/null
         printf 'subjectAltName=DNS:shop.test\\nbasicConstraints=CA:FALSE\\n' > staple.ext
         openssl x509 -req -in staple.csr -CA root.pem -CAkey root.key -set_serial 7777 -days 20 -extfile staple.ext \
         -out staple.pem 2>/dev/null
         printf 'V\\t401231235959Z\\t\\t1E61\\tunknown\\t{name}\\n' > index.txt
         openssl ocsp -issuer root.pem -cert staple.pem -reqout request.der -no_nonce >/dev/null 2>&1
         openssl ocsp -index index.txt -rsigner root.pem -rkey root.key -CA root.pem -reqin request.der -respout staple.der \
         -ndays 3 >/dev/null 2>&1
         test -s staple.der"
    );
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(script)
        .current_dir(place.folder.path());
    let ran = crate::tools::run(&mut command, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
}

#[test]
fn everything_that_the_server_sent_is_reported() {
    let place = Place::new();
    staple(&place);
    let port = free_port();
    let body = format!(
        "http {{ access_log off; server {{ listen 127.0.0.1:{port} ssl; ssl_certificate staple.pem; \
         ssl_certificate_key staple.key; ssl_stapling on; ssl_stapling_file staple.der; ssl_protocols TLSv1.2 TLSv1.3; \
         ssl_session_timeout 2h; location / {{ return 200 \"fine\\n\"; }} }} }}"
    );
    let peer = Peer::nginx(&place, port, &body);
    let arguments = [
        "probe",
        &peer.address().to_string(),
        "--server-name",
        "shop.test",
        "--ca",
        "root.pem",
        "--get",
        "/",
        "--json",
    ];
    let ran = place.tollgate(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let first: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["named_group"], "x25519");
    assert_eq!(first["signature_scheme"], "ecdsa_secp256r1_sha256");
    assert_eq!(first["certificate_kind"], "ecdsa-p256");
    let chain = &first["chain"]["certificates"];
    assert_eq!(chain.as_array().unwrap().len(), 1);
    assert_eq!(chain[0]["names"][0], "shop.test");
    assert_eq!(chain[0]["issuer"], "CN=staple root");
    assert_eq!(first["staple"]["status"], "good");
    assert!(first["staple"]["problem"].is_null(), "{first}");
    let next = first["staple"]["next_update_seconds"].as_u64().unwrap();
    let this = first["staple"]["this_update_seconds"].as_u64().unwrap();
    assert_eq!(next - this, 3 * 86_400);
    let staple_bytes = first["staple"]["bytes"].as_u64().unwrap();
    let on_disk = std::fs::metadata(place.folder.join("staple.der"))
        .unwrap()
        .len();
    assert_eq!(staple_bytes, on_disk);
    let flight = first["server_flight_bytes"].as_u64().unwrap();
    assert!(
        flight > staple_bytes + first["chain"]["bytes"].as_u64().unwrap(),
        "{flight}"
    );
    assert_eq!(first["tickets"][0]["lifetime_seconds"], 7200);
    assert_eq!(first["tickets"].as_array().unwrap().len(), 2);
    assert!(first["connect_time_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn repetitions_give_percentiles() {
    let place = Place::new();
    let backend = tls_backend(&place, &Address::Loopback);
    let lines = objects(
        &place,
        backend.address(),
        &["--repeat", "5", "--get", "/"],
        0,
    );
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!(summary["connections"], 10);
    for kind in ["full", "resumed"] {
        assert_eq!(summary[kind]["count"], 5, "{summary}");
        let handshake = &summary[kind]["handshake"];
        let of = |name: &str| handshake[name].as_f64().unwrap();
        assert!(
            0.0 < of("p50_ms") && of("p50_ms") <= of("p99_ms"),
            "{handshake}"
        );
        assert!(of("p99_ms") <= of("max_ms"), "{handshake}");
    }
    let text = probe(&place, backend.address(), &["--repeat", "3"]);
    assert!(
        text.out.contains("p50") && text.out.contains("p99"),
        "{}",
        text.all()
    );
}

#[test]
fn http2_is_spoken_where_it_is_agreed() {
    let (server, backend) = served("");
    let arguments = ["--alpn", "h2,http/1.1", "--get", "/status/204"];
    let connections = objects(&server.place, &server.address().to_string(), &arguments, 0);
    assert_eq!(connections[0]["alpn"], "h2");
    assert_eq!(connections[0]["first_line"], "HTTP/2 204");
    assert_eq!(resumed(&connections), [false, true]);
    assert_eq!(backend.requests(), 2);
}

#[test]
fn a_proxy_header_says_who_asks() {
    let place = Place::new();
    let log = "$proxy_protocol_addr:$proxy_protocol_port $remote_addr:$remote_port";
    let peer = nginx(&place, "proxy_protocol", log, "");
    let target = peer.address().to_string();
    let without = probe(&place, &target, &["--get", "/"]);
    assert_eq!(without.code, Some(3), "{}", without.all());
    for version in ["v1", "v2"] {
        objects(
            &place,
            &target,
            &["--get", "/", "--proxy-header", version],
            0,
        );
    }
    let log = format!("access-{}.log", peer.port);
    let lines = || {
        place
            .folder
            .read(&log)
            .lines()
            .filter(|line| line.starts_with("127."))
            .count()
    };
    assert!(
        eventually(Duration::from_secs(10), || lines() == 4),
        "{}",
        place.folder.read(&log)
    );
    for line in place
        .folder
        .read(&log)
        .lines()
        .filter(|line| line.starts_with("127."))
    {
        let (said, real) = line.split_once(' ').unwrap();
        assert_eq!(said, real);
    }
}

#[test]
fn a_client_certificate_is_shown_when_asked_for() {
    let place = Place::new();
    let clients = Authority::new("clients");
    place.folder.write("clients.pem", clients.root_pem());
    clients
        .client("alice", Validity::Now)
        .write(&place.folder, "alice");
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let more = "    client_certificates: { mode: required, ca: clients.pem }\n";
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    let server = Server::start(place, &config);
    let target = server.address().to_string();
    let shown = [
        "--cert",
        "alice.pem",
        "--key",
        "alice.key",
        "--get",
        "/status/200",
    ];
    let connections = objects(&server.place, &target, &shown, 0);
    assert!(is_fine(&connections[0]), "{connections:?}");
    let without = probe(&server.place, &target, &["--get", "/status/200"]);
    assert_eq!(without.code, Some(3), "{}", without.all());
    assert!(without.err.contains("--cert"), "{}", without.all());
}

#[test]
fn a_profile_decides_what_is_chosen() {
    let (server, _backend) = served("");
    let target = server.address().to_string();
    for (profile, suite, certificate) in [
        ("browser", "TLS_AES_128_GCM_SHA256", "ecdsa-p256"),
        (
            "phone-without-aes",
            "TLS_CHACHA20_POLY1305_SHA256",
            "ecdsa-p256",
        ),
        (
            "android-old",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ecdsa-p256",
        ),
        ("rsa-only", "TLS_AES_128_GCM_SHA256", "rsa-2048"),
    ] {
        let connections = objects(&server.place, &target, &["--as", profile], 0);
        assert_eq!(connections[0]["cipher_suite"], suite, "{profile}");
        assert_eq!(connections[0]["certificate_kind"], certificate, "{profile}");
    }
}

const SMTP: &[Line] = &[
    Line::Says(b"220-mail.test\r\n220 ESMTP\r\n"),
    Line::Awaits(b"EHLO [127.0.0.1]\r\n"),
    Line::Says(b"250-mail.test\r\n250-SIZE 1000\r\n250 STARTTLS\r\n"),
    Line::Awaits(b"STARTTLS\r\n"),
    Line::Says(b"220 go ahead\r\n"),
];
const IMAP: &[Line] = &[
    Line::Says(b"* OK ready\r\n"),
    Line::Awaits(b"a1 STARTTLS\r\n"),
    Line::Says(b"a1 OK begin\r\n"),
];
const POP3: &[Line] = &[
    Line::Says(b"+OK ready\r\n"),
    Line::Awaits(b"STLS\r\n"),
    Line::Says(b"+OK begin\r\n"),
];
const POSTGRES: &[Line] = &[
    Line::Awaits(&[0, 0, 0, 8, 4, 210, 22, 47]),
    Line::Says(b"S"),
];
const INJECTED: &[Line] = &[
    Line::Awaits(&[0, 0, 0, 8, 4, 210, 22, 47]),
    Line::Says(b"SELECT"),
];
const WITHOUT_TLS: &[Line] = &[
    Line::Awaits(&[0, 0, 0, 8, 4, 210, 22, 47]),
    Line::Says(b"N"),
];

#[test]
fn tls_begins_behind_a_plaintext_dialogue() {
    let place = Place::new();
    let backend = tls_backend(&place, &Address::Loopback);
    let behind: SocketAddr = backend.address().parse().unwrap();
    for (protocol, dialogue, round_trips) in [
        ("smtp", SMTP, 3),
        ("imap", IMAP, 2),
        ("pop3", POP3, 2),
        ("postgres", POSTGRES, 1),
    ] {
        let relay = Relay::start(behind, dialogue);
        let target = relay.address.to_string();
        let connections = objects(&place, &target, &["--starttls", protocol], 0);
        assert_eq!(resumed(&connections), [false, true], "{protocol}");
        assert_eq!(
            connections[0]["round_trips"]["start_tls"], round_trips,
            "{protocol}"
        );
    }
    for (dialogue, reason) in [
        (INJECTED, "plaintext bytes came behind"),
        (WITHOUT_TLS, "postgresql.conf"),
    ] {
        let relay = Relay::start(behind, dialogue);
        let ran = probe(
            &place,
            &relay.address.to_string(),
            &["--starttls", "postgres"],
        );
        assert_eq!(ran.code, Some(3), "{}", ran.all());
        assert!(ran.err.contains(reason), "{}", ran.all());
    }
}

#[test]
fn exit_codes_tell_what_kind_of_failure_it_was() {
    let place = Place::new();
    let peer = nginx(
        &place,
        "",
        "-",
        "ssl_session_tickets off; ssl_session_cache off;",
    );
    let target = peer.address().to_string();
    let missed = probe(&place, &target, &["--expect", "resumed"]);
    assert_eq!(missed.code, Some(1), "{}", missed.all());
    assert!(missed.err.contains("resumed"), "{}", missed.all());
    for wrong in [
        &["no target", "--tls12"][..],
        &[&target, "--as", "netscape"],
        &[&target, "--post", "/buy"],
        &[&target, "--ca", "not-there.pem"],
    ] {
        let mut arguments = vec!["probe"];
        arguments.extend(wrong);
        let ran = place.tollgate(&arguments);
        assert_eq!(ran.code, Some(2), "{wrong:?}: {}", ran.all());
        assert!(!ran.err.is_empty(), "{wrong:?}");
    }
    let closed = format!("127.0.0.1:{}", free_port());
    let nobody = probe(&place, &closed, &[]);
    assert_eq!(nobody.code, Some(3), "{}", nobody.all());
    assert!(nobody.err.contains(&closed), "{}", nobody.all());
    let strange = place.tollgate(&[
        "probe",
        &target,
        "--server-name",
        "other.test",
        "--ca",
        "ca.pem",
    ]);
    assert_eq!(strange.code, Some(3), "{}", strange.all());
    assert!(strange.err.contains("--server-name"), "{}", strange.all());
}

#[test]
fn an_interrupted_repetition_prints_what_it_has() {
    let place = Place::new();
    let backend = tls_backend(&place, &Address::Loopback);
    let mut command = Command::new(binary());
    command
        .args([
            "probe",
            backend.address(),
            "--server-name",
            "shop.test",
            "--ca",
            "ca.pem",
        ])
        .args(["--get", "/", "--repeat", "1000000"])
        .current_dir(place.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(backend.seen().wait(|_| backend.requests() >= 6));
    signal(child.id(), "INT");
    let code = wait(&mut child, Duration::from_secs(20));
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        code,
        Some(0),
        "{out}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(out.contains("p50") && out.contains("p99"), "{out}");
}
