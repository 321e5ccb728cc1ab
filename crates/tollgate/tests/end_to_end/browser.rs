//! A real browser.

use std::process::Command;

use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server};
use crate::tools::{Ran, find, run};

fn served(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], more);
    (Server::start(place, &config), backend)
}

fn browse(server: &Server, path: &str) -> Option<Ran> {
    let Some(program) = find("chromium").or_else(|| find("google-chrome")) else {
        eprintln!("skipped: chromium is not installed");
        return None;
    };
    let mut command = Command::new(program);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--ignore-certificate-errors",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            server.place.folder.join("browser").display()
        ))
        .arg(format!("https://localhost:{}{path}", server.place.port));
    Some(run(&mut command, b""))
}

#[test]
fn chromium_shows_a_page_over_http2() {
    let (server, _backend) = served("");
    let Some(ran) = browse(&server, "/page") else {
        return;
    };
    assert!(ran.out.contains("8 pieces loaded"), "{}", ran.all());
    let line = server.wait_log(|line| line["path"] == "/page");
    assert_eq!(line["protocol"], "HTTP/2", "{line}");
    assert_eq!(line["tls_version"], "TLSv1.3");
    assert_eq!(line["tls_group"], "X25519MLKEM768", "{line}");
}

#[test]
fn chromium_resumes_on_its_further_connections() {
    let (server, _backend) = served("    alpn: [\"http/1.1\"]\n");
    let Some(ran) = browse(&server, "/page") else {
        return;
    };
    assert!(ran.out.contains("8 pieces loaded"), "{}", ran.all());
    assert!(
        server.wait_metrics(|metrics| metrics
            .sum("tollgate_handshakes_total", &[("kind", "resumed")])
            >= 1.0),
        "{:?}",
        server.metrics().series("tollgate_handshakes_total")
    );
}
