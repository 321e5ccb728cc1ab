//! `serve --demo`, as the README shows it.

use std::net::TcpListener;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::server::{Place, Server, binary, http_get};
use crate::tools::{eventually, run};

/// The demo's ports cannot be chosen: one test at a time, and none while another program has them.
static PORTS: Mutex<()> = Mutex::new(());

fn ports_are_free() -> bool {
    [8443, 8444, 9180].into_iter().all(|port| {
        let free = TcpListener::bind(("127.0.0.1", port)).is_ok();
        if !free {
            eprintln!("skipped: port {port} is taken by another program");
        }
        free
    })
}

#[test]
fn a_driven_demo_moves_every_panel_within_ten_seconds() {
    let _ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !ports_are_free() {
        return;
    }
    let mut command = Command::new(binary());
    command.args(["serve", "--demo", "--drive"]);
    let mut server = Server::spawn(Place::new(), &mut command);
    server.wait_ready();
    let mut live = Value::Null;
    let mut still = Vec::new();
    let moved = eventually(Duration::from_secs(20), || {
        let text = http_get(9180, "/live.json").unwrap_or_default();
        live = serde_json::from_str(&text).unwrap_or_default();
        still = standing_still(&live);
        still.is_empty()
    });
    assert!(moved, "still {still:?} in {live}");
    let printed = server.stdout() + &server.stderr();
    for hint in ["http://127.0.0.1:9180/", "tollgate top", "a small load"] {
        let there = printed.to_lowercase().contains(hint);
        assert!(there, "no {hint} in\n{printed}");
    }
    // What the demo drives does not hold up its end.
    server.signal("INT");
    assert_eq!(server.wait_exit(Duration::from_secs(10)), Some(0));
}

/// What of the panels has not moved yet.
fn standing_still(live: &Value) -> Vec<String> {
    let numbers = [
        "/second/full_per_second",
        "/second/resumed_per_second",
        "/second/hit_rate",
        "/second/requests_per_second",
        "/second/client_in_bytes_per_second",
        "/second/client_out_bytes_per_second",
        "/minute/cores/asymmetric",
        "/minute/cores/derivation",
        "/minute/cores/records",
        "/minute/cores/not_tls",
        "/minute/open/http",
        "/minute/open/tcp",
        "/dominant/micros_per_second",
        "/price/saved_cores",
        "/price/cores_at_zero",
        "/boxes/0/headline/value",
        "/boxes/1/headline/value",
        "/boxes/2/headline/value",
        "/boxes/5/headline/value",
        "/listeners/0/accepted_per_second",
        "/listeners/1/accepted_per_second",
        "/sites/0/hit_rate",
        "/workers/0/handshakes_per_second",
        "/workers/1/handshakes_per_second",
    ];
    let mut still: Vec<String> = numbers
        .into_iter()
        .filter(|path| {
            let value = live.pointer(path).and_then(Value::as_f64);
            value.is_none_or(|value| value <= 0.0)
        })
        .map(str::to_owned)
        .collect();
    let named = [
        ("/misses", "nothing_offered"),
        ("/misses", "expired"),
        ("/misses", "unknown_key"),
        ("/misses", "other_site"),
        ("/mixes/versions", "TLSv1.2"),
        ("/mixes/versions", "TLSv1.3"),
        ("/mixes/suites", "TLS_AES_128_GCM_SHA256"),
        ("/mixes/suites", "TLS_CHACHA20_POLY1305_SHA256"),
        ("/mixes/groups", "X25519MLKEM768"),
        ("/mixes/groups", "x25519"),
        ("/mixes/certificates", "ecdsa-p256"),
        ("/mixes/certificates", "rsa-2048"),
    ];
    for (list, name) in named {
        let there = live
            .pointer(list)
            .and_then(Value::as_array)
            .is_some_and(|list| {
                list.iter()
                    .any(|one| one["name"] == name && one["per_second"].as_f64() > Some(0.0))
            });
        if !there {
            still.push(format!("{list} {name}"));
        }
    }
    still
}

#[test]
fn the_demo_serves_what_it_prints() {
    let _ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !ports_are_free() {
        return;
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
