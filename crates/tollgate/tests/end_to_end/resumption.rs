//! Resumption, as counted by both ends.

use std::io::Write;

use tollgate_testkit::{Address, Backend, Offer, http_backend};

use crate::server::{Place, Server, get};
use crate::tools::python;

fn served_with(more: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let backends = [format!("http://{}", backend.address())];
    let backends = [backends[0].as_str()];
    let mut config = place.listener("http");
    config.push_str("sites:\n");
    config.push_str(&place.site(&["shop.test"], &backends));
    config.push_str(&place.site(&["other.shop.test"], &backends));
    config.push_str(more);
    (Server::start(place, &config), backend)
}

const REQUEST: &str = "GET /status/200 HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n";

/// Full and resumed handshakes as the server counts them.
fn counted(server: &Server) -> (f64, f64) {
    let metrics = server.metrics();
    let kind = |name| metrics.sum("tollgate_handshakes_total", &[("kind", name)]);
    (kind("full") + kind("full_with_retry"), kind("resumed"))
}

#[test]
fn openssl_resumes_with_tickets_of_both_versions() {
    let (server, _backend) = served_with("");
    for version in ["-tls1_3", "-tls1_2"] {
        let common = ["-servername", "shop.test", version, "-ign_eof"];
        let mut first = common.to_vec();
        first.extend(["-sess_out", "session.pem"]);
        let ran = server.s_client(&first, REQUEST);
        assert!(ran.out.contains("New, TLSv1."), "{}", ran.all());
        let mut second = common.to_vec();
        second.extend(["-sess_in", "session.pem"]);
        let ran = server.s_client(&second, REQUEST);
        assert!(ran.out.contains("Reused, TLSv1."), "{}", ran.all());
        assert!(ran.out.contains("HTTP/1.1 200"), "{}", ran.all());
    }
    assert_eq!(counted(&server), (2.0, 2.0));
    let line = server.wait_log(|line| line["tls_resumed"] == true);
    assert_eq!(line["tls_kind"], "resumed");
    assert!(line.get("tls_miss").is_none(), "{line}");
    let line = server.wait_log(|line| line["tls_resumed"] == false);
    assert_eq!(line["tls_miss"], "nothing_offered");
}

#[test]
fn a_client_without_tickets_resumes_by_session_id() {
    let (server, _backend) = served_with("");
    let ran = server.s_client(
        &[
            "-servername",
            "shop.test",
            "-tls1_2",
            "-no_ticket",
            "-reconnect",
        ],
        "",
    );
    assert_eq!(
        ran.out.matches("Reused, TLSv1.2").count(),
        5,
        "{}",
        ran.all()
    );
    assert_eq!(counted(&server), (1.0, 5.0));
    assert!(server.wait_metrics(|metrics| metrics.sum("tollgate_sessions_cached", &[]) >= 1.0));
}

#[test]
fn without_the_session_cache_such_a_client_makes_full_handshakes() {
    let (server, _backend) = served_with("resumption: { session_cache: { entries: 0 } }\n");
    let ran = server.s_client(
        &[
            "-servername",
            "shop.test",
            "-tls1_2",
            "-no_ticket",
            "-reconnect",
        ],
        "",
    );
    assert_eq!(ran.out.matches("New, TLSv1.2").count(), 6, "{}", ran.all());
}

#[test]
fn without_tickets_tls13_resumes_from_kept_state() {
    let (server, _backend) = served_with("resumption: { tickets: false }\n");
    let client = server.client(&Offer {
        resume: true,
        ..Offer::default()
    });
    let mut resumed = 0;
    for _ in 0..4 {
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/status/200")).unwrap();
        resumed += u32::from(connection.resumed());
    }
    assert_eq!(resumed, 3);
    assert_eq!(counted(&server), (1.0, 3.0));
}

#[test]
fn both_ends_count_the_same_for_both_versions() {
    let (server, _backend) = served_with("");
    let (mut full, mut resumed) = (0.0, 0.0);
    for tls12 in [true, false] {
        for resume in [true, false] {
            let client = server.client(&Offer {
                tls12,
                resume,
                ..Offer::default()
            });
            for _ in 0..5 {
                let mut connection = client.connect(server.address(), "shop.test").unwrap();
                connection.exchange(&get("/status/200")).unwrap();
                if connection.resumed() {
                    resumed += 1.0;
                } else {
                    full += 1.0;
                }
            }
        }
    }
    assert_eq!((full, resumed), (12.0, 8.0), "as the client counted");
    assert_eq!(counted(&server), (full, resumed));
    let metrics = server.metrics();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let labels = [
            ("version", version),
            ("kind", "resumed"),
            ("site", "shop.test"),
        ];
        let count = metrics.sum("tollgate_handshakes_total", &labels);
        assert!((count - 4.0).abs() < 0.5, "{version}: {count}");
    }
    let misses = metrics.sum(
        "tollgate_resumption_misses_total",
        &[("reason", "nothing_offered")],
    );
    assert!((misses - full).abs() < 0.5, "{misses}");
}

#[test]
fn a_session_of_one_site_does_not_resume_at_another() {
    let (server, _backend) = served_with("");
    for version in ["-tls1_3", "-tls1_2"] {
        let ran = server.s_client(
            &[
                "-servername",
                "shop.test",
                version,
                "-ign_eof",
                "-sess_out",
                "session.pem",
            ],
            REQUEST,
        );
        assert!(ran.out.contains("New, TLSv1."), "{}", ran.all());
        let ran = server.s_client(
            &[
                "-servername",
                "other.shop.test",
                version,
                "-ign_eof",
                "-sess_in",
                "session.pem",
            ],
            &REQUEST.replace("shop.test", "other.shop.test"),
        );
        assert!(ran.out.contains("New, TLSv1."), "{}", ran.all());
        assert!(ran.out.contains("HTTP/1.1 200"), "{}", ran.all());
    }
    assert!(server.wait_metrics(|metrics| {
        metrics.sum(
            "tollgate_resumption_misses_total",
            &[("site", "other.shop.test")],
        ) >= 2.0
    }));
}

#[test]
fn an_expired_session_falls_back_to_a_full_handshake() {
    let (server, _backend) = served_with("resumption: { lifetime: 1s }\n");
    for tls12 in [true, false] {
        let client = server.client(&Offer {
            tls12,
            resume: true,
            ..Offer::default()
        });
        let mut first = client.connect(server.address(), "shop.test").unwrap();
        first.exchange(&get("/status/200")).unwrap();
        // The lifetime is counted by the wall clock in whole seconds, so three seconds are surely past it.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let mut second = client.connect(server.address(), "shop.test").unwrap();
        second.exchange(&get("/status/200")).unwrap();
        assert!(!second.resumed());
    }
    assert_eq!(counted(&server), (4.0, 0.0));
}

#[test]
fn pythons_ssl_resumes_with_both_versions() {
    let (server, _backend) = served_with("");
    let port = server.place.port.to_string();
    let authority = server.place.folder.join("ca.pem");
    let ran = python(
        "sessions.py",
        &[
            &port,
            "shop.test",
            authority.to_str().unwrap(),
            "TLSv1_2",
            "4",
        ],
        REQUEST,
    );
    assert_eq!(ran.out.trim(), "False True True True", "{}", ran.all());
    let ran = python(
        "sessions.py",
        &[
            &port,
            "shop.test",
            authority.to_str().unwrap(),
            "TLSv1_3",
            "4",
        ],
        REQUEST,
    );
    assert_eq!(ran.out.trim(), "False True True True", "{}", ran.all());
}

#[test]
fn a_connection_that_only_listens_still_gets_its_ticket() {
    // The ticket waits for the first write; a client that says nothing for a while must get it too.
    let (server, _backend) = served_with("");
    let client = server.client(&Offer {
        resume: true,
        ..Offer::default()
    });
    let mut first = client.connect(server.address(), "shop.test").unwrap();
    first
        .write_all(get("/slow/1500").as_bytes())
        .and_then(|()| first.flush())
        .unwrap();
    assert!(first.answer().unwrap().contains("slow"));
    let second = client.connect(server.address(), "shop.test").unwrap();
    assert!(second.resumed());
}
