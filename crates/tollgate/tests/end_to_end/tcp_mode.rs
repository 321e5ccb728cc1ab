//! TCP mode: bytes in, the same bytes out.

use std::io::{Read, Write};

use tollgate_testkit::{
    Address, Authority, Backend, BackendTls, LeafKind, Offer, tcp_echo_backend,
};

use crate::server::{NAMES, Place, Server};

fn served() -> (Server, Backend) {
    let backend = tcp_echo_backend(&Address::Loopback, None, false);
    let place = Place::new();
    let config = place.config("tcp", &[backend.address()]);
    (Server::start(place, &config), backend)
}

#[test]
fn bytes_are_relayed_both_ways() {
    let (server, _backend) = served();
    for tls12 in [false, true] {
        let client = server.client(&Offer {
            tls12,
            ..Offer::default()
        });
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        for size in [1, 100, 16_384, 100_000] {
            let message = vec![b'm'; size];
            connection.write_all(&message).unwrap();
            let mut back = vec![0; size];
            connection.read_exact(&mut back).unwrap();
            assert!(back == message, "{size}");
        }
    }
}

#[test]
fn half_close_by_close_notify_leaves_the_other_way_open() {
    let (server, _backend) = served();
    for tls12 in [false, true] {
        let client = server.client(&Offer {
            tls12,
            ..Offer::default()
        });
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.write_all(b"hello ").unwrap();
        connection.close_notify().unwrap();
        assert_eq!(connection.rest().unwrap(), b"hello bye", "tls12: {tls12}");
    }
    let line = server.wait_log(|line| line["event"] == "connection");
    assert_eq!(line["end"], "complete", "{line}");
    assert_eq!(line["protocol"], "tcp");
    assert_eq!(line["request_bytes"], 6);
    assert_eq!(line["response_bytes"], 9);
}

#[test]
fn a_backend_that_speaks_first_is_heard() {
    let backend = tollgate_testkit::recording_backend(&Address::Loopback, b"welcome");
    let place = Place::new();
    let config = place.config("tcp", &[&format!("tcp://{}", backend.address())]);
    let server = Server::start(place, &config);
    let mut connection = server.connect();
    connection.write_all(b"a").unwrap();
    let mut word = [0; 7];
    connection.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"welcome");
}

#[test]
fn a_slow_reader_slows_the_backend_and_loses_nothing() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    let mut sum = 0_u64;
    let mut expected = 0_u64;
    // 8 MB in flight is more than all buffers between hold, so somebody has to wait.
    for round in 0..64_u64 {
        let message: Vec<u8> = (0..131_072_u64)
            .map(|n| ((n + round) % 256) as u8)
            .collect();
        expected += message.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let mut left = message.as_slice();
        while !left.is_empty() {
            let part = left.len().min(16_384);
            connection.write_all(&left[..part]).unwrap();
            left = &left[part..];
            let mut back = vec![0; part];
            connection.read_exact(&mut back).unwrap();
            sum += back.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
    }
    assert_eq!(sum, expected);
}

#[test]
fn unix_sockets_by_path_and_name_are_backends() {
    let place = Place::new();
    let path = Address::UnixPath(place.folder.join("app.sock"));
    let name = Address::UnixAbstract(format!("tollgate-tcp-{}", place.port));
    let one = tcp_echo_backend(&path, None, false);
    let two = tcp_echo_backend(&name, None, false);
    let config = place.config("tcp", &[one.address(), two.address()]);
    let server = Server::start(place, &config);
    for _ in 0..8 {
        let mut connection = server.connect();
        connection.write_all(b"x").unwrap();
        connection.close_notify().unwrap();
        assert_eq!(connection.rest().unwrap(), b"xbye");
    }
    for backend in [&one, &two] {
        assert!(
            backend
                .seen()
                .wait(|seen| tollgate_testkit::Seen::count(&seen.connections) > 0)
        );
    }
}

#[test]
fn tls_towards_the_backend_resumes() {
    let place = Place::new();
    let other = Authority::new("backends");
    place.folder.write("backend-ca.pem", other.root_pem());
    let leaf = other.server(LeafKind::EcdsaP256, &["app.internal"]);
    let backend = tcp_echo_backend(
        &Address::Loopback,
        Some(BackendTls::new(&leaf, None, &[])),
        false,
    );
    let mut config = place.listener("tcp");
    config.push_str("sites:\n  - names: [\"shop.test\"]\n    certificates: [{ chain: ecdsa.pem, key: ecdsa.key }]\n");
    config.push_str(&format!("    backends:\n      - address: \"tls://{}\"\n        tls: {{ name: app.internal, ca: backend-ca.pem }}\n", backend.address()));
    config.push_str("workers: { count: 1 }\n");
    let server = Server::start(place, &config);
    for _ in 0..6 {
        let mut connection = server.connect();
        connection.write_all(b"x").unwrap();
        connection.close_notify().unwrap();
        assert_eq!(connection.rest().unwrap(), b"xbye");
    }
    let seen = backend.seen();
    assert!(
        seen.wait(|seen| tollgate_testkit::Seen::count(&seen.tls_resumed) >= 5),
        "{seen:?}"
    );
}

#[test]
fn alpn_is_offered_as_configured() {
    let backend = tcp_echo_backend(&Address::Loopback, None, false);
    let place = Place::new();
    let config = place.config_with(
        "tcp",
        &[backend.address()],
        "    alpn: [\"mqtt\", \"x-own\"]\n",
    );
    let server = Server::start(place, &config);
    let client = server.client(&Offer {
        alpn: &["x-own", "mqtt"],
        ..Offer::default()
    });
    let connection = client.connect(server.address(), "shop.test").unwrap();
    assert_eq!(connection.alpn().as_deref(), Some("mqtt"));
}

#[test]
fn a_client_that_vanishes_ends_the_backends_connection() {
    let (server, backend) = served();
    let mut connection = server.connect();
    connection.write_all(b"x").unwrap();
    let mut back = [0; 1];
    connection.read_exact(&mut back).unwrap();
    drop(connection);
    assert!(
        backend
            .seen()
            .wait(|seen| tollgate_testkit::Seen::count(&seen.open) == 0)
    );
    let line = server.wait_log(|line| line["event"] == "connection");
    assert_eq!(line["end"], "client_closed", "{line}");
}

#[test]
fn a_dead_backend_closes_the_connection_and_says_why_in_the_log() {
    let place = Place::new();
    let dead = tollgate_testkit::free_port();
    let config = place.config("tcp", &[&format!("127.0.0.1:{dead}")]);
    let server = Server::start(place, &config);
    let mut connection = server.connect();
    let (bytes, _) = connection.rest_and_end();
    assert!(bytes.is_empty());
    let line = server.wait_log(|line| line["event"] == "connection");
    assert_eq!(line["end"], "backend_failed", "{line}");
    assert!(
        line["error"]
            .as_str()
            .is_some_and(|text| text.contains(&dead.to_string())),
        "{line}"
    );
}

#[test]
fn a_passthrough_site_keeps_its_own_tls() {
    let place = Place::new();
    let own = Authority::new("own tls");
    let leaf = own.server(LeafKind::EcdsaP256, &["keeps.test"]);
    let keeper = tcp_echo_backend(
        &Address::Loopback,
        Some(BackendTls::new(&leaf, None, &[])),
        false,
    );
    let plain = tcp_echo_backend(&Address::Loopback, None, false);
    let mut config = place.listener("tcp");
    config.push_str("sites:\n");
    config.push_str(&place.site(&NAMES[..1], &[plain.address()]));
    config.push_str(&format!(
        "  - names: [\"keeps.test\"]\n    mode: passthrough\n    backends: [\"{}\"]\n",
        keeper.address()
    ));
    let server = Server::start(place, &config);
    let client = tollgate_testkit::Client::new(
        &own,
        &Offer {
            resume: true,
            ..Offer::default()
        },
    );
    for round in 0..3 {
        let mut connection = client.connect(server.address(), "keeps.test").unwrap();
        connection.write_all(b"y").unwrap();
        connection.close_notify().unwrap();
        assert_eq!(connection.rest().unwrap(), b"ybye");
        assert_eq!(
            connection.resumed(),
            round > 0,
            "the backend's own resumption works through it"
        );
    }
    let mut connection = server.connect();
    connection.write_all(b"x").unwrap();
    connection.close_notify().unwrap();
    assert_eq!(connection.rest().unwrap(), b"xbye");
    let line = server.wait_log(|line| line["protocol"] == "passthrough");
    assert_eq!(line["server_name"], "keeps.test", "{line}");
    assert!(line.get("tls_suite").is_none(), "{line}");
}
