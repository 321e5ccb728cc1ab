//! The console from outside: who is let in, what is answered, and that it never says a secret.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::{Address, Authority, Backend, Validity, http_backend};

use crate::server::{Place, Server, http_get};
use crate::tools::{Ran, run};

const TOKEN: &str = "a-token-of-thirty-two-characters";

fn served(console: impl FnOnce(&Place) -> String) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let mut config = place.config("http", &[&format!("http://{}", backend.address())]);
    config.push_str(&console(&place));
    (Server::start(place, &config), backend)
}

fn open() -> (Server, Backend) {
    served(|_| String::new())
}

/// A whole answer, head and body.
fn ask(port: u16, head: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(stream, "{head}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(port: u16, path: &str, fields: &str) -> String {
    ask(
        port,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost{fields}"),
    )
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// A page that watches.
fn watch(port: u16) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// The next line that starts with `start`; empty at the end of the stream.
fn line(stream: &mut BufReader<TcpStream>, start: &str) -> String {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 || line.starts_with(start) {
            return line;
        }
    }
}

#[test]
fn every_answer_is_guarded_and_only_reading_is_allowed() {
    let (server, _backend) = open();
    let port = server.place.console;
    for (path, expected) in [
        ("/", "200"),
        ("/app.js", "200"),
        ("/live.json", "200"),
        ("/history.json?seconds=60&points=10", "200"),
        ("/metrics", "200"),
        ("/snapshot.json", "200"),
        ("/healthz", "200"),
        ("/nothing", "404"),
    ] {
        let answer = get(port, path, "");
        assert_eq!(status(&answer), expected, "{path}: {answer}");
        let policy = field(&answer, "content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'"), "{path}");
        assert_eq!(
            field(&answer, "x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        if path.contains("json") || path == "/metrics" {
            assert_eq!(field(&answer, "cache-control"), Some("no-store"), "{path}");
        }
        let head = ask(port, &format!("HEAD {path} HTTP/1.1\r\nhost: localhost"));
        assert_eq!(status(&head), expected, "{path}");
        assert!(head.ends_with("\r\n\r\n"), "a body to HEAD {path}: {head}");
    }
    let head = ask(port, "HEAD /events HTTP/1.1\r\nhost: localhost");
    assert_eq!(status(&head), "200");
    for method in ["POST", "DELETE"] {
        let answer = ask(
            port,
            &format!("{method} /live.json HTTP/1.1\r\nhost: localhost"),
        );
        assert_eq!(status(&answer), "405");
        assert_eq!(field(&answer, "allow"), Some("GET, HEAD"));
    }
}

#[test]
fn a_file_of_the_page_is_sent_again_only_when_it_changed() {
    let (server, _backend) = open();
    let port = server.place.console;
    let first = get(port, "/app.css", "");
    let tag = field(&first, "etag").unwrap();
    let again = get(
        port,
        "/app.css",
        &format!("\r\nif-none-match: \"x\", {tag}"),
    );
    assert_eq!(status(&again), "304", "{again}");
    assert!(again.ends_with("\r\n\r\n"), "{again}");
    let other = get(port, "/app.css", "\r\nif-none-match: \"x\"");
    assert_eq!(status(&other), "200");
}

#[test]
fn a_page_under_a_foreign_name_is_not_answered() {
    let (server, _backend) = open();
    let port = server.place.console;
    for (host, expected) in [
        ("rebound.example", "421"),
        ("127.0.0.1.rebound.example:80", "421"),
        ("127.0.0.1", "200"),
        ("[::1]:9180", "200"),
    ] {
        let answer = ask(port, &format!("GET /live.json HTTP/1.1\r\nhost: {host}"));
        assert_eq!(status(&answer), expected, "{host}");
    }
}

#[test]
fn those_who_watch_hear_every_second_and_do_not_hold_up_the_end() {
    let (mut server, _backend) = open();
    let mut watching = watch(server.place.console);
    let mut before = 0.0;
    for _ in 0..3 {
        assert_eq!(line(&mut watching, "event:"), "event: live\n");
        let data = line(&mut watching, "data: ");
        let live: serde_json::Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
        let at = live["at_seconds"].as_f64().unwrap();
        assert!(at > before, "{at} after {before}");
        before = at;
    }
    server.signal("TERM");
    assert_eq!(line(&mut watching, "nothing starts so"), "");
    assert_eq!(server.wait_exit(Duration::from_secs(10)), Some(0));
}

#[test]
fn there_is_room_for_so_many_who_watch() {
    let (server, _backend) = open();
    let port = server.place.console;
    let mut watching: Vec<_> = (0..64).map(|_| watch(port)).collect();
    for one in &mut watching {
        assert!(line(one, "HTTP/1.1").contains(" 200 "));
    }
    let mut more = watch(port);
    assert!(line(&mut more, "HTTP/1.1").contains(" 503 "));
    // Everything else is answered all the same.
    assert_eq!(status(&get(port, "/live.json", "")), "200");
}

fn with_token(place: &Place) -> String {
    place
        .folder
        .write_secret("console.token", format!("{TOKEN}\n"));
    format!(
        "console: {{ address: \"127.0.0.1:{}\", token_file: console.token }}\n",
        place.console
    )
}

#[test]
fn a_token_opens_the_console_and_shows_nowhere() {
    let (server, _backend) = served(with_token);
    let port = server.place.console;
    let bearer = format!("\r\nauthorization: Bearer {TOKEN}");
    let shut = get(port, "/live.json", "");
    assert_eq!(status(&shut), "401", "{shut}");
    assert!(shut.contains("token_file"), "{shut}");
    assert_eq!(field(&shut, "www-authenticate").map(|_| ()), Some(()));
    let wrong = get(port, "/live.json", "\r\nauthorization: Bearer wrong");
    assert_eq!(status(&wrong), "401");
    assert_eq!(status(&get(port, "/healthz", "")), "200");
    assert_eq!(status(&get(port, "/live.json", &bearer)), "200");

    let welcome = get(port, &format!("/?token={TOKEN}"), "");
    assert_eq!(status(&welcome), "303", "{welcome}");
    assert_eq!(field(&welcome, "location"), Some("/"));
    let cookie = field(&welcome, "set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let page = get(port, "/", &format!("\r\ncookie: {cookie}"));
    assert_eq!(status(&page), "200");

    // A request, so that there are tickets; then nothing anywhere that only we may know.
    server.get("/").unwrap();
    let key = server.place.folder.read("ecdsa.key");
    let secrets: Vec<&str> = key
        .lines()
        .filter(|line| !line.starts_with("--"))
        .chain([TOKEN])
        .collect();
    let mut said = server.stderr() + &server.stdout() + &welcome + &shut + &wrong;
    for path in [
        "/",
        "/live.json",
        "/history.json",
        "/metrics",
        "/snapshot.json",
        "/healthz",
        "/nothing",
    ] {
        said += &get(port, path, &bearer);
    }
    assert!(said.contains("shop.test"));
    for secret in secrets {
        assert!(!said.contains(secret), "{secret} in what was said");
    }
}

#[test]
fn a_reload_changes_the_token_and_the_place() {
    let (server, _backend) = served(with_token);
    let place = &server.place;
    let text = place.folder.read("tls.yaml");
    let mut watching = {
        let mut stream = TcpStream::connect(("127.0.0.1", place.console)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        write!(
            stream,
            "GET /events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
        )
        .unwrap();
        BufReader::new(stream)
    };
    assert_eq!(line(&mut watching, "event:"), "event: live\n");
    place
        .folder
        .write_secret("console.token", "another-token-of-some-length");
    let ran = place.tollgate(&["reload", "tls.yaml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    // Whoever watches by the old token is let go, and does not come back in.
    assert_eq!(line(&mut watching, "nothing starts so"), "");
    let old = format!("\r\nauthorization: Bearer {TOKEN}");
    assert_eq!(status(&get(place.console, "/live.json", &old)), "401");
    let new = "\r\nauthorization: Bearer another-token-of-some-length";
    assert_eq!(status(&get(place.console, "/live.json", new)), "200");

    place.folder.write_secret("console.token", "short");
    let ran = place.tollgate(&["reload", "tls.yaml"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.all().contains("5 characters"), "{}", ran.all());
    assert_eq!(status(&get(place.console, "/live.json", new)), "200");

    let port = tollgate_testkit::free_port();
    let start = text.find("console:").unwrap();
    let end = start + text[start..].find('\n').unwrap();
    let moved = format!(
        "{}console: \"127.0.0.1:{port}\"{}",
        &text[..start],
        &text[end..]
    );
    place.folder.write("tls.yaml", moved);
    let ran = place.tollgate(&["reload", "tls.yaml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert_eq!(http_get(port, "/healthz").unwrap(), "ok\n");
    assert!(TcpStream::connect(("127.0.0.1", place.console)).is_err());
}

/// curl towards the console over TLS.
fn curl(server: &Server, arguments: &[&str]) -> Ran {
    let mut command = Command::new("curl");
    command
        .args(["-sS", "--max-time", "30", "--cacert", "ca.pem"])
        .args(arguments)
        .arg(format!(
            "https://localhost:{}/live.json",
            server.place.console
        ))
        .current_dir(server.place.folder.path());
    run(&mut command, b"")
}

#[test]
fn over_tls_a_certificate_and_a_token_are_wanted_where_both_are_configured() {
    let clients = Authority::new("visitors");
    let leaf = clients.client("visitor", Validity::Now);
    let (server, _backend) = served(|place| {
        place.folder.write("visitors.pem", clients.root_pem());
        leaf.write(&place.folder, "visitor");
        with_token(place);
        format!(
            "console:\n  address: \"127.0.0.1:{}\"\n  token_file: console.token\n  \
             certificate: {{ chain: ecdsa.pem, key: ecdsa.key }}\n  client_ca: visitors.pem\n",
            place.console
        )
    });
    let bearer = format!("authorization: Bearer {TOKEN}");
    let certificate = ["--cert", "visitor.pem", "--key", "visitor.key"];
    let without = curl(&server, &["-H", &bearer]);
    assert_ne!(without.code, Some(0), "{}", without.all());
    let alone = curl(
        &server,
        &[&certificate[..], &["-o", "/dev/null", "-w", "%{http_code}"]].concat(),
    );
    assert_eq!(alone.out, "401", "{}", alone.all());
    let both = curl(&server, &[&certificate[..], &["-H", &bearer]].concat());
    assert_eq!(both.code, Some(0), "{}", both.all());
    assert!(both.out.starts_with("{\"at_seconds\""), "{}", both.all());
    // `top` is let in by the same.
    let url = format!("https://localhost:{}", server.place.console);
    let arguments = [
        "top",
        "--once",
        "--ca",
        "ca.pem",
        "--client-certificate",
        "visitor.pem",
        "--client-key",
        "visitor.key",
        "--token-file",
        "console.token",
        &url,
    ];
    let top = server.place.tollgate(&arguments);
    assert_eq!(top.code, Some(0), "{}", top.all());
    assert!(top.out.contains("Tollgate"), "{}", top.all());
    let top = server
        .place
        .tollgate(&["top", "--once", "--ca", "ca.pem", &url]);
    assert_eq!(top.code, Some(3), "{}", top.all());
}
