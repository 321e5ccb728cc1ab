//! `tollgate load` against nginx and HAProxy: their own logs say what the run says.

use std::time::Duration;

use tollgate_testkit::free_port;

use crate::load_modes::{load, near, reached};
use crate::peers::Peer;
use crate::server::Place;
use crate::tools::eventually;

/// nginx that logs version, resumption and early data of each request.
fn nginx(place: &Place, listen: &str, more: &str) -> Peer {
    let port = free_port();
    let folder = place.folder.path().display();
    let body = format!(
        "http {{ log_format tls '$ssl_protocol reused=$ssl_session_reused early=$early $request_length'; \
         server {{ listen 127.0.0.1:{port} ssl {listen}; {more} \
         access_log {folder}/tls.log tls; keepalive_requests 100000; client_max_body_size 10m; \
         ssl_certificate ecdsa.pem; ssl_certificate_key ecdsa.key; ssl_protocols TLSv1.2 TLSv1.3; \
         ssl_session_cache shared:one:1m; set $early $ssl_early_data; \
         location / {{ return 200 \"hello\"; }} }} }}"
    );
    Peer::nginx(place, port, &body)
}

/// Lines of nginx's log, once there are at least `least`.
fn lines(place: &Place, least: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = place.folder.read("tls.log");
        text.lines().map(str::to_owned).collect()
    };
    assert!(
        eventually(Duration::from_secs(10), || read().len() >= least),
        "{} lines",
        read().len()
    );
    read()
}

#[test]
fn nginx_resumes_the_share_that_was_asked_for() {
    for (flag, version) in [("--tls12", "TLSv1.2"), ("--tls13", "TLSv1.3")] {
        let place = Place::new();
        let peer = nginx(&place, "", "");
        let more = format!(
            "--insecure {flag} --hit-rate 0.9 -c 4 --warm-up 0s --operations 1000 --duration 60s"
        );
        let target = peer.address().to_string();
        let result = reached(&load(&place, "tps", &target, &more));
        assert!(near(&result["hit_rate"], 0.9), "{result}");
        assert_eq!(result["operations"], 1000);
        let log = lines(&place, 1000);
        assert!(log.len() <= 1010, "{}", log.len());
        assert!(log.iter().all(|line| line.starts_with(version)), "{log:?}");
        let reused = log.iter().filter(|line| line.contains("reused=r")).count();
        let share = reused as f64 / log.len() as f64;
        // One operation goes before the run, and some are on their way at its end.
        assert!((share - 0.9).abs() <= 0.01, "{flag}: {share}");
    }
}

#[test]
fn nginx_takes_the_early_data_that_the_run_says_it_took() {
    let place = Place::new();
    let peer = nginx(&place, "", "ssl_early_data on;");
    let target = peer.address().to_string();
    let more = "--insecure --tls13 --hit-rate 0.9 --early-data-rate 0.5 -c 2 --warm-up 0s --operations 400 --duration 60s";
    let result = reached(&load(&place, "tps", &target, more));
    let early = &result["early_data"];
    let (sent, accepted) = (
        early["sent"].as_u64().unwrap(),
        early["accepted"].as_u64().unwrap(),
    );
    let resumed = result["handshakes"]["resumed"].as_u64().unwrap();
    assert!(
        (sent as f64 / resumed as f64 - 0.5).abs() <= 0.01,
        "{result}"
    );
    assert_eq!(early["rejected"], 0, "{result}");
    let log = lines(&place, 400);
    let took = log.iter().filter(|line| line.contains("early=1")).count() as u64;
    // nginx says so only of requests that it handles before the client's Finished is there, so not of all.
    assert!(took > 0 && took <= accepted + 3, "{took} and {accepted}");
}

#[test]
fn early_data_that_nginx_does_not_take_is_not_counted_as_taken() {
    let place = Place::new();
    let peer = nginx(&place, "", "");
    let target = peer.address().to_string();
    let more = "--insecure --tls13 --hit-rate 0.9 --early-data-rate 0.5 -c 2 --operations 50 --duration 60s";
    let ran = load(&place, "tps", &target, more);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(
        ran.out.contains("tickets did not allow it"),
        "{}",
        ran.all()
    );
    assert!(ran.out.contains("\"accepted\": 0"), "{}", ran.all());
}

#[test]
fn nginx_serves_many_requests_over_http2() {
    let place = Place::new();
    let peer = nginx(&place, "http2", "");
    let target = peer.address().to_string();
    for (mode, more) in [
        (
            "requests",
            "--insecure --alpn h2 --streams 8 -c 2 --operations 300",
        ),
        (
            "tps",
            "--insecure --alpn h2,http/1.1 --hit-rate 0.5 -c 2 --operations 100",
        ),
    ] {
        let result = reached(&load(&place, mode, &target, more));
        assert!(result["operations"].as_u64().unwrap() >= 100, "{result}");
    }
}

#[test]
fn haproxy_resumes_the_share_that_was_asked_for() {
    for (flag, version) in [("--tls12", "TLSv1.2"), ("--tls13", "TLSv1.3")] {
        let place = Place::new();
        let both = place.folder.read("ecdsa.pem") + &place.folder.read("ecdsa.key");
        place.folder.write_secret("both.pem", both);
        let port = free_port();
        let body = format!(
            "frontend f\n  mode http\n  log stdout format raw local0\n  \
             log-format \"%[ssl_fc_protocol] resumed=%[ssl_fc_is_resumed] end\"\n  \
             bind 127.0.0.1:{port} ssl crt both.pem\n  http-request return status 200 content-type text/plain string ok"
        );
        let peer = Peer::haproxy(&place, port, &body);
        let more = format!(
            "--insecure {flag} --hit-rate 0.9 -c 4 --warm-up 0s --operations 1000 --duration 60s"
        );
        let target = peer.address().to_string();
        let result = reached(&load(&place, "tps", &target, &more));
        assert!(near(&result["hit_rate"], 0.9), "{result}");
        let log = || -> Vec<String> {
            let said = peer.said(&place);
            let lines = said.lines().filter(|line| line.contains("resumed="));
            lines.map(str::to_owned).collect()
        };
        assert!(
            eventually(Duration::from_secs(10), || log().len() >= 1000),
            "{}",
            peer.said(&place)
        );
        let log: Vec<String> = log()
            .into_iter()
            .filter(|line| line.contains(version))
            .collect();
        let resumed = log.iter().filter(|line| line.contains("resumed=1")).count();
        let share = resumed as f64 / log.len() as f64;
        assert!(
            (share - 0.9).abs() <= 0.01,
            "{flag}: {share} of {}",
            log.len()
        );
    }
}
