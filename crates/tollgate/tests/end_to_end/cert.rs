//! `tollgate cert`: what chains weigh, and whether RSA can go.

use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, LeafKind, Validity, http_backend};

use crate::server::{NAMES, Place, Server};
use crate::tools::eventually;

#[test]
fn a_chain_is_weighed_and_fits_the_first_flight() {
    let place = Place::new();
    let ran = place.tollgate(&["cert", "show", "--json", "ecdsa.pem", "rsa.pem"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    let (ecdsa, rsa) = (&shown[0], &shown[1]);
    assert_eq!(ecdsa["certificates"][0]["key_bytes"], 65);
    assert_eq!(rsa["certificates"][0]["key_bytes"], 270);
    assert_eq!(rsa["first_flight_limit_bytes"], 14_600);
    assert_eq!(ecdsa["key"], "none");
    let sum: u64 = rsa["certificates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(rsa["chain_bytes"].as_u64(), Some(sum));
    let text = place.tollgate(&["cert", "show", "ecdsa.pem"]);
    for word in ["shop.test", "key 65", "it fits", "days left", "end entity"] {
        assert!(text.out.contains(word), "no {word} in {}", text.all());
    }
}

#[test]
fn a_combined_file_is_shown_without_its_key() {
    let place = Place::new();
    let key = place.folder.read("ecdsa.key");
    let combined = place.folder.read("ecdsa.pem") + &key;
    place.folder.write("combined.pem", combined);
    let ran = place.tollgate(&["cert", "show", "combined.pem"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("with the key that fits"), "{}", ran.all());
    let body: Vec<&str> = key.lines().filter(|line| !line.starts_with("--")).collect();
    assert!(body.iter().all(|line| !ran.all().contains(line)));

    let other = place.folder.read("ecdsa.pem") + &place.folder.read("rsa.key");
    place.folder.write("other.pem", other);
    let ran = place.tollgate(&["cert", "show", "other.pem"]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
}

#[test]
fn what_clients_refuse_is_a_finding_and_what_is_no_certificate_wrong_input() {
    let place = Place::new();
    place
        .authority
        .server_valid(LeafKind::EcdsaP256, &NAMES, Validity::Expired)
        .write(&place.folder, "old");
    let ran = place.tollgate(&["cert", "show", "old.pem"]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.out.contains("expired"), "{}", ran.all());
    for file in ["nothing.pem", "ecdsa.key"] {
        let ran = place.tollgate(&["cert", "show", file]);
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        assert!(ran.err.contains(file), "{}", ran.all());
    }
}

#[test]
fn rsa_cannot_go_before_days_without_it_were_seen() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let server = Server::start(place, &config);
    server.get("/").unwrap();
    let rsa = ["-servername", "shop.test", "-sigalgs", "RSA-PSS+SHA256"];
    let ran = server.s_client(&rsa, "");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let url = format!("http://127.0.0.1:{}", server.place.console);
    let arguments = ["cert", "rollout", "--json", "--record", "days.jsonl", &url];
    let mut found = Value::Null;
    let counted = eventually(Duration::from_secs(10), || {
        let ran = server.place.tollgate(&arguments);
        assert_eq!(ran.code, Some(1), "{}", ran.all());
        found = serde_json::from_str(&ran.out).unwrap();
        found["rsa_share_since_start"].as_f64() == Some(0.5)
    });
    assert!(counted, "{found}");
    assert_eq!(found["safe"], false);
    assert_eq!(found["days"].as_array().unwrap().len(), 2);
    assert!(server.place.folder.read("days.jsonl").lines().count() >= 1);
    let text = server.place.tollgate(&["cert", "rollout", &url]);
    assert_eq!(text.code, Some(1), "{}", text.all());
    for word in ["rsa-2048", "not yet safe", "last 24 hours", "cores"] {
        assert!(text.out.contains(word), "no {word} in {}", text.all());
    }

    // The same instance with two days behind it, in which nobody needed RSA.
    let live = server.place.tollgate(&["top", "--json", &url]);
    let live: Value = serde_json::from_str(&live.out).unwrap();
    let now = live["at_seconds"].as_f64().unwrap();
    let line = |at: f64, started: f64, all: u64| {
        format!("{{\"at_seconds\":{at},\"started_seconds\":{started},\"rsa\":0,\"all\":{all}}}\n")
    };
    let before = now - 3.0 * 86_400.0;
    let past = line(before, before - 60.0, 10) + &line(now - 60.0, before - 60.0, 100_010);
    server.place.folder.write("days.jsonl", past);
    let ran = server
        .place
        .tollgate(&["cert", "rollout", "--record", "days.jsonl", &url]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("safe to drop RSA"), "{}", ran.all());
    server.place.folder.write("days.jsonl", "not ours\n");
    let ran = server
        .place
        .tollgate(&["cert", "rollout", "--record", "days.jsonl", &url]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("line 1"), "{}", ran.all());
}
