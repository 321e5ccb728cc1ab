//! What strangers send, and what the host runs out of.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server, binary, get};
use crate::tools::eventually;

fn served() -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend)
}

/// Sends `bytes` in the clear and reads until the server ends the connection.
fn raw(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
    }
    answer
}

#[test]
fn plain_http_on_the_tls_port_is_told_so() {
    let (server, _backend) = served();
    let port = server.place.port;
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", &format!("http://127.0.0.1:{port}/")]);
    let ran = crate::tools::run(&mut command, b"");
    assert!(
        ran.out.starts_with("HTTP/1.1 400") || ran.out.starts_with("HTTP/1.0 400"),
        "{}",
        ran.all()
    );
    assert!(
        ran.out.contains("https"),
        "a sentence that says what to do: {}",
        ran.all()
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    for request in [
        "POST /x HTTP/1.1\r\nhost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = String::from_utf8_lossy(&raw(&server, request.as_bytes())).into_owned();
        assert!(answer.contains(" 400 "), "{request}: {answer}");
    }
    assert!(server.get("/").is_ok());
}

/// A ClientHello with these extensions, in one record.
fn hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1];
    message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    record.extend(message);
    record
}

/// A `server_name` extension with these bytes as host name.
fn server_name(name: &[u8]) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap();
    let mut extension = vec![0, 0];
    extension.extend((length + 5).to_be_bytes());
    extension.extend((length + 3).to_be_bytes());
    extension.push(0);
    extension.extend(length.to_be_bytes());
    extension.extend(name);
    extension
}

#[test]
fn garbage_instead_of_a_hello_ends_only_its_own_connection() {
    let (server, _backend) = served();
    let mut steady = server.connect();
    let long_name = vec![b'a'; 300];
    let many_labels = "a.".repeat(126);
    let cases: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0; 100],
        vec![0xff; 20_000],
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        b"\x16\x03\x01\xff\xff".to_vec(),
        b"\x16\x03\x01\x00\x00".repeat(20_000),
        [
            b"\x16\x03\x01\x40\x00\x01\xff\xff\xff".as_slice(),
            &[0; 16_379],
        ]
        .concat(),
        hello(&[]),
        hello(&server_name(b"")),
        hello(&server_name(b"\0\r\n\x1b[31m")),
        hello(&server_name(&long_name)),
        hello(&server_name(many_labels.as_bytes())),
        hello(&server_name(b"127.0.0.1")),
        hello(&[0, 0, 0, 200, 1, 2, 3]),
        hello(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 0]),
        hello(&server_name(b"shop.test"))[..30].to_vec(),
        // An alert and application data, where a hello is due.
        vec![21, 3, 3, 0, 2, 1, 0],
        vec![23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    ];
    for case in &cases {
        let answer = raw(&server, case);
        assert!(
            answer.is_empty() || (answer.len() == 7 && answer[0] == 21 && answer[5] == 2),
            "{:?}... was answered by {answer:?}",
            &case[..case.len().min(40)]
        );
        assert!(steady.exchange(&get("/status/200")).is_ok());
    }
    // A hello that is whole but wrong gets an alert, not a bare end.
    assert_eq!(
        raw(&server, &hello(&[0, 0, 0, 200, 1, 2, 3])).first(),
        Some(&21)
    );
    assert!(server.get("/").is_ok());
    // Whatever names were sent, the log's lines are lines and its JSON is JSON.
    assert!(
        server
            .wait_metrics(|metrics| metrics.sum("tollgate_handshake_failures_total", &[]) >= 10.0)
    );
    assert!(server.log().len() > 5);
    assert!(!server.place.folder.read("access.log").contains('\x1b'));
}

#[test]
fn a_full_disk_costs_log_lines_and_nothing_else() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let mut config = place.config("http", &[&format!("http://{}", backend.address())]);
    config.push_str("log: { access: /dev/full }\n");
    let server = Server::start(place, &config);
    for _ in 0..50 {
        assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
    }
    assert!(
        server.wait_metrics(|metrics| metrics.sum("tollgate_log_lines_dropped_total", &[]) >= 50.0)
    );
}

#[test]
fn out_of_file_descriptors_it_waits_and_recovers() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config =
        place.write_config(&place.config("http", &[&format!("http://{}", backend.address())]));
    // A limit that the process cannot raise.
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg("ulimit -n 120 && exec \"$0\" serve \"$1\"")
        .arg(binary())
        .arg(&config);
    let mut server = Server::spawn(place, &mut command);
    server.wait_ready();
    let mut steady = server.connect();
    steady.exchange(&get("/")).unwrap();
    let held: Vec<TcpStream> = (0..300)
        .filter_map(|_| TcpStream::connect(server.address()).ok())
        .collect();
    assert!(held.len() > 100);
    for _ in 0..20 {
        let answer = steady.exchange(&get("/status/200")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(server.runs(), "{}", server.stderr());
    drop(held);
    assert!(
        eventually(Duration::from_secs(20), || server
            .get("/")
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))),
        "{}",
        server.stderr()
    );
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    let port = taken.local_addr().unwrap().port();
    let text = place
        .config("http", &["http://127.0.0.1:1"])
        .replace(&place.port.to_string(), &port.to_string());
    place.write_config(&text);
    let ran = place.tollgate(&["serve", "tls.yaml"]);
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(
        ran.err.contains(&port.to_string()) && ran.err.contains("in use"),
        "{}",
        ran.all()
    );
}

#[test]
fn a_console_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    let port = taken.local_addr().unwrap().port();
    let mut text = place.config("http", &["http://127.0.0.1:1"]);
    text.push_str(&format!("console: \"127.0.0.1:{port}\"\n"));
    place.write_config(&text);
    let ran = place.tollgate(&["serve", "tls.yaml"]);
    assert_ne!(ran.code, Some(0), "{}", ran.all());
    assert!(
        ran.err.contains(&port.to_string()) && ran.err.contains("in use"),
        "{}",
        ran.all()
    );
}
