//! `tollgate load` against our own server: what it says is what the server has seen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server, binary, signal};
use crate::tools::{BOUND, Ran, eventually, wait};

/// A load run against 127.0.0.1 with JSON as its result.
pub fn load(place: &Place, mode: &str, target: &str, more: &str) -> Ran {
    let mut arguments = vec!["load", mode, target, "--json"];
    arguments.extend(more.split_whitespace());
    place.tollgate(&arguments)
}

/// The result of a run that was what it was asked to be.
pub fn reached(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    json(ran)
}

pub fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.all()))
}

/// Whether a share is what was asked for, as closely as the product promises.
pub fn near(share: &Value, wanted: f64) -> bool {
    (share.as_f64().unwrap() - wanted).abs() <= 0.005
}

fn served() -> (Server, Backend, String) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let server = Server::start(place, &config);
    let target = server.address().to_string();
    (server, backend, target)
}

#[test]
fn a_hit_rate_is_counted_alike_at_both_ends() {
    let (server, _backend, target) = served();
    let console = format!("127.0.0.1:{}", server.place.console);
    for version in ["--tls12", "--tls13"] {
        let more = format!(
            "--insecure {version} --hit-rate 0.9 -c 4 --operations 1000 --duration 60s --console {console}"
        );
        let result = reached(&load(&server.place, "tps", &target, &more));
        assert_eq!(result["ended_by"], "operations", "{result}");
        assert_eq!(result["operations"], 1000, "{result}");
        assert!(near(&result["hit_rate"], 0.9), "{result}");
        let counted = &result["server_handshakes"];
        let theirs = counted["hit_rate"].as_f64().unwrap();
        assert!((theirs - 0.9).abs() <= 0.005 + 0.01, "{result}");
        assert_eq!(counted["full_in_run"], counted["client_full_in_run"]);
        assert_eq!(counted["resumed_in_run"], counted["client_resumed_in_run"]);
        assert!(
            counted["resumed_in_run"].as_u64().unwrap() >= 890,
            "{result}"
        );
    }
}

#[test]
fn handshakes_alone_gather_tickets_and_are_counted_alike_at_both_ends() {
    let (server, backend, target) = served();
    let console = format!("127.0.0.1:{}", server.place.console);
    for version in ["--tls12", "--tls13"] {
        let more = format!(
            "--insecure {version} --no-request --hit-rate 0.5 -c 4 --operations 300 --duration 60s --console {console}"
        );
        let result = reached(&load(&server.place, "tps", &target, &more));
        assert_eq!(result["operations"], 300, "{result}");
        assert!((result["hit_rate"].as_f64().unwrap() - 0.5).abs() <= 0.02);
    }
    assert_eq!(backend.requests(), 0);
}

#[test]
fn somebody_else_at_the_server_is_noticed() {
    let (server, _backend, target) = served();
    let console = format!("127.0.0.1:{}", server.place.console);
    // Another run meanwhile: its handshakes are not this one's.
    let mut other = Command::new(binary())
        .args([
            "load",
            "tps",
            &target,
            "--insecure",
            "--duration",
            "60s",
            "--json",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let goes_on =
        server.wait_metrics(|metrics| metrics.sum("tollgate_handshakes_total", &[]) > 10.0);
    let more = format!("--insecure --duration 500ms --warm-up 0s --console {console}");
    let ran = load(&server.place, "tps", &target, &more);
    signal(other.id(), "KILL");
    let _ = other.wait();
    assert!(goes_on);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(
        json(&ran)["missed"][0]
            .as_str()
            .unwrap()
            .contains("somebody else")
    );
}

#[test]
fn a_server_that_does_not_resume_makes_the_run_miss() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let text = place.config("http", &[&format!("http://{}", backend.address())])
        + "resumption:\n  tickets: false\n  session_cache:\n    entries: 0\n";
    let server = Server::start(place, &text);
    let target = server.address().to_string();
    let ran = load(
        &server.place,
        "tps",
        &target,
        "--insecure --hit-rate 0.9 --operations 100",
    );
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(
        ran.out.contains("a hit rate of 0.900 was asked for"),
        "{}",
        ran.all()
    );
}

#[test]
fn requests_carry_the_method_the_body_and_the_fields_that_were_asked_for() {
    let (server, backend, target) = served();
    let ran = server.place.tollgate(&[
        "load",
        "requests",
        &target,
        "--insecure",
        "--json",
        "--method",
        "POST",
        "--body-size",
        "1k",
        "--header",
        "X-One: two",
        "--path",
        "/status/200",
        "-c",
        "2",
        "--operations",
        "40",
        "--server-name",
        "shop.test",
    ]);
    let result = reached(&ran);
    assert_eq!(result["operations"], 40);
    assert_eq!(result["sent_bytes"], 40 * 1024);
    let heads = backend.seen().heads();
    assert!(heads.len() >= 41, "{}", heads.len());
    for head in &heads {
        let head = head.to_lowercase();
        assert!(head.starts_with("post /status/200 "), "{head}");
        assert!(head.contains("content-length: 1024\r\n"), "{head}");
        assert!(head.contains("x-one: two\r\n"), "{head}");
    }
}

#[test]
fn several_requests_at_a_time_share_an_http2_connection() {
    let (server, backend, target) = served();
    let more =
        "--insecure --alpn h2 --streams 10 -c 2 --operations 200 --path /bytes/5000 --warm-up 0s";
    let result = reached(&load(&server.place, "requests", &target, more));
    assert_eq!(result["operations"], 200, "{result}");
    assert!(
        result["body_bytes"].as_u64().unwrap() >= 200 * 5000,
        "{result}"
    );
    assert_eq!(result["handshakes"]["full"], 2, "{result}");
    assert!(backend.requests() >= 201);
    assert!(server.wait_metrics(|metrics| {
        metrics.sum("tollgate_requests_total", &[("protocol", "HTTP/2")]) > 200.5
    }));
    // The same words with an upload: what was sent is what was acknowledged.
    let more =
        "--insecure --alpn h2 --streams 4 -c 1 --operations 20 --body-size 100k --path /status/200";
    let result = reached(&load(&server.place, "upload", &target, more));
    assert_eq!(result["sent_bytes"], 20 * 100 * 1024, "{result}");
    let more = "--insecure --alpn h2 -c 2 --operations 40 --hit-rate 0.5 --path /status/200";
    let result = reached(&load(&server.place, "tps", &target, more));
    assert!(
        result["handshakes"]["resumed"].as_u64().unwrap() >= 18,
        "{result}"
    );
}

#[test]
fn connections_come_from_all_the_source_addresses() {
    let (server, _backend, target) = served();
    let more = "--insecure --source 127.0.0.2-127.0.0.5 -c 4 --operations 40";
    reached(&load(&server.place, "tps", &target, more));
    let seen = || -> std::collections::BTreeSet<String> {
        let clients = server.log().into_iter().filter_map(|line| {
            let client = line["client"].as_str()?.to_owned();
            Some(client.rsplit_once(':')?.0.to_owned())
        });
        clients.collect()
    };
    let wanted = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
    assert!(
        eventually(Duration::from_secs(10), || seen().iter().eq(wanted)),
        "{:?}",
        seen()
    );
}

#[test]
fn names_are_taken_in_turn_and_each_keeps_its_sessions() {
    let (server, _backend, target) = served();
    server
        .place
        .folder
        .write("names", "# two of them\na.shop.test\n\nshop.test\n");
    // Certificates are checked here: each name must be the one that is asked for.
    let more = "--ca ca.pem --server-names names --hit-rate 0.5 -c 2 --operations 100";
    let result = reached(&load(&server.place, "tps", &target, more));
    assert!(
        (result["hit_rate"].as_f64().unwrap() - 0.5).abs() <= 0.02,
        "{result}"
    );
    let hosts = || -> Vec<String> {
        let lines = server.log().into_iter();
        lines
            .filter_map(|line| Some(line["server_name"].as_str()?.to_owned()))
            .collect()
    };
    let often = |name: &str| hosts().iter().filter(|host| *host == name).count();
    assert!(
        eventually(Duration::from_secs(10), || {
            often("a.shop.test") >= 45 && often("shop.test") >= 45
        }),
        "{:?}",
        server.log().first()
    );
}

#[test]
fn the_work_of_several_threads_is_added_up() {
    let (server, _backend, target) = served();
    let more = "--insecure -t 2 -c 8 --warm-up 0s --operations 200 --hit-rate 0.5";
    let result = reached(&load(&server.place, "tps", &target, more));
    assert_eq!(result["client_threads"], 2);
    let handshakes = &result["handshakes"];
    let total = handshakes["full"].as_u64().unwrap() + handshakes["resumed"].as_u64().unwrap();
    assert!(total >= 200, "{result}");
    assert!(
        (result["hit_rate"].as_f64().unwrap() - 0.5).abs() <= 0.05,
        "{result}"
    );
}

#[test]
fn a_mix_reports_its_parts_and_the_whole() {
    let (server, _backend, target) = served();
    let pid = server.pid().to_string();
    let more = format!(
        "--insecure --tps 20 --requests 40 --download 1 --upload 1 --hold 20 --path /bytes/2000 --duration 1s \
         --watch {pid} --apart"
    );
    let ran = load(&server.place, "mix", &target, &more);
    let result = json(&ran);
    let parts: Vec<&str> = result["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["mode"].as_str().unwrap())
        .collect();
    assert_eq!(
        parts,
        ["tps", "requests", "download", "upload", "hold"],
        "{}",
        ran.all()
    );
    assert_eq!(result["parts"][4]["connections"], 20);
    assert_eq!(result["failures"], serde_json::json!({}), "{}", ran.all());
    let sum: u64 = (0..4)
        .map(|part| result["parts"][part]["operations"].as_u64().unwrap())
        .sum();
    assert_eq!(result["operations"], sum);
    assert_eq!(
        result["additive"]["alone_cores"].as_array().unwrap().len(),
        5
    );
}

#[test]
fn an_interrupted_run_prints_what_it_has() {
    let (server, _backend, target) = served();
    let child = Command::new(binary())
        .args([
            "load",
            "tps",
            &target,
            "--insecure",
            "--duration",
            "60s",
            "--warm-up",
            "0s",
            "--json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_handshakes_total", &[]) > 30.0));
    signal(child.id(), "INT");
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(wait(&mut child, BOUND), Some(0), "{out}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["ended_by"], "interrupt");
    assert!(result["operations"].as_u64().unwrap() > 0, "{result}");
    assert!(result["seconds"].as_f64().unwrap() < 60.0);
}

#[test]
fn the_table_over_time_adds_up_to_the_whole() {
    let (server, _backend, target) = served();
    let more = "--insecure --duration 1s --every 200ms";
    let result = reached(&load(&server.place, "requests", &target, more));
    let rows = result["over_time"].as_array().unwrap();
    assert!(rows.len() >= 4, "{result}");
    let sum: u64 = rows
        .iter()
        .map(|row| row["operations"].as_u64().unwrap())
        .sum();
    let bars = result["operation_histogram"].as_array().unwrap();
    let drawn: u64 = bars.iter().map(|bar| bar["count"].as_u64().unwrap()).sum();
    let whole = result["operations"].as_u64().unwrap();
    assert_eq!(drawn, whole);
    assert!(
        sum <= whole && sum + 50 >= whole * 8 / 10,
        "{sum} of {whole}"
    );
}

/// A plaintext backend that counts the bytes of bodies, and that stops for a while after so many requests.
struct Counting {
    bytes: Arc<AtomicU64>,
    address: String,
}

impl Counting {
    fn start(stall: Option<(u64, Duration)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let door = Arc::new(Mutex::new(0_u64));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counted, door) = (Arc::clone(&counted), Arc::clone(&door));
                std::thread::spawn(move || converse(stream, &counted, &door, stall));
            }
        });
        Self { bytes, address }
    }
}

fn converse(
    stream: TcpStream,
    counted: &AtomicU64,
    door: &Mutex<u64>,
    stall: Option<(u64, Duration)>,
) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        counted.fetch_add(read, Ordering::SeqCst);
        {
            // While one request stalls, all others wait at this door.
            let mut passed = door.lock().unwrap();
            *passed += 1;
            if let Some((after, time)) = stall
                && *passed == after
            {
                std::thread::sleep(time);
            }
        }
        writer
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .ok()?;
    }
}

fn in_front_of(address: &str) -> (Server, String) {
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{address}")]);
    let server = Server::start(place, &config);
    let target = server.address().to_string();
    (server, target)
}

#[test]
fn uploaded_bytes_are_those_that_the_backend_has_got() {
    let backend = Counting::start(None);
    let (server, target) = in_front_of(&backend.address);
    let more = "--insecure -c 3 --warm-up 0s --operations 30 --body-size 300k";
    let result = reached(&load(&server.place, "upload", &target, more));
    assert_eq!(result["operations"], 30);
    assert_eq!(result["sent_bytes"], 30 * 300 * 1024);
    assert_eq!(backend.bytes.load(Ordering::SeqCst), 30 * 300 * 1024);
}

#[test]
fn an_open_loop_counts_time_from_when_an_operation_was_due() {
    let stall = Duration::from_millis(600);
    let backend = Counting::start(Some((100, stall)));
    let (server, target) = in_front_of(&backend.address);
    let more = "--insecure -c 2 --rate 200 --warm-up 0s --operations 400 --duration 60s --console 127.0.0.1:";
    let more = format!("{more}{}", server.place.console);
    let result = json(&load(&server.place, "requests", &target, &more));
    // 120 of 400 operations fell due while nothing was answered; a closed loop would have two late ones.
    assert_eq!(result["operations"], 400, "{result}");
    let spread = &result["operation_micros"];
    assert!(spread["p90"].as_u64().unwrap() >= 100_000, "{result}");
    assert!(spread["p99"].as_u64().unwrap() >= 400_000, "{result}");
    assert!(result["late_starts"].as_u64().unwrap() >= 100, "{result}");
    let closed = Counting::start(Some((100, stall)));
    let (server, target) = in_front_of(&closed.address);
    let more = "--insecure -c 2 --warm-up 0s --operations 400";
    let result = reached(&load(&server.place, "requests", &target, more));
    let spread = &result["operation_micros"];
    assert!(spread["p90"].as_u64().unwrap() < 400_000, "{result}");
    assert!(spread["max"].as_u64().unwrap() >= 500_000, "{result}");
    assert_eq!(result["late_starts"], 0);
}

/// Arguments that make no sense, and what the answer must say.
const REFUSED: &[(&str, &str)] = &[
    ("tps nowhere --insecure", "is not HOST:PORT"),
    (
        "tps TARGET --insecure --hit-rate 1.5",
        "give a number from 0 to 1",
    ),
    (
        "tps TARGET --insecure --early-data-rate 0.5 --hit-rate 0.5 --method POST",
        "POST is not",
    ),
    (
        "tps TARGET --insecure --early-data-rate 0.5 --hit-rate 0.5 --body-size 10",
        "with a body",
    ),
    (
        "tps TARGET --insecure --early-data-rate 0.5",
        "ask for it with --hit-rate",
    ),
    (
        "tps TARGET --insecure --early-data-rate 0.5 --hit-rate 1 --tls12",
        "it needs TLS 1.3",
    ),
    (
        "requests TARGET --insecure --early-data-rate 1 --hit-rate 1",
        "outside of the mode tps",
    ),
    ("tps TARGET --insecure --alpn h3", "speaks http/1.1 and h2"),
    ("requests TARGET --insecure --streams 4", "--alpn h2"),
    (
        "requests TARGET --insecure --no-request",
        "use the mode tps",
    ),
    (
        "tps TARGET --insecure --source localhost",
        "is no source address",
    ),
    ("tps TARGET --insecure --source ::1", "same family"),
    (
        "tps TARGET --insecure --suites TLS_NULL",
        "an example is TLS_AES_128_GCM_SHA256",
    ),
    ("tps TARGET --insecure --groups x448", "there are x25519"),
    (
        "tps TARGET --insecure --schemes md5",
        "examples are ecdsa_secp256r1_sha256",
    ),
    ("tps TARGET --insecure --body-size 1x", "is not a size"),
    ("tps TARGET --insecure --duration 5", "has no unit"),
    (
        "tps TARGET --insecure --watch 4294967295",
        "no process 4294967295",
    ),
    ("tps TARGET --insecure -c 0", "more than zero"),
    (
        "tps TARGET --insecure -c 2 -t 3",
        "more threads than connections",
    ),
    ("tps TARGET --insecure --rate 0", "more than zero"),
    (
        "tps TARGET --insecure --path index.html",
        "a path begins with /",
    ),
    (
        "tps TARGET --insecure --header nothing",
        "write 'Name: value'",
    ),
    (
        "tps TARGET --insecure --header Host:x",
        "set by the load run itself",
    ),
    ("tps TARGET --ca missing.pem", "missing.pem"),
    ("mix TARGET --insecure", "at least one of --tps"),
    ("mix TARGET --insecure --tps 5 --apart", "--watch"),
    ("hold TARGET --insecure 100000000", "open files are needed"),
    ("hold TARGET --insecure --operations 5", "give a duration"),
    (
        "tps TARGET --insecure --server-names ca.key",
        "cannot read names",
    ),
];

#[test]
fn wrong_input_is_refused_with_what_is_allowed() {
    let place = Place::new();
    let target = format!("127.0.0.1:{}", place.port);
    for (words, part) in REFUSED {
        let words = words.replace("TARGET", &target);
        let mut arguments = vec!["load"];
        arguments.extend(words.split_whitespace());
        let ran = place.tollgate(&arguments);
        assert_eq!(ran.code, Some(2), "{words}: {}", ran.all());
        assert!(ran.err.contains(part), "{words}: {}", ran.all());
        assert_eq!(ran.out, "", "{words}");
    }
    let ran = load(&place, "tps", &target, "--insecure");
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(ran.err.contains("does not answer"), "{}", ran.all());
}
