//! `serve --demo`, as the README shows it.

use std::net::TcpListener;
use std::process::Command;

use crate::server::{Place, Server, binary, http_get};
use crate::tools::run;

#[test]
fn the_demo_serves_what_it_prints() {
    for port in [8443, 8444, 9180] {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            eprintln!("skipped: port {port} is taken by another program");
            return;
        }
    }
    let place = Place::new();
    let mut command = Command::new(binary());
    command.args(["serve", "--demo"]);
    let server = Server::spawn(place, &mut command);
    server.wait_ready();
    for flag in ["--http1.1", "--http2"] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-k", flag, "https://localhost:8443/"]);
        let ran = run(&mut curl, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        assert!(!ran.out.is_empty());
    }
    let mut openssl = Command::new("openssl");
    openssl.args([
        "s_client",
        "-connect",
        "localhost:8444",
        "-servername",
        "localhost",
    ]);
    let ran = run(&mut openssl, b"");
    assert!(
        ran.out.contains("Cipher is TLS_AES_128_GCM_SHA256"),
        "{}",
        ran.all()
    );
    openssl.args(["-sigalgs", "RSA-PSS+SHA256"]);
    let ran = run(&mut openssl, b"");
    assert!(
        ran.out.contains("Peer signature type: RSA-PSS"),
        "{}",
        ran.all()
    );
    assert!(
        http_get(9180, "/metrics")
            .unwrap()
            .contains("tollgate_handshakes_total")
    );
    // Three commands to try next, and each of them works as printed.
    let printed = server.stdout() + &server.stderr();
    for word in ["curl", "openssl s_client", "https://"] {
        assert!(printed.contains(word), "no {word} in\n{printed}");
    }
    for line in printed
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("curl "))
    {
        let ran = run(Command::new("bash").args(["-c", line]), b"");
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.all());
    }
}
