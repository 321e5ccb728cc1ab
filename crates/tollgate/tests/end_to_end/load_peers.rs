//! `tollgate load` against nginx and HAProxy: their own logs say what the run says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_testkit::free_port;

use crate::load_modes::{load, near, reached};
use crate::peers::Peer;
use crate::server::Place;
use crate::tools::eventually;

/// A server of nginx that logs version, resumption and early data of each request.
fn site(place: &Place, port: u16, listen: &str, more: &str) -> String {
    let folder = place.folder.path().display();
    format!(
        "server {{ listen 127.0.0.1:{port} ssl {listen}; {more} \
         access_log {folder}/tls.log tls; keepalive_requests 100000; client_max_body_size 10m; \
         ssl_certificate ecdsa.pem; ssl_certificate_key ecdsa.key; ssl_protocols TLSv1.2 TLSv1.3; \
         ssl_session_cache shared:one:1m; set $early $ssl_early_data; \
         location / {{ return 200 \"hello\"; }} }} "
    )
}

/// nginx with these sites, one of which listens on `port`.
fn nginx_with(place: &Place, port: u16, sites: &str) -> Peer {
    let format = "$ssl_protocol reused=$ssl_session_reused early=$early to=$server_port";
    let body = format!("http {{ log_format tls '{format}'; {sites} }}");
    Peer::nginx(place, port, &body)
}

fn nginx(place: &Place, listen: &str, more: &str) -> Peer {
    let port = free_port();
    nginx_with(place, port, &site(place, port, listen, more))
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

/// What stands in front of two servers: most connections with early data go to the one that takes it,
/// every tenth to the one that does not.
///
/// nginx tells of early data only while it still waits for the client's Finished, which on a short way
/// has often overtaken the request's handling. Here it cannot: the client gets nothing of the server's
/// flight, and so sends no Finished, before the server has answered the early data.
struct Crossing {
    address: SocketAddr,
    /// Connections whose ClientHello announced early data.
    announced: Arc<AtomicU64>,
}

/// A server that does not take early data gets every so many-th connection that has some.
const DECLINED_EVERY: u64 = 10;

impl Crossing {
    /// Its threads end with the tests.
    fn start(takes: SocketAddr, declines: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let announced = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&announced);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, announced) = (client.unwrap(), Arc::clone(&shared));
                // How a connection ends shows at its ends.
                std::thread::spawn(move || cross(client, takes, declines, &announced));
            }
        });
        Self { address, announced }
    }
}

fn cross(
    mut client: TcpStream,
    takes: SocketAddr,
    declines: SocketAddr,
    announced: &AtomicU64,
) -> std::io::Result<()> {
    let hello = record(&mut client)?;
    let early = announces_early_data(&hello);
    let declined =
        early && announced.fetch_add(1, Ordering::SeqCst) % DECLINED_EVERY == DECLINED_EVERY - 1;
    let mut server = TcpStream::connect(if declined { declines } else { takes })?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    server.write_all(&hello)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || pass(from_client, to_server));
    if early && !declined {
        // EncryptedExtensions, Finished, and then what was answered; each in a record of its own.
        let (mut held, mut sealed) = (Vec::new(), 0);
        while sealed < 3 {
            let record = record(&mut server)?;
            sealed += u32::from(record[0] == 23);
            held.extend(record);
        }
        client.write_all(&held)?;
    }
    pass(server, client);
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// One TLS record with its header.
fn record(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut record = vec![0; 5];
    from.read_exact(&mut record)?;
    let end = 5 + number(&record, 3);
    record.resize(end, 0);
    from.read_exact(&mut record[5..])?;
    Ok(record)
}

/// Two bytes of `bytes` as a number.
fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Whether the ClientHello in this record has the extension `early_data`.
fn announces_early_data(record: &[u8]) -> bool {
    assert_eq!((record[0], record[5]), (22, 1), "no ClientHello");
    // Behind the headers: version, random, session id, cipher suites, compression methods.
    let mut at = 9 + 2 + 32;
    at += 1 + usize::from(record[at]);
    at += 2 + number(record, at);
    at += 1 + usize::from(record[at]);
    at += 2;
    while at < record.len() {
        if number(record, at) == 42 {
            return true;
        }
        at += 4 + number(record, at + 2);
    }
    false
}

#[test]
fn nginx_takes_the_early_data_that_the_run_says_it_took() {
    let place = Place::new();
    let (takes, declines) = (free_port(), free_port());
    // The same key, so that a ticket of one is good at the other, which gives none itself: all
    // tickets that the client has allow early data.
    place.folder.write_secret("tickets.key", [7; 48]);
    let key = "ssl_session_ticket_key tickets.key;";
    let sites = site(&place, takes, "", &format!("{key} ssl_early_data on;"))
        + &site(
            &place,
            declines,
            "",
            &format!("{key} ssl_conf_command NumTickets 0;"),
        );
    let peer = nginx_with(&place, takes, &sites);
    let crossing = Crossing::start(peer.address(), SocketAddr::from(([127, 0, 0, 1], declines)));
    // One connection at a time, and early data on every eighth, 50 times. Neither the first ones, which
    // may belong to the warm-up, nor one that has begun when the last has ended has any: all of it counts.
    let more = "--insecure --tls13 --hit-rate 0.5 --early-data-rate 0.25 -c 1 --warm-up 0s --operations 404 --duration 60s";
    let result = reached(&load(&place, "tps", &crossing.address.to_string(), more));
    let early = &result["early_data"];
    let count = |what: &str| early[what].as_u64().unwrap();
    let resumed = result["handshakes"]["resumed"].as_u64().unwrap();
    let share = count("sent") as f64 / resumed as f64;
    assert!((share - 0.25).abs() <= 0.01, "{result}");
    assert_eq!(
        count("sent"),
        crossing.announced.load(Ordering::SeqCst),
        "{result}"
    );
    assert_eq!(
        count("rejected"),
        count("sent") / DECLINED_EVERY,
        "{result}"
    );
    assert!(count("rejected") > 0, "{result}");
    assert_eq!(
        count("accepted"),
        count("sent") - count("rejected"),
        "{result}"
    );
    let log = lines(&place, 405);
    let said = |early: &str, port: u16| {
        let (early, to) = (format!("early={early} "), format!("to={port}"));
        let is = |line: &&String| line.contains(&early) && line.ends_with(&to);
        log.iter().filter(is).count() as u64
    };
    assert_eq!(said("1", takes), count("accepted"), "{log:?}");
    assert_eq!(said("1", declines), 0, "{log:?}");
    assert_eq!(said("", declines), count("rejected"), "{log:?}");
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
