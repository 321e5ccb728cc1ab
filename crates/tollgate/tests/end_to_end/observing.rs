//! The access log.

use std::io::Write;

use tollgate_testkit::{Address, Backend, Offer, http_backend, tcp_echo_backend};

use crate::server::{Place, Server, get};
use crate::tools::eventually;

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

#[test]
fn a_request_line_says_what_the_handshake_and_the_exchange_were() {
    let (server, backend) = served("");
    let client = server.client(&Offer {
        alpn: &["http/1.1"],
        ..Offer::default()
    });
    let mut connection = client.connect(server.address(), "shop.test").unwrap();
    connection
        .exchange("POST /path?q=1 HTTP/1.1\r\nhost: shop.test\r\ncontent-length: 5\r\n\r\nhello")
        .unwrap();
    let line = server.wait_log(|line| line["event"] == "request");
    for (key, value) in [
        ("site", "shop.test"),
        ("server_name", "shop.test"),
        ("tls_version", "TLSv1.3"),
        ("tls_suite", "TLS_AES_128_GCM_SHA256"),
        ("tls_group", "X25519MLKEM768"),
        ("tls_certificate", "ecdsa-p256"),
        ("tls_kind", "full"),
        ("tls_miss", "nothing_offered"),
        ("alpn", "http/1.1"),
        ("protocol", "HTTP/1.1"),
        ("method", "POST"),
        ("host", "shop.test"),
        ("path", "/path?q=1"),
        ("end", "complete"),
    ] {
        assert_eq!(line[key], value, "{key} in {line}");
    }
    assert_eq!(line["status"], 200);
    assert_eq!(line["request_bytes"], 5, "{line}");
    assert!(line["response_bytes"].as_u64().unwrap() > 100, "{line}");
    assert_eq!(line["tls_resumed"], false);
    assert!(
        line["client"].as_str().unwrap().starts_with("127.0.0.1"),
        "{line}"
    );
    assert!(
        line["backend"]
            .as_str()
            .unwrap()
            .contains(backend.address()),
        "{line}"
    );
    let time = line["time"].as_str().unwrap();
    assert!(
        time.len() == 24 && time.ends_with('Z') && time.contains('T'),
        "{time}"
    );
    for key in ["handshake_us", "total_us"] {
        assert!(
            line[key].as_u64().is_some_and(|micros| micros > 0),
            "{key} in {line}"
        );
    }
}

#[test]
fn what_clients_send_cannot_make_lines() {
    let (server, _backend) = served("");
    let path = "/a\"b\\c%0a%0dd\u{7f}";
    let mut connection = server.connect();
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop.test\r\nuser-agent: x\r\n\r\n");
    let _ = connection.exchange(&request);
    server.get("/after").unwrap();
    server.wait_log(|line| line["path"] == "/after");
    let text = server.place.folder.read("access.log");
    assert!(
        text.chars()
            .all(|character| character == '\n' || !character.is_control()),
        "{text:?}"
    );
    assert!(server.log().len() <= 3, "{text}");
}

#[test]
fn logfmt_says_the_same() {
    let (server, _backend) = served("log: { access: access.log, format: logfmt }\n");
    server.get("/path?q=\"x\"").unwrap_or_default();
    server.get("/plain").unwrap();
    assert!(eventually(std::time::Duration::from_secs(10), || server
        .place
        .folder
        .read("access.log")
        .contains("/plain")));
    let text = server.place.folder.read("access.log");
    let line = text.lines().find(|line| line.contains("/plain")).unwrap();
    for part in [
        "event=request",
        "path=/plain",
        "status=200",
        "tls_version=TLSv1.3",
        "end=complete",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn a_sample_of_none_still_logs_errors() {
    let (server, _backend) = served("log: { access: access.log, sample: 0 }\n");
    for _ in 0..5 {
        server.get("/fine").unwrap();
    }
    server.get("/die").unwrap_or_default();
    let line = server.wait_log(|line| line["path"] == "/die");
    assert_eq!(line["status"], 502);
    assert!(server.log().iter().all(|line| line["path"] != "/fine"));
}

#[test]
fn the_log_can_go_to_standard_output() {
    let (server, _backend) = served("log: { access: stdout }\n");
    server.get("/stdout").unwrap();
    assert!(eventually(std::time::Duration::from_secs(10), || server
        .stdout()
        .contains("/stdout")));
}

#[test]
fn a_connection_line_has_bytes_times_and_its_end() {
    let backend = tcp_echo_backend(&Address::Loopback, None, false);
    let place = Place::new();
    let config = place.config("tcp", &[backend.address()]);
    let server = Server::start(place, &config);
    let mut connection = server.connect();
    connection.write_all(&[b'x'; 1000]).unwrap();
    connection.close_notify().unwrap();
    connection.rest().unwrap();
    let line = server.wait_log(|line| line["event"] == "connection");
    assert_eq!(line["request_bytes"], 1000);
    assert_eq!(line["response_bytes"], 1003);
    assert_eq!(line["end"], "complete");
    assert_eq!(line["tls_version"], "TLSv1.3");
    assert!(
        line["total_us"].as_u64().is_some_and(|micros| micros > 0),
        "{line}"
    );
}

#[test]
fn a_client_that_leaves_in_the_middle_is_seen_as_such() {
    let (server, _backend) = served("");
    let mut connection = server.connect();
    connection
        .write_all(get("/drip/100/50").as_bytes())
        .unwrap();
    let mut piece = [0; 500];
    std::io::Read::read_exact(&mut connection, &mut piece).unwrap();
    drop(connection);
    let line = server.wait_log(|line| line["path"] == "/drip/100/50");
    assert_eq!(line["end"], "client_closed", "{line}");
}
