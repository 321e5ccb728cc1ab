//! What real TLS clients negotiate.

use tollgate_testkit::{Address, Backend, Offer, http_backend};

use crate::server::{Place, Server, get};
use crate::tools::{python, run};

fn served() -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend)
}

fn closing(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n")
}

#[test]
fn openssl_gets_ecdsa_with_both_versions() {
    let (server, _backend) = served();
    for (flag, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let ran = server.s_client(
            &["-servername", "shop.test", flag, "-ign_eof"],
            &closing("/status/204"),
        );
        assert!(ran.out.contains("Verify return code: 0"), "{}", ran.all());
        assert!(
            ran.out.contains("Peer signature type: ECDSA"),
            "{}",
            ran.all()
        );
        assert!(ran.out.contains(version), "{}", ran.all());
        assert!(ran.out.contains("HTTP/1.1 204"), "{}", ran.all());
        let line = server.wait_log(|line| line["tls_version"] == version);
        assert_eq!(line["tls_kind"], "full");
        assert_eq!(line["tls_certificate"], "ecdsa-p256");
    }
}

#[test]
fn a_client_without_ecdsa_gets_the_rsa_certificate() {
    let (server, _backend) = served();
    let cases: [&[&str]; 3] = [
        &["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"],
        &["-tls1_2", "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"],
        // TLS 1.2 chooses by suite as well.
        &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
    ];
    for case in cases {
        let mut arguments = vec!["-servername", "shop.test"];
        arguments.extend(case);
        let ran = server.s_client(&arguments, "");
        assert!(ran.out.contains("Verify return code: 0"), "{}", ran.all());
        assert!(
            ran.out.contains("Peer signature type: RSA"),
            "{}",
            ran.all()
        );
    }
    server.s_client(&["-servername", "shop.test"], "");
    assert!(server.wait_metrics(|metrics| {
        let kind = |name| metrics.sum("tollgate_handshakes_total", &[("certificate", name)]);
        #[expect(clippy::float_cmp, reason = "counters are whole numbers")]
        let equal = kind("rsa-2048") == 3.0 && kind("ecdsa-p256") == 1.0;
        equal
    }));
}

#[test]
fn the_clients_order_decides_only_about_chacha20() {
    let (server, _backend) = served();
    let cases = [
        (
            "-ciphersuites",
            "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        (
            "-ciphersuites",
            "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
            "TLS_AES_128_GCM_SHA256",
        ),
        (
            "-ciphersuites",
            "TLS_AES_256_GCM_SHA384",
            "TLS_AES_256_GCM_SHA384",
        ),
        (
            "-cipher",
            "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (
            "-cipher",
            "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
    ];
    for (option, offered, expected) in cases {
        let version = if option == "-cipher" {
            "-tls1_2"
        } else {
            "-tls1_3"
        };
        let ran = server.s_client(&["-servername", "shop.test", version, option, offered], "");
        assert!(
            ran.out.contains(&format!("Cipher is {expected}")),
            "offered {offered}: {}",
            ran.all()
        );
    }
}

#[test]
fn old_versions_and_weak_suites_are_refused_with_the_right_alert() {
    let (server, _backend) = served();
    let ran = server.s_client(&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], "");
    assert!(ran.err.contains("alert protocol version"), "{}", ran.all());
    for weak in [
        "ECDHE-RSA-AES128-SHA",
        "AES128-GCM-SHA256",
        "DHE-RSA-AES128-GCM-SHA256",
    ] {
        let ran = server.s_client(
            &["-tls1_2", "-servername", "shop.test", "-cipher", weak],
            "",
        );
        assert!(
            ran.err.contains("alert handshake failure"),
            "{weak}: {}",
            ran.all()
        );
    }
    assert!(server.wait_metrics(|metrics| {
        metrics.sum(
            "tollgate_handshake_failures_total",
            &[("culprit", "client")],
        ) >= 4.0
    }));
    let line = server.wait_log(|line| line["event"] == "handshake_failed");
    assert!(
        line["error"].as_str().is_some_and(|text| !text.is_empty()),
        "{line}"
    );
    assert!(server.get("/").is_ok());
}

#[test]
fn every_group_is_negotiated() {
    let (server, _backend) = served();
    for (group, printed, label) in [
        ("X25519", "X25519", "x25519"),
        ("P-256", "prime256v1", "secp256r1"),
        ("P-384", "secp384r1", "secp384r1"),
    ] {
        for version in ["-tls1_3", "-tls1_2"] {
            // In TLS 1.2 the groups limit the curve of an ECDSA certificate as well, so this client takes RSA.
            let ran = server.s_client(
                &[
                    "-servername",
                    "shop.test",
                    version,
                    "-groups",
                    group,
                    "-sigalgs",
                    "RSA-PSS+SHA256",
                ],
                "",
            );
            assert!(ran.out.contains("Server Temp Key"), "{}", ran.all());
            assert!(ran.out.contains(printed), "{}", ran.all());
        }
        assert!(server.wait_metrics(|metrics| {
            metrics.sum("tollgate_handshakes_total", &[("group", label)]) >= 2.0
        }));
    }
    server.get("/").unwrap();
    assert!(server.wait_metrics(|metrics| {
        metrics.sum("tollgate_handshakes_total", &[("group", "X25519MLKEM768")]) >= 1.0
    }));
}

#[test]
fn a_hello_retry_request_is_counted_as_such() {
    let (server, _backend) = served();
    // The client sends a share for a group that no server here takes, and supports P-384.
    let ran = server.s_client(
        &[
            "-servername",
            "shop.test",
            "-tls1_3",
            "-groups",
            "P-521:P-384",
        ],
        "",
    );
    assert!(ran.out.contains("Verify return code: 0"), "{}", ran.all());
    assert!(server.wait_metrics(|metrics| {
        metrics.sum("tollgate_handshakes_total", &[("kind", "full_with_retry")]) >= 1.0
    }));
}

#[test]
fn a_client_without_a_server_name_gets_the_first_site() {
    let (server, _backend) = served();
    for sigalgs in ["ECDSA+SHA256", "RSA-PSS+SHA256"] {
        let ran = server.s_client(&["-noservername", "-sigalgs", sigalgs], "");
        assert!(ran.out.contains("Verify return code: 0"), "{}", ran.all());
    }
}

#[test]
fn pythons_ssl_is_served_with_both_versions() {
    let (server, _backend) = served();
    let authority = server.place.folder.join("ca.pem");
    let port = server.place.port.to_string();
    for version in ["TLSv1_2", "TLSv1_3"] {
        let ran = python(
            "fetch.py",
            &[
                &port,
                "shop.test",
                authority.to_str().unwrap(),
                version,
                "whole",
            ],
            &closing("/bytes/100000"),
        );
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        assert_eq!(ran.out.matches('x').count(), 100_000, "{}", ran.err);
    }
}

#[test]
fn a_handshake_in_one_byte_segments_succeeds() {
    let (server, _backend) = served();
    let authority = server.place.folder.join("ca.pem");
    let port = server.place.port.to_string();
    for version in ["TLSv1_2", "TLSv1_3"] {
        let ran = python(
            "fetch.py",
            &[
                &port,
                "shop.test",
                authority.to_str().unwrap(),
                version,
                "bytes",
            ],
            &closing("/bytes/10"),
        );
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        assert!(ran.out.contains("xxxxxxxxxx"), "{}", ran.all());
    }
}

#[test]
fn a_close_without_close_notify_is_not_mistaken_for_the_end_by_openssl() {
    let (server, _backend) = served();
    let ran = server.s_client(
        &["-servername", "shop.test", "-ign_eof"],
        &closing("/bytes/1000"),
    );
    // s_client prints "closed" after a close_notify and an error after a bare end.
    assert!(!ran.err.contains("unexpected eof"), "{}", ran.all());
    assert!(ran.out.contains("closed"), "{}", ran.all());
}

#[test]
fn alpn_is_agreed_in_the_servers_order_and_a_stranger_is_refused() {
    let (server, _backend) = served();
    for (offered, agreed) in [("http/1.1,h2", "h2"), ("http/1.1", "http/1.1")] {
        let ran = server.s_client(&["-servername", "shop.test", "-alpn", offered], "");
        assert!(
            ran.out.contains(&format!("ALPN protocol: {agreed}")),
            "{}",
            ran.all()
        );
    }
    let ran = server.s_client(&["-servername", "shop.test", "-alpn", "smtp"], "");
    assert!(ran.err.contains("no application protocol"), "{}", ran.all());
    let plain = server.client(&Offer::default());
    let mut connection = plain.connect(server.address(), "shop.test").unwrap();
    assert!(
        connection
            .exchange(&get("/"))
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn gnutls_is_served_where_it_is_installed() {
    let Some(program) = crate::tools::find("gnutls-cli") else {
        eprintln!("skipped: gnutls-cli is not installed");
        return;
    };
    let (server, _backend) = served();
    let mut command = std::process::Command::new(program);
    command
        .args([
            "--sni-hostname",
            "shop.test",
            "--verify-hostname",
            "shop.test",
        ])
        .arg(format!(
            "--x509cafile={}",
            server.place.folder.join("ca.pem").display()
        ))
        .args(["--port", &server.place.port.to_string(), "127.0.0.1"]);
    let ran = run(&mut command, closing("/bytes/10").as_bytes());
    assert!(ran.out.contains("xxxxxxxxxx"), "{}", ran.all());
}
