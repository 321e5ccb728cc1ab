//! Kinds and shapes of certificates.

use tollgate_testkit::{Address, LeafKind, http_backend};

use crate::server::{NAMES, Place, Server};

#[test]
fn every_kind_of_key_serves() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    for (kind, printed, label) in [
        (LeafKind::EcdsaP256, "ECDSA", "ecdsa-p256"),
        (LeafKind::EcdsaP384, "ECDSA", "ecdsa-p384"),
        (LeafKind::Ed25519, "ed25519", "ed25519"),
        (LeafKind::Rsa2048, "RSA-PSS", "rsa-2048"),
    ] {
        let place = Place::new();
        place
            .authority
            .server(kind, &NAMES)
            .write(&place.folder, "own");
        let config = place
            .config("http", &[&format!("http://{}", backend.address())])
            .replace("      - { chain: rsa.pem, key: rsa.key }\n", "")
            .replace("ecdsa.", "own.");
        let server = Server::start(place, &config);
        for version in ["-tls1_3", "-tls1_2"] {
            let ran = server.s_client(&["-servername", "shop.test", version], "");
            assert!(
                ran.out.contains("Verify return code: 0"),
                "{kind:?} {version}: {}",
                ran.all()
            );
            // OpenSSL 3.0 prints "Peer signature type" in the same words for both versions.
            assert!(
                ran.out.contains(printed),
                "{kind:?} {version}: {}",
                ran.all()
            );
        }
        assert!(
            server.wait_metrics(|metrics| {
                metrics.sum("tollgate_handshakes_total", &[("certificate", label)]) >= 2.0
            }),
            "{label}: {:?}",
            server.metrics().series("tollgate_handshakes_total")
        );
    }
}

#[test]
fn a_combined_file_serves_whichever_comes_first() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    for key_first in [true, false] {
        let place = Place::new();
        let leaf = place.authority.server(LeafKind::EcdsaP256, &NAMES);
        let combined = if key_first {
            format!("{}{}", leaf.key_pem, leaf.chain_pem)
        } else {
            format!("{}{}", leaf.chain_pem, leaf.key_pem)
        };
        place.folder.write("both.pem", combined);
        let mut config = place.listener("http");
        config.push_str(&format!(
            "sites:\n  - names: [\"shop.test\"]\n    certificates: [{{ combined: both.pem }}]\n    backends: [\"http://{}\"]\n",
            backend.address()
        ));
        let server = Server::start(place, &config);
        assert!(server.get("/").is_ok());
    }
}

#[test]
fn old_key_formats_are_read() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    for (key, out, how) in [
        ("ecdsa.key", "sec1.key", "ec"),
        ("rsa.key", "pkcs1.key", "rsa"),
    ] {
        let mut command = std::process::Command::new("openssl");
        command
            .current_dir(place.folder.path())
            .args([how, "-in", key, "-out", out]);
        if how == "rsa" {
            command.arg("-traditional");
        }
        let ran = crate::tools::run(&mut command, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.all());
    }
    assert!(
        place
            .folder
            .read("sec1.key")
            .contains("BEGIN EC PRIVATE KEY")
    );
    assert!(
        place
            .folder
            .read("pkcs1.key")
            .contains("BEGIN RSA PRIVATE KEY")
    );
    let config = place
        .config("http", &[&format!("http://{}", backend.address())])
        .replace("ecdsa.key", "sec1.key")
        .replace("rsa.key", "pkcs1.key");
    let server = Server::start(place, &config);
    for sigalgs in ["ECDSA+SHA256", "RSA-PSS+SHA256"] {
        let ran = server.s_client(&["-servername", "shop.test", "-sigalgs", sigalgs], "");
        assert!(ran.out.contains("Verify return code: 0"), "{}", ran.all());
    }
}
