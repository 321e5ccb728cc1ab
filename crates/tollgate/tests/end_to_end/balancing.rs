//! How requests are spread over backends, and health.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_testkit::{Address, Backend, http_backend};

use crate::server::{Place, Server, described, get};
use crate::tools::eventually;

fn started(
    names: &[&str],
    entry: impl Fn(&Backend) -> String,
    more: &str,
) -> (Server, Vec<Backend>) {
    let backends: Vec<Backend> = names
        .iter()
        .map(|name| http_backend(&Address::Loopback, None, name, false))
        .collect();
    let place = Place::new();
    let mut config = place.listener("http");
    config.push_str("sites:\n  - names: [\"shop.test\"]\n    certificates: [{ chain: ecdsa.pem, key: ecdsa.key }]\n    backends:\n");
    for backend in &backends {
        config.push_str(&entry(backend));
    }
    config.push_str(more);
    config.push_str("workers: { count: 1 }\n");
    (Server::start(place, &config), backends)
}

fn spread(server: &Server, count: usize) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut connection = server.connect();
    for _ in 0..count {
        let seen = described(&connection.exchange(&get("/")).unwrap());
        *found
            .entry(seen["backend"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    found
}

#[test]
fn weights_hold_exactly_over_a_round() {
    let (server, _backends) = started(
        &["heavy", "light"],
        |backend| {
            let weight = if backend.address().is_empty() { 0 } else { 1 };
            format!(
                "      - {{ address: \"http://{}\", weight: {weight} }}\n",
                backend.address()
            )
        },
        "",
    );
    assert_eq!(
        spread(&server, 40),
        BTreeMap::from([("heavy".into(), 20), ("light".into(), 20)])
    );
    let text = server
        .place
        .folder
        .read("tls.yaml")
        .replacen("weight: 1", "weight: 3", 1);
    assert_eq!(server.reload(&text).as_deref(), Some("succeeded"));
    assert_eq!(
        spread(&server, 40),
        BTreeMap::from([("heavy".into(), 30), ("light".into(), 10)])
    );
}

#[test]
fn least_connections_avoids_the_busy_backend() {
    let (server, backends) = started(
        &["one", "two"],
        |backend| format!("      - \"http://{}\"\n", backend.address()),
        "    balance: least_connections\n",
    );
    let mut busy = server.connect();
    busy.write_all(get("/slow/4000").as_bytes()).unwrap();
    assert!(eventually(Duration::from_secs(5), || backends
        .iter()
        .any(|backend| !backend.seen().heads().is_empty())));
    let found = spread(&server, 10);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn an_unwell_backend_is_left_alone_until_it_is_well() {
    let (server, backends) = started(
        &["one", "two"],
        |backend| format!("      - \"http://{}\"\n", backend.address()),
        "    health: { path: /health, interval: 100ms, timeout: 1s, rise: 2, fall: 2 }\n",
    );
    let up = |server: &Server| {
        server
            .metrics()
            .sum("tollgate_backend_up", &[("site", "shop.test")])
    };
    assert!(eventually(Duration::from_secs(10), || up(&server) > 1.5));
    backends[0].seen().unhealthy.store(true, Ordering::SeqCst);
    assert!(
        eventually(Duration::from_secs(10), || up(&server) < 1.5),
        "{:?}",
        server.metrics().series("tollgate_backend_up")
    );
    assert_eq!(spread(&server, 10), BTreeMap::from([("two".into(), 10)]));
    backends[0].seen().unhealthy.store(false, Ordering::SeqCst);
    assert!(eventually(Duration::from_secs(10), || up(&server) > 1.5));
    assert_eq!(spread(&server, 10).len(), 2);
    assert!(
        server.stderr().contains(backends[0].address()),
        "a change of health is told:\n{}",
        server.stderr()
    );
}

#[test]
fn a_dead_backend_costs_no_request() {
    let (server, mut backends) = started(
        &["one", "two"],
        |backend| format!("      - \"http://{}\"\n", backend.address()),
        "",
    );
    assert_eq!(spread(&server, 10).len(), 2);
    backends.remove(0).stop();
    assert_eq!(spread(&server, 40), BTreeMap::from([("two".into(), 40)]));
    assert!(server.metrics().sum("tollgate_backend_failures_total", &[]) >= 1.0);
}
