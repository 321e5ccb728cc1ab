//! PROXY headers, sent and received.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_testkit::{Address, Backend, Client, Offer, Validity, http_backend, tcp_echo_backend};

use crate::server::{Place, Server, described, get, seen_header};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn backend_entry(backend: &Backend, version: &str) -> String {
    format!(
        "    backends:\n      - address: \"{}\"\n        proxy_protocol: {version}\n",
        backend.address()
    )
}

fn config(place: &Place, mode: &str, backend: &Backend, version: &str) -> String {
    let mut config = place.listener(mode);
    config.push_str("sites:\n  - names: [\"shop.test\"]\n    certificates: [{ chain: ecdsa.pem, key: ecdsa.key }]\n");
    config.push_str(&backend_entry(backend, version));
    config
}

/// The TLVs of a v2 header for TCP over IPv4.
fn tlvs(header: &[u8]) -> Vec<(u8, Vec<u8>)> {
    assert!(header.starts_with(SIGNATURE));
    assert_eq!(&header[12..14], [0x21, 0x11]);
    split(&header[28..])
}

fn split(mut rest: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while rest.len() >= 3 {
        let length = usize::from(u16::from_be_bytes([rest[1], rest[2]]));
        found.push((rest[0], rest[3..3 + length].to_vec()));
        rest = &rest[3 + length..];
    }
    found
}

fn tlv(tlvs: &[(u8, Vec<u8>)], kind: u8) -> Option<String> {
    tlvs.iter()
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

#[test]
fn version_1_is_sent_to_both_kinds_of_backend() {
    for mode in ["tcp", "http"] {
        let place = Place::new();
        let backend = if mode == "tcp" {
            tcp_echo_backend(&Address::Loopback, None, true)
        } else {
            http_backend(&Address::Loopback, None, "one", true)
        };
        let text = config(&place, mode, &backend, "v1");
        let server = Server::start(place, &text);
        let mut connection = server.connect();
        connection.write_all(get("/status/200").as_bytes()).unwrap();
        assert!(backend.seen().wait(|seen| !seen.prefaces().is_empty()));
        let line = String::from_utf8(backend.seen().prefaces()[0].clone()).unwrap();
        let parts: Vec<_> = line.trim_end().split(' ').collect();
        assert_eq!(
            parts[..4],
            ["PROXY", "TCP4", "127.0.0.1", "127.0.0.1"],
            "{line}"
        );
        assert_eq!(parts[5], server.place.port.to_string(), "{line}");
        drop(connection.read(&mut [0; 100]));
    }
}

#[test]
fn version_2_says_what_the_handshake_was() {
    let place = Place::new();
    let clients = tollgate_testkit::Authority::new("clients");
    place.folder.write("clients.pem", clients.root_pem());
    let backend = tcp_echo_backend(&Address::Loopback, None, true);
    let mut text = config(&place, "tcp", &backend, "v2");
    text.push_str(
        "    alpn: [\"x-own\"]\n    client_certificates: { mode: optional, ca: clients.pem }\n",
    );
    let server = Server::start(place, &text);
    let alice = clients.client("alice", Validity::Now);
    let offer = Offer {
        alpn: &["x-own"],
        leaf: Some(&alice),
        ..Offer::default()
    };
    let mut connection = server
        .client(&offer)
        .connect(server.address(), "shop.test")
        .unwrap();
    connection.write_all(b"x").unwrap();
    assert!(backend.seen().wait(|seen| !seen.prefaces().is_empty()));
    let header = backend.seen().prefaces()[0].clone();
    assert_eq!(&header[16..20], [127, 0, 0, 1]);
    assert_eq!(
        u16::from_be_bytes([header[26], header[27]]),
        server.place.port
    );
    let tlvs = tlvs(&header);
    assert_eq!(
        tlv(&tlvs, 0x01).as_deref(),
        Some("x-own"),
        "ALPN in {tlvs:?}"
    );
    assert_eq!(
        tlv(&tlvs, 0x02).as_deref(),
        Some("shop.test"),
        "authority in {tlvs:?}"
    );
    let ssl = &tlvs
        .iter()
        .find(|(kind, _)| *kind == 0x20)
        .expect("PP2_TYPE_SSL")
        .1;
    // PP2_CLIENT_SSL, _CERT_CONN and _CERT_SESS; the certificate was verified.
    assert_eq!(ssl[0] & 0x03, 0x03, "{ssl:?}");
    assert_eq!(ssl[1..5], [0, 0, 0, 0], "{ssl:?}");
    let inner = split(&ssl[5..]);
    assert_eq!(tlv(&inner, 0x21).as_deref(), Some("TLSv1.3"), "{inner:?}");
    assert_eq!(tlv(&inner, 0x22).as_deref(), Some("alice"), "{inner:?}");
    assert!(
        tlv(&inner, 0x23).is_some_and(|suite| suite.contains("AES")),
        "{inner:?}"
    );
}

/// A server that trusts 127.0.0.2 only, or every loopback address, to send PROXY headers.
fn receiving(trust: &str) -> (Server, Backend) {
    let place = Place::new();
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let text = place
        .config("http", &[&format!("http://{}", backend.address())])
        .replace(
            "    mode: http\n",
            &format!("    mode: http\n    proxy_protocol: [\"{trust}\"]\n"),
        );
    (Server::start(place, &text), backend)
}

fn through(server: &Server, header: &[u8]) -> std::io::Result<String> {
    let client: Client = server.client(&Offer::default());
    let mut stream = TcpStream::connect(server.address())?;
    stream.write_all(header)?;
    client.over(stream.into(), "shop.test")?.exchange(&get("/"))
}

fn version_2(command: u8, source: [u8; 4]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([0x20 | command, 0x11]);
    let mut body = source.to_vec();
    body.extend([192, 0, 2, 1]);
    body.extend(4444_u16.to_be_bytes());
    body.extend(443_u16.to_be_bytes());
    // A NOOP that a reader must skip.
    body.extend([0x04, 0, 3, 1, 2, 3]);
    header.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    header.extend(body);
    header
}

#[test]
fn headers_of_trusted_peers_name_the_client() {
    let (server, _backend) = receiving("127.0.0.0/8");
    for header in [
        b"PROXY TCP4 203.0.113.9 192.0.2.1 4444 443\r\n".to_vec(),
        version_2(1, [203, 0, 113, 9]),
    ] {
        let seen = described(&through(&server, &header).unwrap());
        assert_eq!(seen_header(&seen, "x-forwarded-for"), ["203.0.113.9"]);
    }
    let seen = described(&through(&server, b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n").unwrap());
    assert_eq!(seen_header(&seen, "x-forwarded-for"), ["2001:db8::1"]);
    let line = server.wait_log(|line| {
        line["client"]
            .as_str()
            .is_some_and(|client| client.contains("203.0.113.9"))
    });
    assert_eq!(line["status"], 200);
}

#[test]
fn a_local_or_unknown_header_leaves_the_peers_address() {
    let (server, _backend) = receiving("127.0.0.0/8");
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        version_2(0, [203, 0, 113, 9]),
    ] {
        let seen = described(&through(&server, &header).unwrap());
        assert_eq!(seen_header(&seen, "x-forwarded-for"), ["127.0.0.1"]);
    }
}

#[test]
fn a_header_in_single_bytes_is_read() {
    let (server, _backend) = receiving("127.0.0.0/8");
    let client = server.client(&Offer::default());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in version_2(1, [203, 0, 113, 7]) {
        stream.write_all(&[byte]).unwrap();
    }
    let answer = client
        .over(stream.into(), "shop.test")
        .unwrap()
        .exchange(&get("/"))
        .unwrap();
    assert_eq!(
        seen_header(&described(&answer), "x-forwarded-for"),
        ["203.0.113.7"]
    );
}

#[test]
fn strangers_may_not_send_one() {
    let (server, _backend) = receiving("192.0.2.0/24");
    assert!(through(&server, b"PROXY TCP4 203.0.113.9 192.0.2.1 4444 443\r\n").is_err());
    assert!(through(&server, &version_2(1, [203, 0, 113, 9])).is_err());
    assert!(server.get("/").is_ok());
}

#[test]
fn a_trusted_peer_must_send_one_and_garbage_ends_only_its_own_connection() {
    let (server, _backend) = receiving("127.0.0.0/8");
    let good = b"PROXY TCP4 203.0.113.9 192.0.2.1 4444 443\r\n";
    for garbage in [
        b"".to_vec(),
        b"PROXY TCP4 203.0.113.999 192.0.2.1 4444 443\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.9 192.0.2.1 4444\r\n".to_vec(),
        [b"PROXY TCP4 ".as_slice(), &[b'1'; 300]].concat(),
        [SIGNATURE, &[0x51, 0x11, 0, 12], &[0; 12]].concat(),
        [SIGNATURE, &[0x21, 0x11, 0xff, 0xff], &[0; 5000]].concat(),
        [SIGNATURE, &[0x21, 0x11, 0, 4], &[0; 4]].concat(),
    ] {
        assert!(through(&server, &garbage).is_err(), "{garbage:?}");
        assert!(through(&server, good).is_ok());
    }
    assert!(
        server.wait_metrics(|metrics| {
            metrics.sum("tollgate_connections_refused_total", &[])
                + metrics.sum("tollgate_handshake_failures_total", &[])
                >= 7.0
        }),
        "{:?}",
        server.metrics()
    );
}
