//! Experiments around a server of their own: what they were is asserted, how fast never.

use std::process::Command;

use serde_json::Value;
use tollgate_testkit::{Address, Folder, http_backend};

use crate::server::{Place, Server, binary};
use crate::tools::{Ran, run};

/// `tollgate bench ...` in a folder of its own.
fn bench(folder: &Folder, arguments: &[&str]) -> Ran {
    let mut command = Command::new(binary());
    // The experiments start the binary under test, not another one.
    command
        .env("TOLLGATE_BINARY", binary())
        .env("TMPDIR", folder.path())
        .arg("bench")
        .args(arguments)
        .current_dir(folder.path());
    run(&mut command, b"")
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.all()))
}

/// Names of what an experiment left behind.
fn left_behind(folder: &Folder) -> Vec<String> {
    std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tollgate-bench"))
        .collect()
}

#[test]
fn the_four_regimes_are_what_their_names_say_at_both_ends() {
    let folder = Folder::new();
    let ran = bench(
        &folder,
        &["regimes", "--duration", "600ms", "--explain", "--json"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let found = json(&ran);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "four over loopback, four in memory: {found}");
    for row in rows {
        let (regime, negotiated) = (
            row["regime"].as_str().unwrap(),
            row["negotiated"].as_str().unwrap(),
        );
        let kind = if regime == "resumed" {
            "resumed"
        } else {
            "full"
        };
        let suite = if regime.contains("ChaCha20") {
            "TLS_CHACHA20_POLY1305_SHA256"
        } else {
            "TLS_AES_128_GCM_SHA256"
        };
        assert_eq!(negotiated, format!("{kind} TLSv1.3 {suite}"), "{row}");
        assert!(row["client_handshakes"].as_u64().unwrap() > 0, "{row}");
        assert!(
            row["server_handshakes"].as_u64() >= row["client_handshakes"].as_u64(),
            "{row}"
        );
        assert_eq!(
            row["gigabits_per_second"].is_number(),
            regime.starts_with("bulk"),
            "{row}"
        );
        assert!(row["p99_micros"].as_f64() >= row["p50_micros"].as_f64());
    }
    let parts = found["explanation"]["parts"].as_array().unwrap();
    let shares: f64 = parts
        .iter()
        .map(|part| part["share"].as_f64().unwrap())
        .sum();
    assert!(parts.len() == 8 && shares > 0.5, "{}", found["explanation"]);
    assert!(found["clock_nanoseconds"].as_f64().unwrap() >= 0.0);
    assert!(
        left_behind(&folder).is_empty(),
        "{:?}",
        left_behind(&folder)
    );
}

#[test]
fn every_kind_of_certificate_is_made_and_served() {
    let folder = Folder::new();
    for kind in ["p384", "rsa2048"] {
        let ran = bench(
            &folder,
            &[
                "regimes",
                "--cert",
                kind,
                "--transport",
                "loopback",
                "--duration",
                "600ms",
            ],
        );
        assert_eq!(ran.code, Some(0), "{kind}: {}", ran.all());
        assert!(ran.out.contains("c6i.4xlarge"), "{}", ran.all());
    }
    let wrong = bench(&folder, &["regimes", "--cert", "dsa"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.all());
    assert!(wrong.all().contains("rsa4096"), "{}", wrong.all());
}

#[test]
fn the_flame_graph_names_functions_and_needs_nothing_else() {
    let folder = Folder::new();
    let ran = bench(
        &folder,
        &[
            "regimes",
            "--transport",
            "memory",
            "--duration",
            "400ms",
            "--flame",
            "out.svg",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let svg = folder.read("out.svg");
    assert!(svg.contains("<svg") && svg.contains("</svg>"));
    // Our own record layer and the cryptography below it.
    for part in ["tollgate", "aes_gcm"] {
        assert!(svg.contains(part), "no {part} in the flame graph");
    }
    assert!(
        !svg.contains("src=\"http") && !svg.contains("@import"),
        "it needs the network"
    );
    let refused = bench(
        &folder,
        &[
            "regimes",
            "--transport",
            "memory",
            "--duration",
            "50ms",
            "--flame",
            "no/such/out.svg",
        ],
    );
    assert_eq!(refused.code, Some(3), "{}", refused.all());
    assert!(
        refused.all().contains("no/such/out.svg"),
        "{}",
        refused.all()
    );
}

#[test]
fn the_table_of_suites_holds_full_handshakes_alone() {
    let folder = Folder::new();
    let ran = bench(
        &folder,
        &[
            "tps",
            "--matrix",
            "--duration",
            "150ms",
            "--cores",
            "1",
            "--json",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let found = json(&ran);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "{found}");
    for row in rows {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 1);
        let (client, server) = (
            cells[0]["client_full"].as_u64().unwrap(),
            cells[0]["server_full"].as_u64().unwrap(),
        );
        assert!(client > 0 && server >= client, "{row}");
        assert_eq!(cells[0]["missed"].as_array().unwrap().len(), 0, "{row}");
    }
    assert_eq!(found["hit_rate"].as_f64(), Some(0.0));
}

#[test]
fn certificates_are_compared_under_the_same_load_and_ed25519_is_warned_of() {
    let folder = Folder::new();
    for command in ["certs", "cycles"] {
        let ran = bench(
            &folder,
            &[
                command,
                "--cert",
                "rsa2048,ecdsa,ed25519",
                "--duration",
                "1s",
                "--rate",
                "50",
                "--json",
            ],
        );
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let found = json(&ran);
        let rows = found["rows"].as_array().unwrap();
        let names: Vec<_> = rows
            .iter()
            .map(|row| row["certificate"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["rsa-2048", "ecdsa-p256", "ed25519"]);
        for row in rows {
            let done = row["client_full"].as_u64().unwrap();
            assert!((47..=67).contains(&done), "{row}");
        }
        assert!(
            found["notes"]
                .to_string()
                .contains("browsers do not accept Ed25519")
        );
        let counter = found["counter"].as_str().unwrap();
        assert!(
            counter == "cpu_time" || (command == "cycles" && counter == "cycles"),
            "{found}"
        );
    }
}

/// An application with plaintext and TLS: our own test backend, and a Tollgate that plays its TLS.
fn application() -> (Server, tollgate_testkit::Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], "");
    (Server::start(place, &config), backend)
}

/// A short `bench app` between the backend and the Tollgate in front of it.
fn ask(
    folder: &Folder,
    (server, backend): &(Server, tollgate_testkit::Backend),
    more: &[&str],
) -> Ran {
    let plain = format!("http://{}/bytes/{{bytes}}", backend.address());
    let tls = format!("https://127.0.0.1:{}/bytes/{{bytes}}", server.place.port);
    let short = "--repetitions 2 --duration 10ms --warm-up 10ms --payloads 1,10k";
    let mut words = vec!["app", "--plain", &plain, "--tls", &tls];
    words.extend(short.split(' '));
    words.extend(more);
    bench(folder, &words)
}

#[test]
fn an_application_is_asked_over_every_way_and_a_verdict_given() {
    let application = application();
    let folder = Folder::new();
    let ca = application.0.place.folder.join("ca.pem");
    let ca = ca.display().to_string();
    let ran = ask(
        &folder,
        &application,
        &["--ca", &ca, "--svg", "app.svg", "--json"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let found = json(&ran);
    let ways = found["ways"].as_array().unwrap();
    let expected = [
        "plaintext",
        "own TLS",
        "Tollgate, http mode",
        "Tollgate, tcp mode",
    ];
    assert_eq!(ways.len(), expected.len(), "{found}");
    for (way, name) in ways.iter().zip(expected) {
        assert_eq!(way["name"], name);
        let cells = way["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2);
        for cell in cells {
            assert!(cell["requests"].as_u64().unwrap() >= 2, "{way}");
        }
    }
    let worth = found["verdict"]["worth"].as_str().unwrap();
    assert!(
        ["worth_it", "not_worth_it", "cannot_tell"].contains(&worth),
        "{found}"
    );
    let svg = folder.read("app.svg");
    assert!(svg.contains("Tollgate, tcp mode") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn an_application_can_be_asked_anew_each_time_but_not_by_a_stranger() {
    let application = application();
    let folder = Folder::new();
    let text = ask(&folder, &application, &["--insecure", "--fresh"]);
    assert_eq!(text.code, Some(0), "{}", text.all());
    assert!(
        text.out.contains("Verdict: ") && text.out.contains("full handshake"),
        "{}",
        text.all()
    );
    // The authority of somebody else does not vouch for the application.
    let other = tollgate_testkit::Authority::new("somebody else");
    folder.write("other.pem", other.root_pem());
    let refused = ask(&folder, &application, &["--ca", "other.pem"]);
    assert_eq!(refused.code, Some(3), "{}", refused.all());
    assert!(
        refused.all().contains("own TLS") && refused.all().contains("--insecure"),
        "{}",
        refused.all()
    );
}

#[test]
fn an_application_that_is_not_there_is_named() {
    let folder = Folder::new();
    let port = tollgate_testkit::free_port();
    let plain = format!("http://127.0.0.1:{port}/");
    let tls = format!("https://127.0.0.1:{port}/");
    let ran = bench(
        &folder,
        &["app", "--plain", &plain, "--tls", &tls, "--insecure"],
    );
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(ran.all().contains("plaintext"), "{}", ran.all());
    let wrong = bench(&folder, &["app", "--plain", "127.0.0.1:1", "--tls", &tls]);
    assert_ne!(wrong.code, Some(0));
    assert!(wrong.all().contains("http://HOST"), "{}", wrong.all());
}
