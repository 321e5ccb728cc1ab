//! Backends that do not answer, or not well.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server, get};

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

#[test]
fn no_backend_is_a_502_that_the_log_explains() {
    let (server, backend) = served("");
    let address = backend.address().to_owned();
    backend.stop();
    for _ in 0..6 {
        let answer = server.get("/").unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 502") || answer.starts_with("HTTP/1.1 503"),
            "{answer}"
        );
        assert!(
            !answer.contains(&address),
            "the client learns nothing of the inside: {answer}"
        );
    }
    let line = server.wait_log(|line| line["status"] == 502);
    assert_eq!(line["end"], "backend_failed", "{line}");
    assert!(
        line["error"]
            .as_str()
            .is_some_and(|text| text.contains("refuse")),
        "{line}"
    );
}

#[test]
fn an_answer_that_does_not_come_is_a_504() {
    let (server, _backend) = served("timeouts: { response: 500ms }\n");
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[
            flag,
            "-o",
            "body",
            "-w",
            "%{http_code}",
            "https://shop.test/slow/5000",
        ]);
        assert_eq!(ran.out, "504", "{}", ran.all());
    }
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_connect_that_hangs_ends_in_time() {
    let place = Place::new();
    // A listener whose queue is full never completes a connect.
    let stuck = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = place.config(
        "http",
        &[&format!("http://{}", stuck.local_addr().unwrap())],
    );
    config.push_str("timeouts: { connect: 300ms, response: 1s }\n");
    let server = Server::start(place, &config);
    let started = Instant::now();
    let answer = server.get("/").unwrap();
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// A backend that takes a request and leaves, again and again.
fn leaving() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::new(AtomicU64::new(0));
    let counter = taken.clone();
    // The thread ends with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (address, taken)
}

#[test]
fn a_request_is_tried_elsewhere_when_that_is_safe() {
    let (leaving, taken) = leaving();
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let good = format!("http://{}", backend.address());
    let mut config = place.config_with("http", &[&leaving, &good], "    retries: 1\n");
    config.push_str("    passive_health: { failures: 0 }\nworkers: { count: 1 }\n");
    let server = Server::start(place, &config);
    for _ in 0..10 {
        let answer = server.get("/").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let retries = server.metrics().sum("tollgate_retries_total", &[]);
    assert!(retries >= 4.0, "{retries}");
    let before = taken.load(Ordering::SeqCst);
    let mut failed = 0;
    for _ in 0..10 {
        let answer = server
            .connect()
            .exchange("POST / HTTP/1.1\r\nhost: shop.test\r\ncontent-length: 3\r\n\r\nabc")
            .unwrap();
        failed += u64::from(answer.starts_with("HTTP/1.1 502"));
    }
    assert_eq!(
        failed,
        taken.load(Ordering::SeqCst) - before,
        "a POST is sent once"
    );
    assert!(failed >= 4, "{failed}");
}

#[test]
fn a_pooled_connection_that_the_backend_closed_costs_no_request() {
    let (server, backend) = served("");
    let mut connection = server.connect();
    for _ in 0..20 {
        let answer = connection.exchange(&get("/status/200")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let mut other = server.connect();
        // The backend closes this connection, and with it one of the pool's.
        other.write_all(get("/die").as_bytes()).unwrap();
        let _ = other.answer();
    }
    assert!(backend.requests() >= 40);
}

#[test]
fn a_truncated_answer_is_never_passed_on_as_complete() {
    let (server, _backend) = served("");
    for path in ["truncated", "truncated-chunked"] {
        let url = format!("https://shop.test/{path}");
        let ran = server.curl(&["--http1.1", &url]);
        assert!(matches!(ran.code, Some(18 | 56)), "{path}: {}", ran.all());
        let ran = server.curl(&["--http2", &url]);
        assert!(
            matches!(ran.code, Some(92 | 18 | 56)),
            "{path}: {}",
            ran.all()
        );
        let mut connection = server.connect();
        connection
            .write_all(get(&format!("/{path}")).as_bytes())
            .unwrap();
        let (bytes, _) = connection.rest_and_end();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.ends_with("0\r\n\r\n"), "{path}: {text}");
    }
    let line = server.wait_log(|line| line["path"] == "/truncated");
    assert_eq!(line["end"], "backend_truncated", "{line}");
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn answers_that_can_be_read_in_two_ways_are_a_502() {
    let (server, _backend) = served("");
    for path in [
        "conflicting/two-lengths",
        "conflicting/length-and-chunked",
        "garbage",
        "big-head",
    ] {
        for flag in ["--http1.1", "--http2"] {
            let url = format!("https://shop.test/{path}");
            let ran = server.curl(&[flag, "-o", "body", "-w", "%{http_code}", &url]);
            assert_eq!(ran.out, "502", "{path} {flag}: {}", ran.all());
        }
    }
}

#[test]
fn an_unreadable_unix_socket_names_the_trouble() {
    let place = Place::new();
    let missing = place.folder.join("missing.sock");
    let config = place.config("http", &[&format!("unix:{}", missing.display())]);
    let server = Server::start(place, &config);
    let answer = server.get("/").unwrap();
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    let line = server.wait_log(|line| line["status"].as_u64().is_some_and(|status| status >= 500));
    assert!(
        line["error"]
            .as_str()
            .is_some_and(|text| text.contains("missing.sock")),
        "{line}"
    );
}
