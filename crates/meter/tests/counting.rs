//! Counting, seen through the door.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_meter::{Direction, Meter, MeterNames, NOWHERE, RecordDirection};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, Culprit, HandshakeCost, HandshakeFacts, HandshakeKind,
    NamedGroup, ResumptionMethod, ResumptionMiss, TlsVersion,
};

fn names(worker: usize, sites: &[&str]) -> MeterNames {
    MeterNames {
        sites: sites.iter().map(|&name| name.into()).collect(),
        listeners: vec!["127.0.0.1:443".into()],
        backends: sites.iter().map(|_| vec!["10.0.0.5:80".into()]).collect(),
        worker,
    }
}

fn full() -> HandshakeFacts {
    HandshakeFacts {
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        group: Some(NamedGroup::X25519MLKEM768),
        kind: HandshakeKind::Full,
        miss: Some(ResumptionMiss::NothingOffered),
        certificate: Some(CertificateKind::EcdsaP256),
        signature: None,
        server_name: None,
        alpn: None,
        client: None,
        ticket_age: None,
        early_data_offered: false,
    }
}

fn resumed() -> HandshakeFacts {
    HandshakeFacts {
        version: TlsVersion::Tls12,
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        group: None,
        kind: HandshakeKind::Resumed(ResumptionMethod::Ticket),
        miss: None,
        certificate: None,
        ..full()
    }
}

#[test]
fn handshakes_are_counted_by_what_they_were() {
    let mut meter = Meter::new(names(0, &["a", "b"]));
    meter.handshake(0, 0, &full(), 900, HandshakeCost::default());
    meter.handshake(0, 0, &full(), 1_100, HandshakeCost::default());
    meter.handshake(1, 0, &resumed(), 80, HandshakeCost::default());
    let snapshot = meter.snapshot();
    let lines: Vec<String> = snapshot
        .handshakes
        .iter()
        .map(|one| {
            let l = &one.labels;
            format!(
                "{} {} {} {} {} {} {} {}",
                l.site, l.listener, l.version, l.suite, l.group, l.certificate, l.kind, one.count
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "a 127.0.0.1:443 TLSv1.3 TLS_AES_128_GCM_SHA256 X25519MLKEM768 ecdsa-p256 full 2",
            "b 127.0.0.1:443 TLSv1.2 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 none none resumed 1",
        ]
    );
    assert_eq!(snapshot.resumption_misses.len(), 1);
    assert_eq!(snapshot.resumption_misses[0].count, 2);
    assert_eq!(snapshot.workers[0].handshakes, 3);
    let full = &snapshot.handshake_times[0];
    assert_eq!(full.labels.kind, "full");
    assert_eq!(full.histogram.sum_micros, 2_000);
}

#[test]
fn a_site_that_stays_keeps_its_counters_and_its_number() {
    let mut meter = Meter::new(names(0, &["a", "b"]));
    meter.retry(1);
    let places = meter.rename(&names(0, &["c", "b"]));
    assert_eq!(places.sites, [2, 1]);
    assert_eq!(places.listeners, [0]);
    meter.retry(places.sites[1]);
    meter.retry(places.sites[0]);
    // A connection of the old configuration still counts for its own site.
    meter.retry(0);
    let counts: Vec<(Arc<str>, u64)> = meter
        .snapshot()
        .retries
        .into_iter()
        .map(|one| (one.labels.site, one.count))
        .collect();
    assert_eq!(counts, [("a".into(), 1), ("b".into(), 2), ("c".into(), 1)]);
}

#[test]
fn a_number_that_is_not_known_counts_as_other() {
    let mut meter = Meter::new(names(0, &["a"]));
    meter.retry(NOWHERE);
    meter.accepted(7);
    meter.handshake(9, 9, &full(), 1, HandshakeCost::default());
    meter.request(NOWHERE, "HTTP/2", 421, 1);
    meter.backend_failure(0, 5, "connect_refused");
    meter.backend_failure(9, 0, "connect_refused");
    let snapshot = meter.snapshot();
    assert_eq!(&*snapshot.retries[1].labels.site, "other");
    assert_eq!(&*snapshot.accepted[1].labels.listener, "other");
    assert_eq!(&*snapshot.handshakes[0].labels.site, "other");
    assert_eq!(&*snapshot.requests[0].labels.site, "other");
    assert_eq!(&*snapshot.backend_failures[0].labels.backend, "other");
    assert_eq!(snapshot.backend_failures.len(), 2);
}

#[test]
fn reasons_without_end_do_not_become_series_without_end() {
    let mut meter = Meter::new(names(0, &["a"]));
    for index in 0..1_000 {
        let reason: &'static str = Box::leak(format!("reason {index}").into_boxed_str());
        meter.handshake_failed(0, reason, Culprit::Client);
        meter.refused(0, reason);
        meter.backend_failure(0, index, reason);
        meter.backend_failure(0, index, "late");
    }
    let snapshot = meter.snapshot();
    assert_eq!(snapshot.handshake_failures.len(), 65);
    assert_eq!(snapshot.refused.len(), 65);
    assert_eq!(
        snapshot.refused.iter().map(|one| one.count).sum::<u64>(),
        1_000
    );
    assert!(snapshot.backend_failures.len() <= 1_025);
    assert_eq!(
        snapshot
            .backend_failures
            .iter()
            .map(|one| one.count)
            .sum::<u64>(),
        2_000
    );
}

#[test]
fn open_connections_are_what_opened_less_what_closed() {
    let mut meter = Meter::new(names(0, &["a"]));
    meter.opened(0, "handshake");
    meter.closed(0, "handshake");
    meter.opened(0, "http");
    meter.opened(0, "http");
    meter.closed(0, "http");
    let open: Vec<_> = meter
        .snapshot()
        .connections
        .into_iter()
        .map(|one| (one.labels.mode, one.open))
        .collect();
    assert_eq!(open, [("handshake", 0), ("http", 1)]);
}

#[test]
fn imbalance_is_the_busiest_over_the_mean() {
    let mut first = Meter::new(names(0, &["a"]));
    let mut second = Meter::new(names(1, &["a"]));
    assert_eq!(first.snapshot().worker_imbalance(), None);
    (0..3).for_each(|_| first.accepted(0));
    second.accepted(0);
    let mut snapshot = first.snapshot();
    snapshot.merge(&second.snapshot());
    assert_eq!(snapshot.worker_imbalance(), Some(1.5));
    assert_eq!(snapshot.workers.len(), 2);
    assert_eq!(snapshot.accepted[0].count, 4);
}

fn cost(nanos: u16) -> HandshakeCost {
    HandshakeCost {
        asymmetric: CpuTime(nanos.into()),
        derivation: CpuTime(u64::from(nanos) * 2),
    }
}

#[test]
fn cpu_time_is_added_up_by_phase_and_the_rest_is_not_tls() {
    let mut meter = Meter::new(names(0, &["a"]));
    meter.handshake(0, 0, &full(), 1, cost(100));
    meter.handshake(0, 0, &full(), 1, cost(50));
    meter.handshake_spent(cost(7));
    let (sealed, opened) = (RecordDirection::Sealed, RecordDirection::Opened);
    meter.records(full().suite, sealed, 2, 20_000, CpuTime(30));
    meter.records(full().suite, opened, 1, 100, CpuTime(3));
    meter.records(resumed().suite, opened, 1, 100, CpuTime(3));
    meter.busy(CpuTime(1_000));
    let snapshot = meter.snapshot();
    let cpu = snapshot.cpu;
    assert_eq!((cpu.asymmetric_nanos, cpu.derivation_nanos), (157, 314));
    assert_eq!((cpu.records_nanos, cpu.busy_nanos), (36, 1_000));
    assert_eq!(cpu.not_tls_nanos, 1_000 - 157 - 314 - 36);
    assert_eq!(snapshot.workers[0].cpu, cpu);
    let series = &snapshot.handshakes[0];
    assert_eq!(
        (series.asymmetric_nanos, series.derivation_nanos),
        (150, 300)
    );
    let records: Vec<_> = snapshot
        .records
        .iter()
        .map(|one| (one.suite, one.direction, one.records, one.bytes, one.nanos))
        .collect();
    let (one, other) = (
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    );
    assert_eq!(
        records,
        [
            (one, "opened", 1, 100, 3),
            (one, "sealed", 2, 20_000, 30),
            (other, "opened", 1, 100, 3),
        ]
    );
}

#[test]
fn memory_lifetimes_and_tickets_are_kept_apart_by_what_they_belong_to() {
    let mut meter = Meter::new(names(0, &["a"]));
    meter.held("http", 4_000);
    meter.held("http", -1_000);
    meter.held("tcp", 2_000);
    meter.closed_after("http", Duration::from_secs(20), 3);
    meter.closed_after("tcp", Duration::from_millis(50), 0);
    meter.ticket(200);
    meter.look_up(CpuTime(900));
    meter.unknown_key([7; 16]);
    let aged = HandshakeFacts {
        ticket_age: Some(Duration::from_secs(30)),
        ..resumed()
    };
    meter.handshake(0, 0, &aged, 1, HandshakeCost::default());
    let snapshot = meter.snapshot();
    let held = |mode| {
        snapshot
            .held
            .iter()
            .find(|one| one.mode == mode)
            .unwrap()
            .bytes
    };
    assert_eq!(
        (held("http"), held("tcp"), held("handshake")),
        (3_000, 2_000, 0)
    );
    let http = snapshot
        .lifetimes
        .iter()
        .find(|one| one.mode == "http")
        .unwrap();
    assert_eq!(
        (http.distribution.count(), http.distribution.sum),
        (1, 20_000)
    );
    assert_eq!(snapshot.requests_per_connection.sum, 3);
    assert_eq!(snapshot.requests_per_connection.count(), 1, "HTTP alone");
    assert_eq!((snapshot.tickets.count, snapshot.tickets.bytes), (1, 200));
    assert_eq!((snapshot.look_ups.count, snapshot.look_ups.nanos), (1, 900));
    assert_eq!(snapshot.ticket_ages.sum, 30_000);
    assert_eq!(snapshot.unknown_keys[0].labels.key, "07".repeat(16));
    assert_eq!(snapshot.resumptions[0].labels.method, "ticket");
}

/// One thing that happens on a worker.
fn happen(meter: &mut Meter, (what, site, number): (u8, usize, u16)) {
    match what {
        0 => meter.handshake(site, 0, &full(), number.into(), cost(number)),
        1 => meter.handshake(site, 0, &resumed(), number.into(), cost(number)),
        2 => meter.request(site, "HTTP/1.1", number, number.into()),
        3 => meter.bytes(site, "tcp", Direction::BackendIn, number.into()),
        4 => meter.retry(site),
        5 => meter.opened(0, "http"),
        6 => meter.backend_failure(site, 0, "timeout"),
        7 => meter.handshake_spent(cost(number)),
        8 => meter.records(
            full().suite,
            RecordDirection::Sealed,
            1,
            number.into(),
            CpuTime(7),
        ),
        9 => meter.held("tcp", i64::from(number) - 300),
        10 => meter.closed_after("http", Duration::from_millis(number.into()), number.into()),
        11 => {
            meter.look_up(CpuTime(number.into()));
            meter.ticket(number.into());
        }
        12 => meter.early_data_refused(),
        _ => meter.handshake_failed(0, "no_common_suite", Culprit::Client),
    }
}

proptest! {
    #[test]
    fn merged_workers_equal_one_worker_that_did_it_all(
        events in prop::collection::vec((0_u8..14, 0_usize..4, 0_u16..600), 0..200),
    ) {
        let sites = ["a", "b", "c"];
        let mut one = Meter::new(names(0, &sites));
        let mut pair = [Meter::new(names(0, &sites)), Meter::new(names(0, &sites))];
        for (index, event) in events.into_iter().enumerate() {
            happen(&mut one, event);
            happen(&mut pair[index % 2], event);
        }
        let mut merged = pair[0].snapshot();
        merged.merge(&pair[1].snapshot());
        prop_assert_eq!(merged, one.snapshot());
    }
}
