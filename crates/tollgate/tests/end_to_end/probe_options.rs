//! Options of `probe`: those of tlshake, what may be early data, what is expected, what is shown.

use std::net::SocketAddr;

use tollgate_testkit::free_port;

use crate::peers::Peer;
use crate::probe::{objects, probe};
use crate::server::Place;

/// nginx with early data, and what it logs: how it was resumed, early or not, the request.
fn nginx(place: &Place, lines: &str) -> Peer {
    crate::probe::nginx(
        place,
        "",
        "$ssl_session_reused $ssl_early_data $request",
        lines,
    )
}

const EARLY: &str = "ssl_early_data on;";

#[test]
fn options_of_tlshake_mean_the_same_and_its_fields_are_there() {
    let place = Place::new();
    let peer = nginx(&place, EARLY);
    let address: SocketAddr = peer.address();
    let (endpoint, port) = (address.to_string(), address.port().to_string());
    let mut arguments = vec![
        "--http-get",
        "/",
        "--disable-early-data",
        "--tls12",
        "--tls13",
    ];
    arguments.extend(["--alpn", "http/1.1", "-p", &port, "--endpoint", &endpoint]);
    arguments.extend(["--noverify", "--resumptions", "2", "--contents", "-v", "1"]);
    let connections = objects(&place, "shop.test", &arguments, 0);
    assert_eq!(connections.len(), 3);
    for (connection, name) in connections.iter().zip(["initial", "resume", "resume"]) {
        for number in [
            "timestamp_us",
            "connect_time_ms",
            "handshake_time_ms",
            "request_time_ms",
            "total_time_ms",
        ] {
            assert!(
                connection[number].as_f64().unwrap() > 0.0,
                "{number}: {connection}"
            );
        }
        assert_eq!(connection["name"], name);
        assert_eq!(connection["target"], "shop.test");
        assert_eq!(connection["endpoint"], endpoint.as_str());
        assert_eq!(connection["sent_early_data"], false);
        assert_eq!(connection["early_data_accepted"], false);
        assert_eq!(connection["protocol_version"], "TLSv1.3");
        assert_eq!(connection["alpn"], "http/1.1");
        assert_eq!(connection["first_line"], "HTTP/1.1 200 OK");
        assert!(connection["contents"].as_str().unwrap().ends_with("fine\n"));
        assert!(connection["ja4"].as_str().unwrap().starts_with("t13d"));
        assert!(connection["cipher_suite"].is_string() && connection["handshake_kind"].is_string());
    }
}

#[test]
fn the_labels_of_tlshake_come_in_its_order_byte_for_byte() {
    let place = Place::new();
    let peer = nginx(&place, EARLY);
    let arguments = ["--compat", "tlshake", "--get", "/"];
    let ran = probe(&place, &peer.address().to_string(), &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let blocks: Vec<&str> = ran.out.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{}", ran.out);
    let labels = [
        "  Target:           ",
        "  Endpoint:         ",
        "  Connect time:     ",
        "  Handshake time:   ",
        "  Handshake kind:   ",
        "  Protocol version: ",
        "  Cipher suite:     ",
        "  ALPN protocol:    ",
        "  Early data:       ",
        "  Request time:     ",
        "  Reply first line: ",
        "  Total time:       ",
    ];
    for (block, first) in blocks
        .iter()
        .zip(["Connection: initial", "Connection: resume"])
    {
        let mut lines = block.lines();
        assert_eq!(lines.next(), Some(first));
        let mut expected = labels.iter();
        for line in lines {
            let label = expected.next().unwrap();
            assert!(line.starts_with(label), "{line:?} is no {label:?}");
        }
        assert_eq!(expected.next(), None, "{block}");
    }
    assert!(
        blocks[1].contains("Handshake kind:   Resumed\n"),
        "{}",
        blocks[1]
    );
    assert!(
        blocks[1].contains("Early data:       accepted\n"),
        "{}",
        blocks[1]
    );
}

#[test]
fn early_data_from_a_file_goes_only_with_a_method_that_may_be_repeated() {
    let place = Place::new();
    let peer = nginx(&place, EARLY);
    let target = peer.address().to_string();
    let request = "HEAD /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    place.folder.write("head", request);
    let connections = objects(&place, &target, &["--early-data", "head"], 0);
    assert_eq!(connections[1]["early_data_accepted"], true);
    assert_eq!(connections[1]["round_trips_total"], 2);
    for unsafe_request in ["POST / HTTP/1.1\r\n\r\n", "\u{0}\u{1}", ""] {
        place.folder.write("post", unsafe_request);
        let ran = probe(&place, &target, &["--early-data", "post"]);
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        assert!(ran.err.contains("GET, HEAD or OPTIONS"), "{}", ran.all());
    }
    let ran = probe(&place, &target, &["--http-post", "/buy"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("--no-early-data"), "{}", ran.all());
    let ran = probe(&place, &target, &["--post", "/buy", "--no-early-data"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("it is switched off"), "{}", ran.all());
}

#[test]
fn an_expectation_that_is_missed_ends_with_one() {
    let place = Place::new();
    let without = nginx(&place, "");
    let with = nginx(&place, EARLY);
    let arguments = ["--get", "/", "--expect", "resumed,early-data,tls13"];
    for (peer, code) in [(&without, 1), (&with, 0)] {
        let ran = probe(&place, &peer.address().to_string(), &arguments);
        assert_eq!(ran.code, Some(code), "{}", ran.all());
    }
    let old = ["--tls12", "--expect", "tls13"];
    let ran = probe(&place, &with.address().to_string(), &old);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.err.contains("expected to be TLS 1.3"), "{}", ran.all());
}

#[test]
fn a_chain_is_weighed_and_one_that_is_too_long_is_told_of() {
    let place = Place::new();
    let chain = place.folder.read("ecdsa.pem");
    let long = format!("{chain}{}", place.authority.intermediate_pem().repeat(50));
    place.folder.write("long.pem", long);
    let port = free_port();
    let body = format!(
        "http {{ access_log off; server {{ listen 127.0.0.1:{port} ssl; ssl_certificate long.pem; \
         ssl_certificate_key ecdsa.key; location / {{ return 200; }} }} }}"
    );
    let peer = Peer::nginx(&place, port, &body);
    let first = &objects(&place, &peer.address().to_string(), &["--insecure"], 0)[0];
    assert!(
        first["server_flight_bytes"].as_u64().unwrap() > 14_600,
        "{first}"
    );
    let advice = first["initial_window_advice"].as_str().unwrap();
    assert!(advice.contains("leave out"), "{advice}");

    let short = nginx(&place, "");
    let text = probe(&place, &short.address().to_string(), &["--chain"]);
    assert!(text.out.contains("key 65 B"), "{}", text.all());
    assert!(
        text.out.contains("of the 14,600 B that fit"),
        "{}",
        text.all()
    );
    assert!(!text.out.contains("one more round trip"), "{}", text.all());
}

#[test]
fn help_is_in_groups_and_names_every_alias() {
    let help = Place::new().tollgate(&["probe", "--help"]);
    assert_eq!(help.code, Some(0));
    for text in [
        "The way to the server:",
        "What the client offers:",
        "What is asked:",
        "http-get",
        "disable-early-data",
        "noverify",
        "--rtt",
        "--fleet",
        "--diagnose",
    ] {
        assert!(help.out.contains(text), "{text} is not in\n{}", help.out);
    }
}

#[test]
fn a_target_right_behind_the_short_option_for_more_is_still_the_target() {
    let place = Place::new();
    let nobody = format!("127.0.0.1:{}", free_port());
    let ran = place.tollgate(&["probe", "-v", &nobody]);
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(ran.err.contains(&nobody), "{}", ran.all());
    let ran = place.tollgate(&["probe", "-v", "one.test", "another.test"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("one target too many"), "{}", ran.all());
    let ran = place.tollgate(&["probe", "-v", "1"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("no server to probe"), "{}", ran.all());
}
