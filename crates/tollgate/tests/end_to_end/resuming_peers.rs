//! `probe` and `load` against nginx, HAProxy and Hitch from Debian, and against Tollgate: what they
//! say was resumed is what the servers say, or what the wire shows.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, LeafKind, free_port, http_backend};

use crate::peers::Peer;
use crate::probe_relay::Relay;
use crate::server::{Place, Server};
use crate::tools::{Ran, eventually};

/// The option and the name of each version.
const VERSIONS: [(&str, &str); 2] = [("--tls12", "TLSv1.2"), ("--tls13", "TLSv1.3")];

/// Handshakes by version and kind, such as `("TLSv1.3", "resumed")`.
type Counts = BTreeMap<(String, &'static str), u64>;

fn count(counts: &mut Counts, version: &str, resumed: bool, handshakes: u64) {
    let kind = if resumed { "resumed" } else { "full" };
    *counts.entry((version.to_owned(), kind)).or_default() += handshakes;
}

/// The JSON values of a run that went well.
fn values(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    serde_json::Deserializer::from_str(&ran.out)
        .into_iter()
        .map(|value| value.unwrap_or_else(|error| panic!("{error}: {}", ran.all())))
        .collect()
}

fn is_resumed(connection: &Value) -> bool {
    connection["handshake_kind"]
        .as_str()
        .unwrap()
        .eq_ignore_ascii_case("resumed")
}

/// One initial and two resumed connections for each version, each with a request: what `probe` says.
fn probe(place: &Place, address: SocketAddr) -> Counts {
    let mut counts = Counts::new();
    for (option, version) in VERSIONS {
        let ran = place.tollgate(&[
            "probe",
            &address.to_string(),
            "--server-name",
            "shop.test",
            "--ca",
            "ca.pem",
            "--get",
            "/",
            "--no-early-data",
            "--resumptions",
            "2",
            option,
            "--json",
        ]);
        let connections = values(&ran);
        let kinds: Vec<bool> = connections.iter().map(is_resumed).collect();
        assert_eq!(kinds, [false, true, true], "{version}: {}", ran.all());
        for connection in &connections {
            count(&mut counts, version, is_resumed(connection), 1);
        }
    }
    counts
}

/// Fresh and resumed connections for each version, each with a request: what `load` says. The share is that of
/// the run; the handshakes before and after the measured window are not in its counts.
fn load(place: &Place, address: SocketAddr) -> Counts {
    let mut counts = Counts::new();
    for (option, version) in VERSIONS {
        let ran = place.tollgate(&[
            "load",
            "tps",
            &address.to_string(),
            "--server-name",
            "shop.test",
            "--ca",
            "ca.pem",
            "--hit-rate",
            "0.75",
            "--duration",
            "1s",
            "--connections",
            "4",
            option,
            "--json",
        ]);
        let result = &values(&ran)[0];
        for (kind, resumed) in [("full", false), ("resumed", true)] {
            let handshakes = result["handshakes"][kind].as_u64().unwrap();
            assert!(handshakes > 0, "{version} {kind}: {}", ran.all());
            count(&mut counts, version, resumed, handshakes);
        }
    }
    counts
}

/// Asks `probe` and `load`, and whether `served` comes to say the same of the first and the same shares of the second.
fn agree(place: &Place, address: SocketAddr, served: impl Fn() -> Counts) {
    let probed = probe(place, address);
    let mut seen = Counts::new();
    let said = eventually(Duration::from_secs(10), || {
        seen = served();
        seen == probed
    });
    assert!(said, "probe says {probed:?}, the server {seen:?}");

    let loaded = load(place, address);
    let mut after = Counts::new();
    let close = eventually(Duration::from_secs(10), || {
        after = served();
        VERSIONS.iter().all(|(_, version)| {
            let share = share(&loaded, &Counts::new(), version);
            (share - self::share(&after, &probed, version)).abs() < 0.05
        })
    });
    assert!(
        close,
        "load says {loaded:?}, the server {after:?} after {probed:?}"
    );
    for ((version, kind), handshakes) in &loaded {
        let all = after[&(version.clone(), *kind)];
        assert!(
            all >= *handshakes,
            "{version} {kind}: {handshakes} of {all}"
        );
    }
}

/// The share of resumed handshakes of a version in `counts`, without those of `before`.
fn share(counts: &Counts, before: &Counts, version: &str) -> f64 {
    let of = |kind: &'static str| {
        let key = (version.to_owned(), kind);
        let before = before.get(&key).copied().unwrap_or(0);
        counts
            .get(&key)
            .copied()
            .unwrap_or(0)
            .saturating_sub(before) as f64
    };
    of("resumed") / (of("resumed") + of("full")).max(1.0)
}

/// Counts of log lines that begin with a version and a mark for resumed or not.
fn logged(text: &str, mark: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        if let (Some(version), Some(resumed)) = (words.next(), words.next())
            && version.starts_with("TLSv1.")
        {
            count(&mut counts, version, resumed == mark, 1);
        }
    }
    counts
}

/// An nginx `http` block that logs version, resumption, early data and request per request. Whether data is early
/// is asked when the request begins: once the handshake is complete nginx does not know it any more.
fn nginx(port: u16, more: &str) -> String {
    format!(
        "http {{ log_format r '$ssl_protocol $ssl_session_reused $early $request'; access_log access.log r; \
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate ecdsa.pem; ssl_certificate_key ecdsa.key; \
         ssl_protocols TLSv1.2 TLSv1.3; {more} set $early \"early=$ssl_early_data\"; location / {{ return 200 \"fine\\n\"; }} }} }}"
    )
}

#[test]
fn nginx_agrees_on_what_was_resumed() {
    let place = Place::new();
    let port = free_port();
    let peer = Peer::nginx(&place, port, &nginx(port, ""));
    agree(&place, peer.address(), || {
        logged(&place.folder.read("access.log"), "r")
    });
}

#[test]
fn nginx_agrees_on_early_data() {
    let place = Place::new();
    let port = free_port();
    let peer = Peer::nginx(&place, port, &nginx(port, "ssl_early_data on;"));
    // Two resumptions use up the two tickets of the initial connection: nginx may close an early one before it
    // has sent another.
    let ran = place.tollgate(&[
        "probe",
        &peer.address().to_string(),
        "--server-name",
        "shop.test",
        "--ca",
        "ca.pem",
        "--get",
        "/early",
        "--resumptions",
        "2",
        "--repeat",
        "3",
        "--json",
    ]);
    let accepted: Vec<bool> = values(&ran)
        .iter()
        .filter_map(|connection| connection["early_data_accepted"].as_bool())
        .collect();
    assert_eq!(accepted, [false, true, true].repeat(3), "{}", ran.all());
    let mut log = String::new();
    let logged = || {
        log = place.folder.read("access.log");
        log.lines().count() == 9
    };
    assert!(eventually(Duration::from_secs(10), logged), "{log}");
    for (line, early) in log.lines().zip(&accepted) {
        let expected = if *early {
            "TLSv1.3 r early="
        } else {
            "TLSv1.3 . early= "
        };
        assert!(line.starts_with(expected), "{log}");
    }
    // Where the client's Finished has come before nginx looks at the request, it does not call that early any more.
    assert!(log.contains(" early=1 "), "{log}");
}

#[test]
fn haproxy_agrees_on_what_was_resumed() {
    let place = Place::new();
    let port = free_port();
    let pem = place.folder.read("ecdsa.pem") + &place.folder.read("ecdsa.key");
    place.folder.write_secret("both.pem", pem);
    let body = format!(
        "frontend f\n  log stdout format raw local0 info\n  mode http\n  \
         bind 127.0.0.1:{port} ssl crt both.pem ssl-min-ver TLSv1.2\n  log-format \"%sslv %[ssl_fc_is_resumed]\"\n  \
         http-request return status 200 content-type text/plain string \"fine\""
    );
    let peer = Peer::haproxy(&place, port, &body);
    agree(&place, peer.address(), || logged(&peer.said(&place), "1"));
}

#[test]
fn tollgate_agrees_on_what_was_resumed() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let server = Server::start(place, &config);
    agree(&server.place, server.address(), || {
        let mut counts = Counts::new();
        for series in server.metrics().series("tollgate_handshakes_total") {
            if series.value > 0.0 {
                let resumed = series.label("kind") == "resumed";
                count(
                    &mut counts,
                    series.label("version"),
                    resumed,
                    series.value as u64,
                );
            }
        }
        counts
    });
}

/// What the server did, from its records alone: a full handshake carries certificates of `chain` bytes.
fn shown(relay: &Relay, chain: usize) -> Counts {
    let mut counts = Counts::new();
    for [_, server] in relay.passed() {
        let version = if is_tls13(&server) {
            "TLSv1.3"
        } else {
            "TLSv1.2"
        };
        count(&mut counts, version, server.len() < chain, 1);
    }
    counts
}

/// Whether a ServerHello has `supported_versions` with TLS 1.3 in it (RFC 8446, section 4.2.1).
fn is_tls13(flight: &[u8]) -> bool {
    let hello = &flight[..flight.len().min(256)];
    hello.windows(6).any(|bytes| bytes == [0, 0x2b, 0, 2, 3, 4])
}

#[test]
fn hitch_resumes_as_its_records_show() {
    let place = Place::new();
    // Many names make a chain that is longer than anything else on a connection.
    let names: Vec<String> = (0..60).map(|n| format!("name-{n}.shop.test")).collect();
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.insert(0, "shop.test");
    let leaf = place.authority.server(LeafKind::EcdsaP256, &all);
    place
        .folder
        .write_secret("both.pem", format!("{}{}", leaf.chain_pem, leaf.key_pem));
    let chain = fs::read(place.folder.join("both.pem")).unwrap().len() / 2;
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let behind: SocketAddr = backend.address().parse().unwrap();
    let port = free_port();
    let peer = Peer::hitch(&place, port, behind.port(), "both.pem");
    let relay = Relay::start(peer.address(), &[]);
    agree(&place, relay.address, || shown(&relay, chain));
}

#[test]
fn the_wire_tells_a_full_handshake_from_a_resumed_one() {
    let text = "TLSv1.2 r - GET /\nTLSv1.2 . - GET /\nTLSv1.3 r\n- - -\n";
    let counts = logged(text, "r");
    assert_eq!(counts.values().sum::<u64>(), 3);
    assert!((share(&counts, &Counts::new(), "TLSv1.2") - 0.5).abs() < 1e-9);
    assert!(is_tls13(&[2, 0, 0x2b, 0, 2, 3, 4, 9]));
    assert!(!is_tls13(&[2, 0, 0x2b, 0, 2, 3, 3, 9]));
}
