//! What one call of the meter takes: `cargo bench -p tollgate-meter`.
#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tollgate_meter::{Direction, Meter, MeterNames, RecordDirection};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, Culprit, HandshakeCost, HandshakeFacts, HandshakeKind,
    NamedGroup, ResumptionMiss, TlsVersion,
};

const CALLS: u64 = 20_000_000;

fn time(name: &str, mut call: impl FnMut(u64)) {
    let start = Instant::now();
    for index in 0..CALLS {
        call(black_box(index));
    }
    let nanos = start.elapsed().as_nanos() as f64 / CALLS as f64;
    println!("{name:<28} {nanos:>6.1} ns");
}

fn main() {
    let mut meter = Meter::new(MeterNames {
        sites: (0..8).map(|n| format!("site{n}").into()).collect(),
        listeners: vec!["0.0.0.0:443".into()],
        ..MeterNames::default()
    });
    let facts = HandshakeFacts {
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        group: Some(NamedGroup::X25519),
        kind: HandshakeKind::Full,
        miss: Some(ResumptionMiss::NothingOffered),
        certificate: Some(CertificateKind::EcdsaP256),
        signature: None,
        server_name: None,
        alpn: None,
        client: None,
        ticket_age: None,
        early_data_offered: false,
    };
    let cost = HandshakeCost {
        asymmetric: CpuTime(40_000),
        derivation: CpuTime(30_000),
    };
    time("handshake", |n| {
        meter.handshake((n & 7) as usize, 0, &facts, n & 1023, cost);
    });
    time("request", |n| {
        let status = if n & 15 == 0 { 404 } else { 200 };
        meter.request((n & 7) as usize, "HTTP/1.1", status, n & 1023);
    });
    time("bytes", |n| {
        meter.bytes((n & 7) as usize, "tcp", Direction::ClientOut, n);
    });
    time("records", |n| {
        meter.records(facts.suite, RecordDirection::Sealed, 1, n, CpuTime(900));
    });
    time("look_up", |_| meter.look_up(CpuTime(900)));
    time("held", |_| meter.held("http", 1_024));
    time("closed_after", |n| {
        meter.closed_after("http", Duration::from_millis(n), 3);
    });
    time("unknown_key, made up", |n| {
        meter.unknown_key(u128::from(n).to_be_bytes());
    });
    time("accepted", |_| meter.accepted(0));
    time("handshake_failed", |_| {
        meter.handshake_failed(0, "no_common_suite", Culprit::Client);
    });
    let mut map: HashMap<u64, u64> = HashMap::new();
    time("standard map, to compare", |n| {
        *map.entry(n & 15).or_default() += 1;
    });
    black_box((meter.snapshot(), map));
}
