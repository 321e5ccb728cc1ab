//! What `check` and `serve` say about a configuration.

use tollgate_testkit::{LeafKind, Validity};

use crate::server::{NAMES, Place};
use crate::tools::{Ran, run};

fn check(place: &Place, text: &str) -> Ran {
    place.write_config(text);
    place.tollgate(&["check", "tls.yaml"])
}

fn good(place: &Place) -> String {
    place.config("http", &["http://127.0.0.1:8080"])
}

#[test]
fn a_good_file_is_good() {
    let place = Place::new();
    let ran = check(&place, &good(&place));
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("shop.test"), "{}", ran.all());
}

/// A change to the good file, and words that the message must have.
fn finding(change: impl Fn(&Place, String) -> String, words: &[&str]) {
    let place = Place::new();
    let text = change(&place, good(&place));
    let ran = check(&place, &text);
    assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.all());
    let said = ran.all();
    for word in words {
        assert!(said.contains(word), "no {word} in\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn mistakes_are_shown_with_their_place_and_a_way_out() {
    finding(
        |_, text| text.replace("backends:", "backend:"),
        &["tls.yaml:9:5", "backend", "backends"],
    );
    finding(
        |_, text| text.replace("mode: http", "mode: htttp"),
        &["tls.yaml:3:11", "htttp", "http", "tcp", "passthrough"],
    );
    finding(
        |_, text| text + "timeouts: { handshake: 10 }\n",
        &["handshake", "10s"],
    );
    finding(
        |_, text| text + "resumption: { lifetime: 30d }\n",
        &["lifetime", "30d", "7"],
    );
    finding(
        |_, text| text + "    tls: { suites: [TLS_RSA_WITH_AES_128_GCM_SHA256] }\n",
        &["TLS_RSA_WITH_AES_128_GCM_SHA256", "ECDHE"],
    );
    finding(
        |_, text| text + "    tls: { suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA] }\n",
        &["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "GCM"],
    );
    finding(
        |_, text| text + "    tls: { min_version: \"1.1\" }\n",
        &["1.1", "1.2", "1.3"],
    );
    finding(
        |place, text| text.replace(&place.port.to_string(), "70000"),
        &["70000", "tls.yaml:2:"],
    );
    finding(|_, text| text.replace("sites:", "sites: ["), &["tls.yaml:"]);
    finding(|_, _| "\u{0}\u{1}garbage: [".into(), &["tls.yaml"]);
    finding(|_, _| String::new(), &["listeners"]);
}

#[test]
fn certificates_and_keys_that_serve_would_read_are_read() {
    finding(
        |_, text| text.replace("ecdsa.pem", "missing.pem"),
        &["missing.pem", "tls.yaml:7:"],
    );
    finding(
        |_, text| text.replace("key: ecdsa.key", "key: rsa.key"),
        &["rsa.key", "ecdsa.pem", "tls.yaml:7:"],
    );
    finding(
        |place, text| {
            let mut command = std::process::Command::new("openssl");
            command.current_dir(place.folder.path()).args([
                "pkcs8",
                "-topk8",
                "-in",
                "ecdsa.key",
                "-out",
                "locked.key",
                "-passout",
                "pass:secret",
            ]);
            assert_eq!(run(&mut command, b"").code, Some(0));
            text.replace("key: ecdsa.key", "key: locked.key")
        },
        &["locked.key", "encrypted", "openssl pkey"],
    );
    finding(
        |place, text| {
            place.folder.write("empty.pem", "");
            text.replace("chain: ecdsa.pem", "chain: empty.pem")
        },
        &["empty.pem", "certificate"],
    );
    finding(
        |_, text| text.replace("chain: ecdsa.pem", "chain: ."),
        &["tls.yaml:7:"],
    );
}

#[test]
fn validity_order_and_names_of_certificates_are_looked_at() {
    finding(
        |place, text| {
            let leaf = place
                .authority
                .server_valid(LeafKind::EcdsaP256, &NAMES, Validity::Expired);
            leaf.write(&place.folder, "old");
            text.replace("ecdsa.", "old.")
        },
        &["old.pem", "expired"],
    );
    finding(
        |place, text| {
            let leaf = place
                .authority
                .server_valid(LeafKind::EcdsaP256, &NAMES, Validity::NotYet);
            leaf.write(&place.folder, "early");
            text.replace("ecdsa.", "early.")
        },
        &["early.pem", "valid from"],
    );
    finding(
        |place, text| {
            let leaf =
                place
                    .authority
                    .server_valid(LeafKind::EcdsaP256, &NAMES, Validity::EndsSoon);
            leaf.write(&place.folder, "soon");
            text.replace("ecdsa.", "soon.")
        },
        &["soon.pem", "days"],
    );
    finding(
        |place, text| {
            let leaf = place.authority.server(LeafKind::EcdsaP256, &NAMES);
            let wrong = format!(
                "{}{}",
                place.authority.intermediate_pem(),
                leaf.certificate_pem
            );
            place.folder.write("wrong.pem", wrong);
            place.folder.write("wrong.key", leaf.key_pem);
            text.replace("ecdsa.", "wrong.")
        },
        &["wrong.pem", "must come first"],
    );
    finding(
        |place, text| {
            let leaf = place
                .authority
                .server(LeafKind::EcdsaP256, &["elsewhere.test"]);
            leaf.write(&place.folder, "else");
            text.replace("ecdsa.", "else.")
        },
        &["else.pem", "shop.test"],
    );
}

#[test]
fn all_findings_come_at_once() {
    let place = Place::new();
    let text = good(&place)
        .replace("ecdsa.pem", "missing.pem")
        .replace("key: rsa.key", "key: ecdsa.key");
    let text = text + "colour: red\ntimeouts: { idle: soon }\n";
    let ran = check(&place, &text);
    // Findings of the text come together; findings of the files need a text that can be read.
    for word in ["colour", "soon"] {
        assert!(ran.all().contains(word), "no {word} in {}", ran.all());
    }
    let text = text.replace("colour: red\ntimeouts: { idle: soon }\n", "");
    let ran = check(&place, &text);
    for word in ["missing.pem", "rsa.pem"] {
        assert!(ran.all().contains(word), "no {word} in {}", ran.all());
    }
}

#[test]
fn serve_refuses_what_check_refuses_and_says_the_same() {
    let place = Place::new();
    let text = good(&place)
        .replace("key: ecdsa.key", "key: rsa.key")
        .replace("mode: http", "mode: http\n    colour: red");
    let checked = check(&place, &text);
    let served = place.tollgate(&["serve", "tls.yaml"]);
    assert_eq!(served.code, Some(2), "{}", served.all());
    assert!(served.err.contains("colour"), "{}", served.all());
    assert!(checked.all().contains("colour"), "{}", checked.all());
}

#[test]
fn a_missing_file_and_a_missing_argument_are_wrong_input() {
    let place = Place::new();
    for arguments in [
        &["serve", "nowhere.yaml"] as &[_],
        &["check", "nowhere.yaml"],
        &["serve"],
        &["dance"],
        &[],
    ] {
        let ran = place.tollgate(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.all());
        assert!(!ran.err.is_empty(), "{arguments:?}");
    }
    let ran = place.tollgate(&["serve", "nowhere.yaml"]);
    assert!(ran.err.contains("nowhere.yaml"), "{}", ran.all());
}

#[test]
fn a_key_that_others_can_read_is_mentioned() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::set_permissions(
        place.folder.join("ecdsa.key"),
        std::fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    std::fs::set_permissions(
        place.folder.join("rsa.key"),
        std::fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let ran = check(&place, &good(&place));
    assert!(ran.all().contains("ecdsa.key"), "{}", ran.all());
    assert!(!ran.err.contains("rsa.key"), "{}", ran.all());
}
