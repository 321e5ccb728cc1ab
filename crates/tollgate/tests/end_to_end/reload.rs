//! A new configuration while connections run.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_testkit::{Address, Backend, Client, LeafKind, Offer, http_backend};

use crate::server::{NAMES, Place, Server, described, get};
use crate::tools::run;

fn served() -> (Server, Backend, String) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend, config)
}

/// Clients that keep asking until they are told to stop: half of them on kept connections, half on fresh ones.
pub struct Load {
    stop: Arc<AtomicBool>,
    pub done: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Load {
    pub fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let threads = (0..4)
            .map(|number| {
                let client = server.client(&Offer {
                    resume: number % 4 < 2,
                    ..Offer::default()
                });
                let (stop, done, address) = (stop.clone(), done.clone(), server.address());
                std::thread::spawn(move || ask(&client, address, number % 2 == 0, &stop, &done))
            })
            .collect();
        Self {
            stop,
            done,
            threads,
        }
    }

    /// Waits until `count` more requests were answered.
    pub fn wait(&self, count: u64) {
        let goal = self.done.load(Ordering::SeqCst) + count;
        assert!(crate::tools::eventually(
            std::time::Duration::from_secs(30),
            || self.done.load(Ordering::SeqCst) >= goal
        ));
    }

    /// Stops and returns what failed.
    pub fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    }
}

fn ask(
    client: &Client,
    address: std::net::SocketAddr,
    keep: bool,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Vec<String> {
    let mut failed = Vec::new();
    let mut kept = None;
    while !stop.load(Ordering::SeqCst) && failed.len() < 10 {
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => client.connect(address, "shop.test"),
        };
        let result = connection.and_then(|mut connection| {
            let answer = connection.exchange(&get("/"))?;
            Ok((connection, answer))
        });
        match result {
            Ok((connection, answer)) if answer.starts_with("HTTP/1.1 200") => {
                done.fetch_add(1, Ordering::SeqCst);
                // A server that is about to end says so, and that is no failure.
                let closing = answer.to_ascii_lowercase().contains("connection: close");
                kept = (keep && !closing).then_some(connection);
            }
            Ok((_, answer)) => failed.push(answer),
            Err(error) => failed.push(format!("{error} ({})", if keep { "kept" } else { "fresh" })),
        }
    }
    failed
}

#[test]
fn twenty_reloads_under_load_fail_no_request_and_close_no_connection() {
    let (server, backend, config) = served();
    let load = Load::start(&server);
    for round in 0..20 {
        load.wait(20);
        let text = format!("{config}timeouts: {{ response: {}s }}\n", 50 + round);
        assert_eq!(
            server.reload(&text).as_deref(),
            Some("succeeded"),
            "{}",
            server.stderr()
        );
    }
    load.wait(20);
    let handshakes = server.metrics().sum("tollgate_handshakes_total", &[]);
    let asked = load.done.load(Ordering::SeqCst);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert!(backend.requests() >= asked);
    assert!(handshakes > 20.0);
    let closed = server
        .log()
        .iter()
        .filter(|line| line["end"] != "complete")
        .count();
    assert!(closed <= 4, "only the clients' own ends: {closed}");
}

#[test]
fn h2load_sees_no_failure_while_reloading() {
    let (server, _backend, config) = served();
    for flag in ["--h1", crate::load::H2] {
        let url = format!("https://127.0.0.1:{}/status/200", server.place.port);
        let client = std::thread::spawn(move || {
            let mut command = Command::new("h2load");
            command.args([flag, "-n", "6000", "-c", "8", "-t", "1", "-m", "4", &url]);
            run(&mut command, b"")
        });
        for round in 0..5 {
            let text = format!("{config}timeouts: {{ response: {}s }}\n", 50 + round);
            assert_eq!(
                server.reload(&text).as_deref(),
                Some("succeeded"),
                "{}",
                server.stderr()
            );
        }
        let ran = client.join().unwrap();
        assert!(
            ran.out
                .contains("6000 succeeded, 0 failed, 0 errored, 0 timeout"),
            "{flag}: {}",
            ran.all()
        );
    }
}

#[test]
fn the_reload_command_reloads_and_tells_what_happened() {
    let (server, _backend, config) = served();
    let ran = server.place.tollgate(&["reload", "tls.yaml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    server
        .place
        .write_config(&config.replace("mode: http", "mode: htttp"));
    let ran = server
        .place
        .tollgate(&["reload", "tls.yaml", "--control", "control.sock"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(
        ran.err.contains("htttp") && ran.err.contains("tls.yaml:3:11"),
        "{}",
        ran.all()
    );
    assert!(server.get("/").is_ok());
}

#[test]
fn nobody_to_reload_is_said() {
    let place = Place::new();
    place.write_config(&place.config("http", &["http://127.0.0.1:1"]));
    let ran = place.tollgate(&["reload", "tls.yaml"]);
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(ran.err.contains("control.sock"), "{}", ran.all());
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let (server, _backend, config) = served();
    let mut steady = server.connect();
    steady.exchange(&get("/")).unwrap();
    let before = server.place.folder.read("ecdsa.key");
    for bad in [
        config.replace("mode: http", "mode: htttp"),
        config.replace("ecdsa.key", "rsa.key"),
        config.replace("ecdsa.pem", "missing.pem"),
        String::new(),
    ] {
        let said = server.stderr().len();
        assert_ne!(server.reload(&bad).as_deref(), Some("succeeded"));
        // Its standard error reaches us by way of a thread.
        let complained = || server.stderr().len() > said + 20;
        assert!(crate::tools::eventually(
            Duration::from_secs(10),
            complained
        ));
        assert!(
            steady
                .exchange(&get("/"))
                .unwrap()
                .starts_with("HTTP/1.1 200")
        );
        assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
    }
    assert_eq!(before, server.place.folder.read("ecdsa.key"));
    assert_eq!(server.reload(&config).as_deref(), Some("succeeded"));
}

#[test]
fn a_listener_that_cannot_be_bound_changes_nothing() {
    let (server, _backend, config) = served();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!(
        "listeners:\n  - address: \"{}\"\n",
        taken.local_addr().unwrap()
    );
    let bad = config
        .replacen("listeners:\n", &more, 1)
        .replace("names: [\"shop.test\"", "names: [\"new.test\"");
    assert_ne!(server.reload(&bad).as_deref(), Some("succeeded"));
    assert!(server.stderr().contains("in use"), "{}", server.stderr());
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn new_certificates_backends_and_listeners_are_taken_up() {
    let (server, _old, config) = served();
    let mut steady = server.connect();
    steady.exchange(&get("/")).unwrap();
    let second = http_backend(&Address::Loopback, None, "two", false);
    let port = tollgate_testkit::free_port();
    server
        .place
        .authority
        .server(LeafKind::EcdsaP384, &NAMES)
        .write(&server.place.folder, "ecdsa");
    let text = config
        .replacen(
            "listeners:\n",
            &format!("listeners:\n  - address: \"127.0.0.1:{port}\"\n"),
            1,
        )
        .replace(_old.address(), second.address());
    assert_eq!(
        server.reload(&text).as_deref(),
        Some("succeeded"),
        "{}",
        server.stderr()
    );
    assert_eq!(described(&server.get("/").unwrap())["backend"], "two");
    let client = server.client(&Offer::default());
    let mut connection = client
        .connect(
            std::net::SocketAddr::from(([127, 0, 0, 1], port)),
            "shop.test",
        )
        .unwrap();
    assert!(connection.exchange(&get("/")).is_ok());
    assert!(server.wait_metrics(|metrics| {
        metrics.sum(
            "tollgate_handshakes_total",
            &[("certificate", "ecdsa-p384")],
        ) >= 1.0
    }));
    assert!(
        steady
            .exchange(&get("/"))
            .unwrap()
            .starts_with("HTTP/1.1 200"),
        "a running connection stays"
    );
    // And the other way round: a listener that is gone is gone.
    assert_eq!(
        server
            .reload(&config.replace(_old.address(), second.address()))
            .as_deref(),
        Some("succeeded")
    );
    assert!(crate::tools::eventually(
        std::time::Duration::from_secs(5),
        || { std::net::TcpStream::connect(("127.0.0.1", port)).is_err() }
    ));
}

#[test]
fn tickets_and_sessions_survive_a_reload() {
    let (server, _backend, config) = served();
    for tls12 in [false, true] {
        let client = server.client(&Offer {
            tls12,
            resume: true,
            ..Offer::default()
        });
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/")).unwrap();
        assert_eq!(server.reload(&config).as_deref(), Some("succeeded"));
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/")).unwrap();
        assert!(connection.resumed(), "tls12: {tls12}");
    }
    let common = ["-servername", "shop.test", "-tls1_2", "-no_ticket"];
    let mut first = common.to_vec();
    first.extend(["-sess_out", "session.pem"]);
    server.s_client(&first, "");
    assert_eq!(server.reload(&config).as_deref(), Some("succeeded"));
    let mut second = common.to_vec();
    second.extend(["-sess_in", "session.pem"]);
    let ran = server.s_client(&second, "");
    assert!(ran.out.contains("Reused, TLSv1.2"), "{}", ran.all());
}

#[test]
fn a_dearer_kind_of_key_is_warned_about() {
    let (server, _backend, config) = served();
    // The renewal wrote an RSA certificate where an ECDSA one was.
    server
        .place
        .authority
        .server(LeafKind::Rsa2048, &NAMES)
        .write(&server.place.folder, "ecdsa");
    assert_eq!(
        server.reload(&config).as_deref(),
        Some("succeeded"),
        "{}",
        server.stderr()
    );
    assert!(server.wait_stderr("warning"));
    let said = server.stderr();
    assert!(said.contains("RSA") || said.contains("rsa"), "{said}");
    assert!(said.contains("ECDSA") || said.contains("ecdsa"), "{said}");
}

#[test]
fn a_rotated_log_is_reopened() {
    let (server, _backend, config) = served();
    server.get("/first").unwrap();
    server.wait_log(|line| line["path"] == "/first");
    let folder = &server.place.folder;
    std::fs::rename(folder.join("access.log"), folder.join("access.log.1")).unwrap();
    assert_eq!(server.reload(&config).as_deref(), Some("succeeded"));
    server.get("/second").unwrap();
    server.wait_log(|line| line["path"] == "/second");
    assert!(!folder.read("access.log.1").contains("/second"));
}

#[test]
fn a_running_download_is_not_disturbed() {
    let (server, _backend, config) = served();
    let mut connection = server.connect();
    connection
        .write_all(b"GET /drip/20/50 HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n")
        .unwrap();
    for _ in 0..3 {
        assert_eq!(server.reload(&config).as_deref(), Some("succeeded"));
    }
    let bytes = connection.rest().unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'y').count(), 20_000);
}
