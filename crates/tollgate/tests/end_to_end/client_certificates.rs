//! Client certificates: off, optional, required.

use std::io::{Read, Write};

use tollgate_testkit::{
    Address, Authority, Backend, Leaf, Offer, TlsConnection, Validity, http_backend,
};

use crate::server::{Place, Server, described, get};

struct Guarded {
    server: Server,
    _backend: Backend,
    clients: Authority,
}

fn guarded(mode: &str, revoked: bool) -> Guarded {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let clients = Authority::new("clients");
    place.folder.write("clients.pem", clients.root_pem());
    // Clients of this test send their intermediate; the first client made is number 4096.
    place
        .folder
        .write("revoked.pem", clients.revoked_pem(&[4096]));
    let crls = if revoked { ", crls: [revoked.pem]" } else { "" };
    let more = format!("    client_certificates: {{ mode: {mode}, ca: clients.pem{crls} }}\n");
    let config = place.config_with("http", &[&format!("http://{}", backend.address())], &more);
    Guarded {
        server: Server::start(place, &config),
        _backend: backend,
        clients,
    }
}

impl Guarded {
    fn connect(&self, leaf: Option<&Leaf>, tls12: bool) -> std::io::Result<TlsConnection> {
        let offer = Offer {
            leaf,
            tls12,
            ..Offer::default()
        };
        self.server
            .client(&offer)
            .connect(self.server.address(), "shop.test")
    }

    /// The answer's text, or why there is none. In TLS 1.3 a refusal shows at the first read.
    fn get(&self, leaf: Option<&Leaf>, tls12: bool) -> Result<String, String> {
        let mut connection = self
            .connect(leaf, tls12)
            .map_err(|error| error.to_string())?;
        connection
            .exchange(&get("/"))
            .map_err(|error| error.to_string())
    }
}

#[test]
fn a_required_certificate_must_be_there_and_valid() {
    let guarded = guarded("required", true);
    let revoked = guarded.clients.client("revoked", Validity::Now);
    let good = guarded.clients.client("alice", Validity::Now);
    let expired = guarded.clients.client("expired", Validity::Expired);
    let stranger = Authority::new("stranger").client("mallory", Validity::Now);
    for tls12 in [false, true] {
        let answer = guarded.get(Some(&good), tls12).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        for (leaf, alerts) in [
            (None, &["CertificateRequired", "HandshakeFailure"] as &[_]),
            (Some(&revoked), &["CertificateRevoked"]),
            (Some(&expired), &["CertificateExpired"]),
            (
                Some(&stranger),
                &["UnknownCA", "BadCertificate", "DecryptError"],
            ),
        ] {
            let refusal = guarded.get(leaf, tls12).unwrap_err();
            assert!(
                alerts.iter().any(|alert| refusal.contains(alert)),
                "{alerts:?}, tls12: {tls12}: {refusal}"
            );
        }
    }
    assert!(guarded.server.wait_metrics(|metrics| {
        metrics.sum(
            "tollgate_handshake_failures_total",
            &[("culprit", "client")],
        ) >= 8.0
    }));
}

#[test]
fn an_optional_certificate_is_passed_on_and_cannot_be_forged() {
    let guarded = guarded("optional", false);
    let alice = guarded.clients.client("alice", Validity::Now);
    for tls12 in [false, true] {
        let answer = guarded.get(Some(&alice), tls12).unwrap();
        let seen = described(&answer);
        let text = seen["headers"].to_string();
        assert!(text.contains("alice"), "{seen}");
        let line = guarded
            .server
            .wait_log(|line| line.get("client_subject").is_some());
        assert!(
            line["client_subject"]
                .as_str()
                .unwrap()
                .contains("CN=alice"),
            "{line}"
        );
        // Names of every header that spoke of the client, sent by a client without a certificate.
        let names: Vec<String> = seen["headers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pair| pair[1].as_str().unwrap().contains("alice"))
            .map(|pair| pair[0].as_str().unwrap().to_owned())
            .collect();
        let mut request = String::from("GET / HTTP/1.1\r\nhost: shop.test\r\n");
        for name in &names {
            request.push_str(&format!("{name}: mallory\r\n"));
            request.push_str(&format!("{}: mallory\r\n", name.replace('-', "_")));
        }
        request.push_str("\r\n");
        let answer = guarded
            .connect(None, tls12)
            .unwrap()
            .exchange(&request)
            .unwrap();
        let text = described(&answer)["headers"].to_string();
        assert!(!names.is_empty());
        assert!(!text.contains("mallory"), "{text}");
    }
}

#[test]
fn an_optional_certificate_that_is_bad_is_refused() {
    let guarded = guarded("optional", false);
    let stranger = Authority::new("stranger").client("mallory", Validity::Now);
    assert!(guarded.get(Some(&stranger), false).is_err());
    assert!(guarded.get(None, false).is_ok());
}

#[test]
fn the_identity_survives_resumption() {
    let guarded = guarded("required", false);
    let alice = guarded.clients.client("alice", Validity::Now);
    for tls12 in [false, true] {
        let offer = Offer {
            leaf: Some(&alice),
            tls12,
            resume: true,
            ..Offer::default()
        };
        let client = guarded.server.client(&offer);
        for round in 0..3 {
            let mut connection = client
                .connect(guarded.server.address(), "shop.test")
                .unwrap();
            let answer = connection.exchange(&get("/")).unwrap();
            assert_eq!(connection.resumed(), round > 0, "tls12: {tls12}");
            assert!(
                described(&answer)["headers"].to_string().contains("alice"),
                "{answer}"
            );
        }
    }
}

#[test]
fn without_the_policy_no_certificate_is_asked_for() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let server = Server::start(place, &config);
    let ran = server.s_client(&["-servername", "shop.test"], "");
    assert!(
        ran.out.contains("No client certificate CA names sent"),
        "{}",
        ran.all()
    );
    let ran = server.s_client(&["-servername", "shop.test", "-state"], "");
    assert!(
        !ran.all().contains("read server certificate request"),
        "{}",
        ran.all()
    );
}

#[test]
fn a_new_policy_ends_old_sessions() {
    let guarded = guarded("optional", false);
    let alice = guarded.clients.client("alice", Validity::Now);
    let offer = Offer {
        leaf: Some(&alice),
        resume: true,
        ..Offer::default()
    };
    let client = guarded.server.client(&offer);
    let connect = || {
        let mut connection = client
            .connect(guarded.server.address(), "shop.test")
            .unwrap();
        let answer = connection.exchange(&get("/"));
        (connection.resumed(), answer)
    };
    assert!(!connect().0);
    assert!(connect().0);
    // Alice (the first client, number 4096) is revoked; her session must not outlive that.
    let text = guarded
        .server
        .place
        .folder
        .read("tls.yaml")
        .replace("ca: clients.pem", "ca: clients.pem, crls: [revoked.pem]");
    assert_eq!(guarded.server.reload(&text).as_deref(), Some("succeeded"));
    let result = client
        .connect(guarded.server.address(), "shop.test")
        .and_then(|mut connection| {
            connection.write_all(get("/").as_bytes())?;
            let mut byte = [0];
            let count = connection.read(&mut byte)?;
            Ok((connection.resumed(), count))
        });
    assert!(!matches!(result, Ok((_, 1..))), "{result:?}");
}
