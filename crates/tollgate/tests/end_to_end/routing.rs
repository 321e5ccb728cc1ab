//! Which site answers.

use std::io::Write;

use tollgate_testkit::{
    Address, Authority, Backend, Client, LeafKind, Offer, http_backend, tcp_echo_backend,
};

use crate::server::{Place, Server, described};

struct Sites {
    server: Server,
    _backends: Vec<Backend>,
}

/// Sites `a.test`, `*.w.test` and `exact.w.test`, each with a certificate and a backend of its own.
fn sites(default: bool) -> Sites {
    let place = Place::new();
    let mut config = place.listener("http");
    config.push_str("sites:\n");
    let mut backends = Vec::new();
    for (file, name) in [
        ("a", "a.test"),
        ("wild", "*.w.test"),
        ("exact", "exact.w.test"),
    ] {
        place
            .authority
            .server(LeafKind::EcdsaP256, &[name])
            .write(&place.folder, file);
        let backend = http_backend(&Address::Loopback, None, file, false);
        config.push_str(&format!(
            "  - names: [\"{name}\"]\n    certificates: [{{ chain: {file}.pem, key: {file}.key }}]\n    backends: [\"http://{}\"]\n",
            backend.address()
        ));
        if default && file == "a" {
            config.push_str("    default: true\n");
        }
        backends.push(backend);
    }
    Sites {
        server: Server::start(place, &config),
        _backends: backends,
    }
}

#[test]
fn exact_names_win_over_wildcards_and_wildcards_take_one_label() {
    let sites = sites(false);
    for (name, backend) in [
        ("a.test", "a"),
        ("A.TEST", "a"),
        ("x.w.test", "wild"),
        ("exact.w.test", "exact"),
    ] {
        let ran = sites.server.curl(&[&format!("https://{name}/")]);
        assert_eq!(
            described(&ran.out)["backend"],
            backend,
            "{name}: {}",
            ran.all()
        );
    }
    for unknown in ["b.test", "w.test", "a.b.w.test"] {
        let ran = sites.server.s_client(&["-servername", unknown], "");
        assert!(
            ran.err.contains("unrecognized name"),
            "{unknown}: {}",
            ran.all()
        );
    }
    let line = sites
        .server
        .wait_log(|line| line["event"] == "handshake_failed");
    assert_eq!(line["server_name"], "b.test", "{line}");
}

#[test]
fn the_default_site_takes_unknown_names() {
    let sites = sites(true);
    let ran = sites.server.curl(&["-k", "https://unknown.test/"]);
    assert_eq!(described(&ran.out)["backend"], "a", "{}", ran.all());
}

#[test]
fn a_host_of_another_site_is_misdirected() {
    let sites = sites(false);
    for flag in ["--http1.1", "--http2"] {
        for (host, status) in [
            ("exact.w.test", "421"),
            ("x.w.test", "421"),
            ("nobody.test", "421"),
            ("a.test", "200"),
            ("a.test:443", "200"),
            ("A.Test.", "200"),
        ] {
            let ran = sites.server.curl(&[
                flag,
                "-o",
                "body",
                "-w",
                "%{http_code}",
                "-H",
                &format!("host: {host}"),
                "https://a.test/",
            ]);
            assert_eq!(ran.out, status, "{flag} {host}: {}", ran.all());
        }
    }
}

#[test]
fn sites_may_have_modes_of_their_own() {
    let place = Place::new();
    let http = http_backend(&Address::Loopback, None, "http", false);
    let tcp = tcp_echo_backend(&Address::Loopback, None, false);
    let mut config = place.listener("http");
    config.push_str("sites:\n");
    config.push_str(&place.site(&["shop.test"], &[&format!("http://{}", http.address())]));
    config.push_str(&place.site(&["tcp.shop.test"], &[tcp.address()]));
    config.push_str("    mode: tcp\n");
    let server = Server::start(place, &config);
    assert!(server.get("/").unwrap().contains("\"backend\":\"http\""));
    let client = server.client(&Offer::default());
    let mut connection = client.connect(server.address(), "tcp.shop.test").unwrap();
    connection.write_all(b"x").unwrap();
    connection.close_notify().unwrap();
    assert_eq!(connection.rest().unwrap(), b"xbye");
}

#[test]
fn several_listeners_serve_the_same_sites() {
    let place = Place::new();
    let backend = http_backend(&Address::Loopback, None, "http", false);
    let second = tollgate_testkit::free_port();
    let mut config = format!(
        "listeners:\n  - address: \"127.0.0.1:{}\"\n  - address: \"[::1]:{second}\"\nsites:\n",
        place.port
    );
    config.push_str(&place.site(&["shop.test"], &[&format!("http://{}", backend.address())]));
    let server = Server::start(place, &config);
    assert!(server.get("/").unwrap().contains("200"));
    let ran = server.curl(&[
        "--connect-to",
        &format!("::[::1]:{second}"),
        "https://shop.test/",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
}

#[test]
fn another_authority_is_not_trusted_by_mistake() {
    let sites = sites(false);
    let stranger = Client::new(&Authority::new("stranger"), &Offer::default());
    assert!(stranger.connect(sites.server.address(), "a.test").is_err());
    let line = sites
        .server
        .wait_log(|line| line["event"] == "handshake_failed");
    assert!(
        line["error"].as_str().is_some_and(|text| !text.is_empty()),
        "{line}"
    );
}
