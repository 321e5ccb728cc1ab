//! Many requests at once, and the protocol's own test suite.

use std::process::Command;

use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server};
use crate::tools::{find, run};

/// h2load speaks HTTP/2 unless told otherwise; this option is its default.
pub const H2: &str = "-w30";

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

#[test]
fn h2load_sees_no_failure() {
    let (server, backend) = served("");
    let mut expected = 0;
    for (flag, streams) in [("--h1", "1"), (H2, "10")] {
        for path in ["status/200", "bytes/100000"] {
            let url = format!("https://127.0.0.1:{}/{path}", server.place.port);
            let mut command = Command::new("h2load");
            command.args([
                flag, "-n", "2000", "-c", "20", "-t", "1", "-m", streams, &url,
            ]);
            let ran = run(&mut command, b"");
            assert!(
                ran.out
                    .contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"),
                "{flag} {path}: {}",
                ran.all()
            );
            expected += 2000;
        }
    }
    assert_eq!(backend.requests(), expected);
    assert!(
        server.wait_metrics(|metrics| {
            let handshakes = metrics.sum("tollgate_handshakes_total", &[]);
            let requests = metrics.sum("tollgate_requests_total", &[("code", "200")]);
            (handshakes - 80.0).abs() < 0.5 && (requests - 8000.0).abs() < 0.5
        }),
        "{:?}",
        server.metrics().series("tollgate_requests_total")
    );
}

#[test]
fn h2spec_finds_nothing() {
    let Some(program) = find("h2spec") else {
        eprintln!(
            "skipped: h2spec is not installed (go install github.com/summerwind/h2spec/cmd/h2spec@latest)"
        );
        return;
    };
    let (server, _backend) = served("");
    let mut command = Command::new(program);
    command.args([
        "-t",
        "-k",
        "-h",
        "localhost",
        "-p",
        &server.place.port.to_string(),
        "-o",
        "5",
        "-P",
        "/bytes/100",
    ]);
    let ran = run(&mut command, b"");
    let failed: Vec<&str> = ran.out.lines().filter(|line| line.contains('×')).collect();
    assert!(
        ran.out.contains(", 0 failed"),
        "{}\n{}",
        failed.join("\n"),
        ran.all()
    );
}
