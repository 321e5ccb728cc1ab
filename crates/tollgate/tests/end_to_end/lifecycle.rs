//! The end of a process, and its replacement.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use tollgate_testkit::{Address, Backend, Offer, http_backend};

use crate::reload::Load;
use crate::server::{Place, Server, get, signal};
use crate::tools::eventually;

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

#[test]
fn sigterm_lets_a_download_end_and_then_leaves() {
    let (mut server, _backend) = served("");
    let mut idle = server.connect();
    idle.exchange(&get("/")).unwrap();
    let mut connection = server.connect();
    connection.write_all(get("/drip/30/50").as_bytes()).unwrap();
    let mut first = [0; 1000];
    assert!(connection.read(&mut first).unwrap() > 0);
    server.signal("TERM");
    let address = server.address();
    assert!(eventually(Duration::from_secs(5), || {
        std::net::TcpStream::connect(address).is_err()
    }));
    let (bytes, _) = connection.rest_and_end();
    assert!(
        String::from_utf8_lossy(&bytes).ends_with("0\r\n\r\n"),
        "the download was cut"
    );
    assert_eq!(
        server.wait_exit(Duration::from_secs(20)),
        Some(0),
        "{}",
        server.stderr()
    );
}

#[test]
fn while_draining_http2_clients_hear_goaway_and_their_streams_end_well() {
    let (mut server, _backend) = served("");
    let url = "https://shop.test/drip/30/50";
    std::thread::scope(|scope| {
        let curl = scope.spawn(|| server.curl(&["--http2", "-v", "-o", "body", url]));
        server.wait_metrics(|metrics| metrics.sum("tollgate_connections", &[]) >= 1.0);
        signal(server.pid(), "TERM");
        let ran = curl.join().unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.all());
    });
    assert_eq!(server.place.folder.read("body").len(), 30_000);
    assert_eq!(
        server.wait_exit(Duration::from_secs(20)),
        Some(0),
        "{}",
        server.stderr()
    );
}

#[test]
fn a_busy_http1_connection_is_told_to_close() {
    let (mut server, _backend) = served("");
    let mut connection = server.connect();
    connection.write_all(get("/slow/1500").as_bytes()).unwrap();
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_connections", &[]) >= 1.0));
    // The request is at the backend once it has written its head there.
    assert!(_backend.seen().wait(|seen| !seen.heads().is_empty()));
    server.signal("TERM");
    let answer = connection.answer().unwrap().to_ascii_lowercase();
    assert!(answer.contains("connection: close"), "{answer}");
    assert_eq!(server.wait_exit(Duration::from_secs(20)), Some(0));
}

#[test]
fn draining_is_bounded() {
    let (mut server, _backend) = served("timeouts: { drain: 1s }\n");
    let mut connection = server.connect();
    connection.write_all(get("/slow/30000").as_bytes()).unwrap();
    assert!(_backend.seen().wait(|seen| !seen.heads().is_empty()));
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(
        server.wait_exit(Duration::from_secs(15)),
        Some(0),
        "{}",
        server.stderr()
    );
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert!(
        server.stderr().contains("1 connection"),
        "{}",
        server.stderr()
    );
}

#[test]
fn an_upgrade_under_load_refuses_nothing_and_keeps_sessions() {
    let (mut server, _backend) = served("");
    let client = server.client(&Offer {
        resume: true,
        ..Offer::default()
    });
    let mut connection = client.connect(server.address(), "shop.test").unwrap();
    connection.exchange(&get("/")).unwrap();
    drop(connection);
    let load = Load::start(&server);
    load.wait(50);
    let old = server.pid();
    server.signal("USR2");
    assert!(
        eventually(Duration::from_secs(30), || server
            .processes()
            .iter()
            .any(|pid| *pid != old)),
        "no new process: {}",
        server.stderr()
    );
    assert_eq!(
        server.wait_exit(Duration::from_secs(60)),
        Some(0),
        "{}",
        server.stderr()
    );
    load.wait(100);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert_eq!(server.processes().len(), 1);
    let mut connection = client.connect(server.address(), "shop.test").unwrap();
    connection.exchange(&get("/")).unwrap();
    assert!(
        connection.resumed(),
        "the new process knows the ticket keys of the old one"
    );
    // And the new process can be replaced, reloaded and ended like the first.
    let second = server.processes()[0];
    signal(second, "TERM");
    assert!(eventually(Duration::from_secs(20), || server
        .processes()
        .is_empty()));
}

#[test]
fn an_upgrade_to_a_broken_file_leaves_the_old_process_serving() {
    let (mut server, _backend) = served("");
    server.place.write_config("listeners: nonsense\n");
    server.signal("USR2");
    assert!(server.wait_stderr("serves on"), "{}", server.stderr());
    assert!(server.runs());
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_unix_listener_leaves_no_file_and_survives_a_left_over_one() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let socket = place.folder.join("front.sock");
    // What a process leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let mut config = format!(
        "listeners:\n  - address: \"unix:{}\"\nsites:\n",
        socket.display()
    );
    config.push_str(&place.site(&["shop.test"], &[&format!("http://{}", backend.address())]));
    let mut server = Server::start(place, &config);
    let ran = server.curl(&[
        "--unix-socket",
        socket.to_str().unwrap(),
        "https://shop.test/",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    server.signal("TERM");
    assert_eq!(server.wait_exit(Duration::from_secs(20)), Some(0));
    assert!(!socket.exists());
}
