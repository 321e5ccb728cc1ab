//! TLS towards backends in http mode.

use tollgate_testkit::{
    Address, Authority, Backend, BackendTls, LeafKind, Seen, Validity, http_backend,
};

use crate::server::{Place, Server, described, get};

struct Secured {
    place: Place,
    backend: Backend,
}

fn secured(clients: Option<&Authority>) -> Secured {
    let place = Place::new();
    let backends = Authority::new("backends");
    place.folder.write("backend-ca.pem", backends.root_pem());
    let leaf = backends.server(LeafKind::EcdsaP256, &["app.internal"]);
    let tls = BackendTls::new(&leaf, clients, &["http/1.1"]);
    let backend = http_backend(&Address::Loopback, Some(tls), "secure", false);
    Secured { place, backend }
}

impl Secured {
    fn start(self, tls: &str) -> (Server, Backend) {
        let mut config = self.place.listener("http");
        config.push_str("sites:\n  - names: [\"shop.test\"]\n    certificates: [{ chain: ecdsa.pem, key: ecdsa.key }]\n");
        config.push_str(&format!(
            "    backends:\n      - address: \"https://{}\"\n        tls: {tls}\n",
            self.backend.address()
        ));
        config.push_str("workers: { count: 1 }\n");
        (Server::start(self.place, &config), self.backend)
    }
}

#[test]
fn a_verified_backend_answers_over_pooled_connections() {
    let (server, backend) = secured(None).start("{ name: app.internal, ca: backend-ca.pem }");
    for _ in 0..5 {
        assert_eq!(described(&server.get("/").unwrap())["backend"], "secure");
    }
    assert_eq!(Seen::count(&backend.seen().connections), 1);
    assert_eq!(
        *backend.seen().server_names.lock().unwrap(),
        ["app.internal"]
    );
}

#[test]
fn a_wrong_name_or_authority_is_a_bad_gateway_and_explained() {
    for (tls, word) in [
        ("{ name: other.internal, ca: backend-ca.pem }", "name"),
        ("{ name: app.internal, ca: ca.pem }", ""),
    ] {
        let (server, backend) = secured(None).start(tls);
        let answer = server.get("/").unwrap();
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert!(
            !answer.contains("internal"),
            "the client learns nothing: {answer}"
        );
        let line = server.wait_log(|line| line["status"] == 502);
        let error = line["error"].as_str().unwrap();
        assert!(
            error.contains(word) && error.contains(backend.address()),
            "{line}"
        );
        assert!(server.metrics().sum("tollgate_backend_failures_total", &[]) >= 1.0);
    }
}

#[test]
fn verification_can_be_turned_off_and_check_says_so() {
    let (server, _backend) = secured(None).start("{ verify: false }");
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
    let ran = server.place.tollgate(&["check", "tls.yaml"]);
    assert!(ran.all().contains("verify"), "{}", ran.all());
}

#[test]
fn a_client_certificate_is_shown_to_the_backend() {
    let clients = Authority::new("gateways");
    let secured = secured(Some(&clients));
    let gateway = clients.client("gateway", Validity::Now);
    gateway.write(&secured.place.folder, "gateway");
    let (server, backend) = secured.start(
        "{ name: app.internal, ca: backend-ca.pem, certificate: { chain: gateway.pem, key: gateway.key } }",
    );
    assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(Seen::count(&backend.seen().client_certificates), 1);
}

#[test]
fn new_connections_to_the_backend_resume() {
    let (server, backend) = secured(None).start("{ name: app.internal, ca: backend-ca.pem }");
    for _ in 0..4 {
        // The backend ends the connection in the middle of this answer, so it cannot be pooled.
        let mut connection = server.connect();
        let _ = std::io::Write::write_all(&mut connection, get("/truncated").as_bytes());
        let _ = connection.rest_and_end();
    }
    assert!(
        backend
            .seen()
            .wait(|seen| Seen::count(&seen.connections) >= 4)
    );
    assert_eq!(
        Seen::count(&backend.seen().tls_full),
        1,
        "{:?}",
        backend.seen()
    );
    assert!(Seen::count(&backend.seen().tls_resumed) >= 3);
}
