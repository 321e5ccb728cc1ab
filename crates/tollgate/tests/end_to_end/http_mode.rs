//! HTTP/1.1 and HTTP/2 through Tollgate.

use std::io::{Read, Write};
use std::process::Command;

use tollgate_testkit::{Address, Backend, Offer, Seen, h2c_backend, http_backend};

use crate::server::{Place, Server, described, get, seen_header};
use crate::tools::{find, run};

fn served() -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend)
}

#[test]
fn curl_is_served_over_both_protocols() {
    let (server, _backend) = served();
    for (flag, version) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")] {
        let ran = server.curl(&[
            flag,
            "-w",
            "\n%{http_version}",
            "https://shop.test/path?q=1",
        ]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let (body, used) = ran.out.rsplit_once('\n').unwrap();
        assert_eq!(used, version.trim_start_matches("HTTP/"));
        let seen = described(body);
        assert_eq!(seen["method"], "GET");
        assert_eq!(seen["target"], "/path?q=1");
        assert_eq!(seen["version"], "HTTP/1.1");
        assert_eq!(seen_header(&seen, "host"), ["shop.test"]);
        assert_eq!(seen_header(&seen, "x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(seen_header(&seen, "x-forwarded-proto"), ["https"]);
        assert_eq!(seen_header(&seen, "x-forwarded-host"), ["shop.test"]);
        let line = server.wait_log(|line| line["protocol"] == version);
        assert_eq!(line["status"], 200);
        assert_eq!(line["path"], "/path?q=1");
        assert_eq!(line["server_name"], "shop.test");
        assert_eq!(line["event"], "request");
        assert_eq!(line["end"], "complete");
    }
}

#[test]
fn ten_megabytes_stream_both_ways() {
    let (server, _backend) = served();
    let content: Vec<u8> = (0..10_000_000_u32).map(|n| (n % 251) as u8).collect();
    server.place.folder.write("upload", &content);
    for flag in ["--http1.1", "--http2"] {
        for how in ["--data-binary", "-T"] {
            let source = if how == "-T" { "upload" } else { "@upload" };
            let ran = server.curl(&[
                flag,
                how,
                source,
                "-H",
                "expect:",
                "-o",
                "download",
                "https://shop.test/mirror",
            ]);
            assert_eq!(ran.code, Some(0), "{flag} {how}: {}", ran.all());
            let back = std::fs::read(server.place.folder.join("download")).unwrap();
            assert!(
                back == content,
                "{flag} {how}: {} bytes came back",
                back.len()
            );
        }
    }
}

#[test]
fn an_upload_of_unknown_length_arrives_whole() {
    let (server, _backend) = served();
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl_with(&[flag, "-T", "-", "https://shop.test/x"], &[b'a'; 300_000]);
        let seen = described(&ran.out);
        assert_eq!(seen["body_bytes"], 300_000, "{}", ran.all());
        assert_eq!(seen["body_sum"], 300_000 * 97);
    }
}

#[test]
fn the_first_bytes_of_a_slow_answer_are_not_held_back() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    connection
        .write_all(get("/drip/3/2000").as_bytes())
        .unwrap();
    let started = std::time::Instant::now();
    let mut piece = [0; 4096];
    let mut seen = 0;
    while seen < 1000 {
        seen += connection.read(&mut piece).unwrap();
    }
    assert!(
        started.elapsed().as_millis() < 1900,
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn expect_100_continue_is_granted_and_a_refusal_arrives() {
    let (server, backend) = served();
    server.place.folder.write("upload", vec![b'b'; 2_000_000]);
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[
            flag,
            "-H",
            "expect: 100-continue",
            "--expect100-timeout",
            "20",
            "--data-binary",
            "@upload",
            "https://shop.test/x",
        ]);
        assert_eq!(
            described(&ran.out)["body_bytes"],
            2_000_000,
            "{}",
            ran.all()
        );
    }
    let mut connection = server.connect();
    connection
        .write_all(b"POST /refuse-expect HTTP/1.1\r\nhost: shop.test\r\nexpect: 100-continue\r\ncontent-length: 1000000\r\n\r\n")
        .unwrap();
    let answer = String::from_utf8(connection.rest().unwrap()).unwrap();
    let last = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(last.starts_with("HTTP/1.1 417"), "{answer}");
    assert!(backend.requests() >= 3);
}

#[test]
fn trailers_travel_both_ways() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    let answer = connection
        .exchange("POST /x HTTP/1.1\r\nhost: shop.test\r\ntransfer-encoding: chunked\r\ntrailer: x-check\r\n\r\n3\r\nabc\r\n0\r\nx-check: 7\r\n\r\n")
        .unwrap();
    let seen = described(&answer);
    assert_eq!(seen["body"], "abc");
    assert_eq!(seen["trailers"][0][1], "7", "{seen}");
    let mut connection = server.connect();
    connection
        .write_all(b"GET /trailers HTTP/1.1\r\nhost: shop.test\r\nte: trailers\r\nconnection: te, close\r\n\r\n")
        .unwrap();
    let answer = String::from_utf8(connection.rest().unwrap()).unwrap();
    assert!(answer.ends_with("x-sum: 4\r\n\r\n"), "{answer}");
    let Some(program) = find("nghttp") else {
        eprintln!("skipped: nghttp is not installed");
        return;
    };
    let mut command = Command::new(program);
    command
        .args(["-v", "-H", "te: trailers"])
        .arg(format!("https://127.0.0.1:{}/trailers", server.place.port));
    command.args(["-H", ":authority: localhost"]);
    let ran = run(&mut command, b"");
    assert!(ran.out.contains("x-sum: 4"), "{}", ran.all());
}

#[test]
fn informational_answers_do_not_confuse_the_final_one() {
    let (server, _backend) = served();
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[flag, "https://shop.test/hints"]);
        assert_eq!(ran.out, "hints", "{}", ran.all());
    }
}

#[test]
fn statuses_without_a_body_and_head_requests_end_where_they_should() {
    let (server, _backend) = served();
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[
            flag,
            "-w",
            "%{http_code} ",
            "https://shop.test/status/204",
            "https://shop.test/status/304",
            "https://shop.test/status/404",
        ]);
        assert_eq!(ran.out, "204 304 404 ", "{}", ran.all());
        let ran = server.curl(&[flag, "-I", "https://shop.test/bytes/0"]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
    }
    let mut connection = server.connect();
    connection
        .write_all(b"HEAD / HTTP/1.1\r\nhost: shop.test\r\n\r\nGET /status/200 HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n")
        .unwrap();
    let answers = String::from_utf8(connection.rest().unwrap()).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
}

#[test]
fn connections_are_kept_on_both_sides() {
    let (server, backend) = served();
    let mut connection = server.connect();
    for _ in 0..20 {
        connection.exchange(&get("/")).unwrap();
    }
    assert_eq!(Seen::count(&backend.seen().connections), 1);
    let metrics = server.metrics();
    assert!((metrics.sum("tollgate_handshakes_total", &[]) - 1.0).abs() < 0.1);
    assert!((metrics.sum("tollgate_requests_total", &[("code", "200")]) - 20.0).abs() < 0.1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    let requests = format!(
        "{}{}{}",
        get("/bytes/3"),
        get("/status/404"),
        "GET /bytes/5 HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(requests.as_bytes()).unwrap();
    let answers = String::from_utf8(connection.rest().unwrap()).unwrap();
    let statuses: Vec<_> = answers.matches("HTTP/1.1 ").collect();
    assert_eq!(statuses.len(), 3, "{answers}");
    assert!(
        answers.find("xxx").unwrap() < answers.find(" 404").unwrap(),
        "{answers}"
    );
    assert!(answers.ends_with("xxxxx"), "{answers}");
}

#[test]
fn http10_clients_are_answered_and_closed() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    connection
        .write_all(b"GET /chunked/3000 HTTP/1.0\r\nhost: shop.test\r\n\r\n")
        .unwrap();
    let answer = String::from_utf8(connection.rest().unwrap()).unwrap();
    assert!(
        !answer.to_ascii_lowercase().contains("transfer-encoding"),
        "{answer}"
    );
    assert_eq!(answer.matches('y').count(), 3000);
}

#[test]
fn a_websocket_upgrade_becomes_a_tunnel() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    connection
        .write_all(b"GET /websocket HTTP/1.1\r\nhost: shop.test\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        .unwrap();
    let answer = connection.answer().unwrap();
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    let lower = answer.to_ascii_lowercase();
    assert!(lower.contains("upgrade: websocket"), "{answer}");
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    for round in 0..10_u8 {
        let message = vec![round; 70_000];
        let mut writer = message.as_slice();
        let mut back = vec![0; message.len()];
        let mut filled = 0;
        // Reading and writing take turns, so that no side waits for the other with full buffers.
        while filled < back.len() {
            let part = writer.len().min(10_000);
            connection.write_all(&writer[..part]).unwrap();
            writer = &writer[part..];
            filled += connection.read(&mut back[filled..]).unwrap();
        }
        assert!(back == message);
    }
}

#[test]
fn forwarding_headers_of_strangers_are_dropped() {
    let (server, _backend) = served();
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[
            flag,
            "-H",
            "x-forwarded-for: 203.0.113.66",
            "-H",
            "forwarded: for=203.0.113.66",
            "-H",
            "x-forwarded-proto: gopher",
            "-H",
            "x-forwarded-host: evil.test",
            "-H",
            "x-forwarded-port: 1",
            "-H",
            "x-real-ip: 203.0.113.66",
            "https://shop.test/",
        ]);
        let seen = described(&ran.out);
        assert_eq!(seen_header(&seen, "x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(seen_header(&seen, "x-forwarded-proto"), ["https"]);
        assert_eq!(seen_header(&seen, "x-forwarded-host"), ["shop.test"]);
        assert_eq!(seen_header(&seen, "forwarded"), Vec::<String>::new());
    }
}

#[test]
fn forwarding_headers_of_trusted_peers_are_extended() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with(
        "http",
        &[&format!("http://{}", backend.address())],
        "    forwarded: { trust: [\"127.0.0.0/8\"], headers: both }\n",
    );
    let server = Server::start(place, &config);
    let ran = server.curl(&[
        "-H",
        "x-forwarded-for: 203.0.113.66",
        "-H",
        "forwarded: for=203.0.113.66",
        "https://shop.test/",
    ]);
    let seen = described(&ran.out);
    assert_eq!(
        seen_header(&seen, "x-forwarded-for").join(", "),
        "203.0.113.66, 127.0.0.1"
    );
    let forwarded = seen_header(&seen, "forwarded").join(", ");
    assert!(forwarded.contains("for=203.0.113.66"), "{forwarded}");
    assert!(forwarded.contains("for=127.0.0.1"), "{forwarded}");
    assert!(forwarded.contains("proto=https"), "{forwarded}");
}

#[test]
fn hop_by_hop_headers_stay_on_their_hop() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    let answer = connection
        .exchange("GET / HTTP/1.1\r\nhost: shop.test\r\nconnection: keep-alive, x-secret\r\nx-secret: 1\r\nkeep-alive: timeout=5\r\nproxy-connection: x\r\nx-open: 1\r\n\r\n")
        .unwrap();
    let seen = described(&answer);
    for name in ["x-secret", "keep-alive", "proxy-connection"] {
        assert_eq!(seen_header(&seen, name), Vec::<String>::new(), "{name}");
    }
    assert_eq!(seen_header(&seen, "x-open"), ["1"]);
}

#[test]
fn backends_on_unix_sockets_are_reached() {
    let place = Place::new();
    let path = place.folder.join("app.sock");
    let name = format!("tollgate-test-{}", place.port);
    let by_path = http_backend(&Address::UnixPath(path), None, "path", false);
    let by_name = http_backend(&Address::UnixAbstract(name), None, "abstract", false);
    let config = place.config("http", &[by_path.address(), by_name.address()]);
    let server = Server::start(place, &config);
    let mut names: Vec<String> = (0..8)
        .map(|_| {
            described(&server.get("/").unwrap())["backend"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names, ["abstract", "path"]);
}

#[test]
fn a_listener_on_a_unix_socket_serves_curl() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let socket = place.folder.join("front.sock");
    let mut config = format!(
        "listeners:\n  - address: \"unix:{}\"\n    socket_mode: \"0600\"\nsites:\n",
        socket.display()
    );
    config.push_str(&place.site(&["shop.test"], &[&format!("http://{}", backend.address())]));
    let server = Server::start(place, &config);
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[
            flag,
            "--unix-socket",
            socket.to_str().unwrap(),
            "https://shop.test/",
        ]);
        assert_eq!(described(&ran.out)["backend"], "one", "{}", ran.all());
    }
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_h2c_backend_is_multiplexed() {
    let backend = h2c_backend("two");
    let place = Place::new();
    let config = place.config("http", &[&format!("h2c://{}", backend.address())]);
    let server = Server::start(place, &config);
    for flag in ["--http1.1", "--http2"] {
        let ran = server.curl(&[flag, "--data-binary", "abc", "https://shop.test/x"]);
        let seen = described(&ran.out);
        assert_eq!(seen["version"], "HTTP/2.0");
        assert_eq!(seen["authority"], "shop.test", "{seen}");
        assert_eq!(seen["body"], "abc");
    }
    many_at_once(&server);
    let connections = backend.connections();
    many_at_once(&server);
    assert!(backend.most_open() > 2, "{}", backend.most_open());
    assert_eq!(
        backend.connections(),
        connections,
        "requests share the connections that are there"
    );
}

fn many_at_once(server: &Server) {
    let threads: Vec<_> = (0..12)
        .map(|_| {
            let client = server.client(&Offer::default());
            let address = server.address();
            std::thread::spawn(move || {
                let mut connection = client.connect(address, "shop.test").unwrap();
                connection.exchange(&get("/slow/500")).unwrap()
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap().starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn websocket_handshakes_without_an_upgrade_at_the_backend_stay_http() {
    let (server, _backend) = served();
    let mut connection = server.connect();
    let answer = connection
        .exchange("GET / HTTP/1.1\r\nhost: shop.test\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        connection
            .exchange(&get("/status/404"))
            .unwrap()
            .starts_with("HTTP/1.1 404")
    );
}
