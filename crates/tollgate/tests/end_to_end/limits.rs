//! Bounds: slow clients, too many clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_testkit::{Address, Backend, Offer, http_backend, tcp_echo_backend};

use crate::server::{Place, Server, get};
use crate::tools::eventually;

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

/// Whether the other side ended the connection within `bound`.
fn ended(stream: &mut impl Read, bound: Duration) -> bool {
    let started = Instant::now();
    let mut piece = [0; 4096];
    while started.elapsed() < bound {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                );
            }
        }
    }
    false
}

#[test]
fn clients_that_are_slow_to_shake_hands_are_gone() {
    let (server, _backend) = served("timeouts: { handshake: 1s }\n");
    let connect = || {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        stream
    };
    let mut silent = connect();
    let mut half = connect();
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        .unwrap();
    let mut dripping = connect();
    let dripper = {
        let mut writer = dripping.try_clone().unwrap();
        std::thread::spawn(move || {
            for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
                .iter()
                .chain(&[0; 100])
            {
                if writer.write_all(&[*byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        })
    };
    assert!(ended(&mut silent, Duration::from_secs(10)));
    assert!(ended(&mut half, Duration::from_secs(10)));
    assert!(ended(&mut dripping, Duration::from_secs(10)));
    dripper.join().unwrap();
    assert!(server.get("/").is_ok());
    assert!(server.wait_metrics(|metrics| {
        metrics.sum("tollgate_handshake_failures_total", &[])
            + metrics.sum("tollgate_connections_refused_total", &[])
            >= 3.0
    }));
}

#[test]
fn clients_that_are_slow_with_heads_and_bodies_are_gone() {
    let (server, _backend) =
        served("timeouts: { header: 1s, idle: 2s, stall: 1s, min_rate: 1000 }\n");
    let mut idle = server.connect();
    let mut head = server.connect();
    head.write_all(b"GET / HTTP/1.1\r\nhost: shop").unwrap();
    let mut kept = server.connect();
    kept.exchange(&get("/")).unwrap();
    kept.write_all(b"GET / HT").unwrap();
    let mut body = server.connect();
    body.write_all(b"POST / HTTP/1.1\r\nhost: shop.test\r\ncontent-length: 100000\r\n\r\nabc")
        .unwrap();
    for (what, connection) in [
        ("idle", &mut idle),
        ("head", &mut head),
        ("kept", &mut kept),
        ("body", &mut body),
    ] {
        assert!(ended(connection, Duration::from_secs(15)), "{what}");
    }
    assert!(server.get("/").is_ok());
    let line = server.wait_log(|line| line["end"] == "client_stalled" || line["end"] == "timeout");
    assert!(line["client"].is_string(), "{line}");
}

#[test]
fn a_client_that_does_not_read_is_gone() {
    let (server, _backend) = served("timeouts: { stall: 1s, min_rate: 1000 }\n");
    let mut connection = server.connect();
    connection
        .write_all(get("/bytes/200000000").as_bytes())
        .unwrap();
    let gone = || server.metrics().sum("tollgate_connections", &[]) < 0.5;
    assert!(
        eventually(Duration::from_secs(20), gone),
        "{:?}",
        server.metrics().series("tollgate_connections")
    );
}

#[test]
fn a_slow_but_steady_body_is_served() {
    let (server, _backend) = served("timeouts: { stall: 2s, min_rate: 100 }\n");
    let mut connection = server.connect();
    connection
        .write_all(b"POST / HTTP/1.1\r\nhost: shop.test\r\ncontent-length: 12000\r\n\r\n")
        .unwrap();
    for _ in 0..12 {
        connection.write_all(&[b'a'; 1000]).unwrap();
        std::thread::sleep(Duration::from_millis(400));
    }
    assert!(
        connection
            .answer()
            .unwrap()
            .contains("\"body_bytes\":12000")
    );
}

#[test]
fn a_slow_backend_is_not_the_clients_fault() {
    let (server, _backend) =
        served("timeouts: { header: 1s, idle: 1s, stall: 1s, min_rate: 1000 }\n");
    let mut connection = server.connect();
    let answer = connection.exchange(&get("/slow/4000")).unwrap();
    assert!(answer.contains("slow"), "{answer}");
}

#[test]
fn an_idle_tcp_connection_ends_in_time() {
    let backend = tcp_echo_backend(&Address::Loopback, None, false);
    let place = Place::new();
    let mut config = place.config("tcp", &[backend.address()]);
    config.push_str("timeouts: { tcp_idle: 1s }\n");
    let server = Server::start(place, &config);
    let mut connection = server.connect();
    connection.write_all(b"x").unwrap();
    assert!(ended(&mut connection, Duration::from_secs(15)));
}

#[test]
fn connections_beyond_the_limit_wait_until_one_ends() {
    let (server, _backend) = served("limits: { connections: 4 }\nworkers: { count: 1 }\n");
    let mut kept: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut kept {
        connection.exchange(&get("/")).unwrap();
    }
    // The fifth waits in the kernel's queue; nobody reads its hello.
    let fifth = TcpStream::connect(server.address()).unwrap();
    assert!(
        !server
            .metrics()
            .series("tollgate_connections_total")
            .is_empty()
            && server.metrics().sum("tollgate_connections_total", &[]) < 4.5
    );
    for connection in &mut kept {
        assert!(connection.exchange(&get("/")).is_ok());
    }
    drop(kept);
    let client = server.client(&Offer::default());
    let mut fifth = client.over(fifth.into(), "shop.test").unwrap();
    assert!(fifth.exchange(&get("/")).is_ok());
}

#[test]
fn one_address_may_not_take_all_connections() {
    let (server, _backend) =
        served("limits: { connections_per_client: 3 }\nworkers: { count: 1 }\n");
    let kept: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert!(server.get("/").is_err());
    // 127.0.0.2 is another client.
    let ran = server.curl(&["--interface", "127.0.0.2", "https://shop.test/"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    drop(kept);
    assert!(eventually(Duration::from_secs(10), || server
        .get("/")
        .is_ok()));
}

/// HTTP/2 frames by hand: kind, flags, stream and payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Whether the server ended the connection while these frames were sent again and again.
fn flooded(server: &Server, rounds: u32, round: impl Fn(u32) -> Vec<u8>) -> bool {
    let offer = Offer {
        alpn: &["h2"],
        ..Offer::default()
    };
    let client = server.client(&offer);
    let mut connection = client.connect(server.address(), "shop.test").unwrap();
    let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    start.extend(frame(4, 0, 0, &[]));
    connection.write_all(&start).unwrap();
    for number in 0..rounds {
        if connection.write_all(&round(number)).is_err() {
            return true;
        }
    }
    let (bytes, error) = connection.rest_and_end();
    // A GOAWAY with an error code, or an end without one.
    error.is_some() || bytes.windows(4).any(|window| window == [0, 0, 8, 7]) || !bytes.is_empty()
}

#[test]
fn floods_of_http2_frames_end_their_connection_and_nothing_else() {
    let (server, backend) = served("timeouts: { idle: 3s, header: 3s }\n");
    let mut steady = server.connect();
    // :method GET, :scheme https, :path /, :authority shop.test
    let mut head = vec![0x82, 0x87, 0x84, 0x41, 9];
    head.extend(b"shop.test");
    // CVE-2023-44487: streams opened and reset at once.
    assert!(flooded(&server, 5000, |number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(1, 5, stream, &head);
        bytes.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
        bytes
    }));
    let seen = backend.seen().heads().len();
    assert!(
        seen < 1000,
        "{seen} of 5000 reset requests reached the backend"
    );
    // CVE-2024-27316: a head that goes on in CONTINUATION frames for ever.
    assert!(flooded(&server, 2000, |number| {
        if number == 0 {
            frame(1, 1, 1, &head)
        } else {
            let mut more = vec![0x40, 1, b'x', 127, 0x81, 0x07];
            more.extend([b'a'; 1024]);
            frame(9, 0, 1, &more)
        }
    }));
    assert!(steady.exchange(&get("/status/200")).is_ok());
}
