//! `probe --rtt`, `--fleet` and `--diagnose`: more than one connection, and what follows from them.

use serde_json::Value;
use tollgate_testkit::{Address, LeafKind, Validity, free_port, http_backend};

use crate::peers::Peer;
use crate::probe::{nginx, objects, probe};
use crate::server::{Place, Server};

/// The rung of this name.
fn rung<'l>(ladder: &'l Value, name: &str) -> &'l Value {
    let rungs = ladder["rungs"].as_array().unwrap();
    let found = rungs.iter().find(|rung| rung["rung"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {ladder}"))
}

#[test]
fn the_ladder_of_round_trips_is_four_three_three_and_two() {
    let place = Place::new();
    let peer = nginx(&place, "", "-", "ssl_early_data on;");
    let target = peer.address().to_string();
    let ladder = &objects(&place, &target, &["--rtt", "100ms"], 0)[0];
    for (name, round_trips) in [
        ("TLS 1.2, full", 4),
        ("TLS 1.2, resumed", 3),
        ("TLS 1.3, full", 3),
        ("TLS 1.3, resumed", 3),
        ("TLS 1.3, early data", 2),
    ] {
        let rung = rung(ladder, name);
        assert_eq!(rung["round_trips"], round_trips, "{name}: {ladder}");
        // The wire is longer by this much for certain; a busy machine may add to it.
        let seconds = rung["total_seconds"].as_f64().unwrap();
        assert!(
            seconds >= 0.1 * f64::from(round_trips) - 1e-6,
            "{name}: {ladder}"
        );
    }
    let text = probe(&place, &target, &["--rtt", "20ms"]);
    assert_eq!(text.code, Some(0), "{}", text.all());
    assert!(
        text.out.contains("Connect: 1 round trip, added"),
        "{}",
        text.all()
    );
}

#[test]
fn a_resumed_tls12_handshake_takes_half_of_a_full_one_over_a_long_line() {
    let place = Place::new();
    let peer = nginx(&place, "", "-", "");
    let target = peer.address().to_string();
    let ladder = &objects(&place, &target, &["--rtt", "400ms", "--tls12"], 0)[0];
    let handshake = |name: &str| rung(ladder, name)["handshake_seconds"].as_f64().unwrap();
    let ratio = handshake("TLS 1.2, full") / handshake("TLS 1.2, resumed");
    assert!((1.7..2.3).contains(&ratio), "{ratio}: {ladder}");
}

#[test]
fn the_ladder_says_what_is_not_offered_and_what_takes_too_long() {
    let place = Place::new();
    let peer = nginx(
        &place,
        "",
        "-",
        "ssl_ecdh_curve secp384r1; ssl_session_tickets off; ssl_session_cache off;",
    );
    let target = peer.address().to_string();
    // A HelloRetryRequest is a round trip too many.
    let ladder = &objects(&place, &target, &["--rtt", "20ms"], 1)[0];
    assert_eq!(rung(ladder, "TLS 1.3, full")["round_trips"], 4, "{ladder}");
    assert_eq!(rung(ladder, "TLS 1.2, full")["round_trips"], 4, "{ladder}");
    for name in [
        "TLS 1.2, resumed",
        "TLS 1.3, resumed",
        "TLS 1.3, early data",
    ] {
        assert_eq!(rung(ladder, name)["outcome"], "not_offered", "{ladder}");
    }
}

/// Three nginx, the first two with the same ticket key.
fn fleet(place: &Place) -> Vec<Peer> {
    place.folder.write_secret("one.key", [1; 80]);
    place.folder.write_secret("other.key", [2; 80]);
    ["one.key", "one.key", "other.key"]
        .map(|key| nginx(place, "", "-", &format!("ssl_session_ticket_key {key};")))
        .into()
}

#[test]
fn a_fleet_shows_which_nodes_share_their_ticket_keys() {
    let place = Place::new();
    let peers = fleet(&place);
    let addresses: Vec<String> = peers
        .iter()
        .map(|peer| peer.address().to_string())
        .collect();
    let mut arguments = vec!["--fleet"];
    for address in &addresses {
        arguments.extend(["--endpoint", address]);
    }
    let found = &objects(&place, "shop.test", &arguments, 1)[0];
    let (same, other) = ("resumed", "full");
    for matrix in found["matrices"].as_array().unwrap() {
        let expected = serde_json::json!([
            [same, same, other],
            [same, same, other],
            [other, other, same]
        ]);
        assert_eq!(matrix["shown"], expected, "{found}");
        assert_eq!(matrix["groups"], serde_json::json!([["A", "B"], ["C"]]));
    }
    assert_eq!(found["matrices"].as_array().unwrap().len(), 2);

    // The two that share are no finding.
    let whole = probe(&place, "shop.test", &arguments[..5]);
    assert_eq!(whole.code, Some(0), "{}", whole.all());
    assert!(
        whole.out.contains("all 2 nodes share their ticket keys"),
        "{}",
        whole.all()
    );
}

/// Names of the findings, in order.
fn findings(diagnosis: &Value) -> Vec<&str> {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["id"].as_str().unwrap())
        .collect()
}

#[test]
fn a_diagnosis_of_a_good_server_says_that_nothing_is_worth_it() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let server = Server::start(place, &config);
    let target = server.address().to_string();
    let found = &objects(&server.place, &target, &["--diagnose"], 0)[0];
    let ids = findings(found);
    for id in [
        "no_tls13",
        "no_resumption_tls12",
        "no_chacha20",
        "no_post_quantum",
        "chain_order",
    ] {
        assert!(!ids.contains(&id), "{id}: {found}");
    }
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("Not worth it") || verdict.starts_with("Nothing to do"),
        "{verdict}"
    );
    let profiles = found["clients"].as_array().unwrap();
    assert!(
        profiles.iter().all(|client| client["failure"].is_null()),
        "{found}"
    );
    let text = probe(&server.place, &target, &["--diagnose"]);
    assert!(text.out.contains("Not tested"), "{}", text.all());
}

#[test]
fn a_diagnosis_of_a_bad_server_names_its_faults_first() {
    let place = Place::new();
    let leaf =
        place
            .authority
            .server_valid(LeafKind::EcdsaP256, &["shop.test"], Validity::EndsSoon);
    // The root is no part of what a server should send, and here it even comes before the intermediate.
    let chain = [
        &leaf.certificate_pem,
        &place.authority.root_pem(),
        &place.authority.intermediate_pem(),
    ];
    place
        .folder
        .write("bad.pem", chain.map(String::as_str).concat());
    place.folder.write_secret("bad.key", &leaf.key_pem);
    let port = free_port();
    let body = format!(
        "http {{ access_log off; server {{ listen 127.0.0.1:{port} ssl; ssl_certificate bad.pem; ssl_certificate_key bad.key; \
         ssl_protocols TLSv1.2; ssl_session_tickets off; ssl_session_cache off; ssl_prefer_server_ciphers on; \
         ssl_ciphers ECDHE+AES256; location / {{ return 200 \"fine\\n\"; }} }} }}"
    );
    let peer = Peer::nginx(&place, port, &body);
    let found = &objects(&place, &peer.address().to_string(), &["--diagnose"], 1)[0];
    let ids = findings(found);
    for id in [
        "certificate_expires",
        "chain_order",
        "root_included",
        "no_tls13",
        "no_resumption_tls12",
        "no_chacha20",
        "aes_256_first",
    ] {
        assert!(ids.contains(&id), "{id}: {found}");
    }
    let faults = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["worth"] == "fault");
    assert_eq!(faults.count(), 2, "{found}");
    assert!(
        ids[..2].contains(&"chain_order") && ids[..2].contains(&"certificate_expires"),
        "{ids:?}"
    );
    assert!(
        found["verdict"].as_str().unwrap().contains("2 faults"),
        "{found}"
    );
}

#[test]
fn a_certificate_that_clients_refuse_does_not_hide_the_rest() {
    let place = Place::new();
    let leaf = place
        .authority
        .server_valid(LeafKind::EcdsaP256, &["shop.test"], Validity::Expired);
    leaf.write(&place.folder, "ecdsa");
    let peer = nginx(&place, "", "-", "");
    let found = &objects(&place, &peer.address().to_string(), &["--diagnose"], 1)[0];
    let ids = findings(found);
    assert!(
        ids.contains(&"certificate_refused") && ids.contains(&"certificate_expires"),
        "{found}"
    );
    assert!(
        found["new_visitor_seconds"].as_f64().unwrap() > 0.0,
        "{found}"
    );
}
