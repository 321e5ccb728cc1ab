//! The past, seen through the door: intervals add up, names come and go, the clock is not trusted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use proptest::prelude::*;
use tollgate_meter::{History, Interval, Meter, MeterNames, RecordDirection, Snapshot};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, HandshakeCost, HandshakeFacts, HandshakeKind,
    NamedGroup, ResumptionMethod, ResumptionMiss, TlsVersion,
};

fn full() -> HandshakeFacts {
    HandshakeFacts {
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
    }
}

fn resumed() -> HandshakeFacts {
    HandshakeFacts {
        kind: HandshakeKind::Resumed(ResumptionMethod::Ticket),
        miss: None,
        certificate: None,
        ..full()
    }
}

const COST: HandshakeCost = HandshakeCost {
    asymmetric: CpuTime(40_000),
    derivation: CpuTime(20_000),
};

/// A process whose counters only a test moves.
struct Process {
    meter: Meter,
    history: History,
    hash: &'static str,
    kernel_seconds: f64,
    at: f64,
}

impl Process {
    fn new(sites: &[&str]) -> Self {
        let names = MeterNames {
            sites: sites.iter().map(|&name| name.into()).collect(),
            listeners: vec!["127.0.0.1:443".into()],
            ..MeterNames::default()
        };
        Self {
            meter: Meter::new(names),
            history: History::new(),
            hash: "one",
            kernel_seconds: 0.0,
            at: 1_000_000.0,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.meter.snapshot();
        snapshot.process.config_hash = self.hash.to_owned();
        snapshot.process.worker_cpu_seconds = vec![(0, self.kernel_seconds)];
        snapshot
    }

    fn tick(&mut self, seconds: f64) {
        self.at += seconds;
        self.history.take(self.at, &self.snapshot());
    }
}

#[test]
fn the_last_minute_holds_what_happened_in_it_and_nothing_else() {
    let mut process = Process::new(&["a", "b"]);
    for second in 0..200 {
        process.meter.accepted(0);
        let site = usize::from(second % 10 == 0);
        let facts = if second % 4 == 0 { full() } else { resumed() };
        process.meter.handshake(site, 0, &facts, 500, COST);
        process.meter.request(site, "HTTP/2", 200, 100);
        process.tick(1.0);
    }
    let minute = process.history.over(60.0);
    assert!((minute.seconds - 60.0).abs() < 1e-6);
    assert_eq!((minute.totals.full(), minute.totals.resumed()), (15, 45));
    assert_eq!(minute.totals.hit_rate(), Some(0.75));
    assert_eq!((minute.totals.accepted, minute.totals.requests), (60, 60));
    assert_eq!(minute.totals.missed("nothing_offered"), 15);
    assert_eq!(minute.rate(minute.totals.accepted), 1.0);
    let of_b: u64 = minute
        .handshakes
        .iter()
        .filter(|part| &*part.site == "b")
        .map(|part| part.count)
        .sum();
    assert_eq!(of_b, 6);
    assert_eq!(minute.workers[0].accepted, 60);
    assert_eq!(process.history.second().totals.accepted, 1);
}

#[test]
fn a_site_that_came_with_a_reload_counts_from_there_on() {
    let mut process = Process::new(&["a"]);
    process.meter.handshake(0, 0, &full(), 1, COST);
    process.tick(1.0);
    process.hash = "two";
    let newer = MeterNames {
        sites: vec!["c".into()],
        listeners: vec!["127.0.0.1:444".into()],
        ..MeterNames::default()
    };
    let places = process.meter.rename(&newer);
    process.tick(1.0);
    process
        .meter
        .handshake(places.sites[0], places.listeners[0], &resumed(), 1, COST);
    process.meter.request(places.sites[0], "HTTP/2", 200, 1);
    process.meter.accepted(places.listeners[0]);
    process.tick(1.0);
    let since = process.history.over(60.0);
    assert_eq!(since.handshakes.len(), 1);
    assert_eq!(&*since.handshakes[0].site, "c");
    assert_eq!(&*since.handshakes[0].listener, "127.0.0.1:444");
    assert_eq!(since.handshakes[0].nanos(), 60_000);
    assert_eq!(since.requests, [("c".into(), 1)]);
    assert_eq!(
        since.accepted.iter().map(|(_, count)| count).sum::<u64>(),
        1
    );
    let marks: Vec<_> = process.history.marks(60.0).collect();
    assert_eq!((marks[0].kind, &*marks[0].text), ("start", "one"));
    assert_eq!((marks[1].kind, &*marks[1].text), ("reload", "two"));
    let configurations: Vec<_> = process.history.configurations().collect();
    assert_eq!(configurations[0].totals.full(), 1);
    assert_eq!(configurations[1].totals.full(), 0);
    assert_eq!(configurations[1].totals.resumed(), 1);
    assert_eq!(configurations[1].totals.versions[1].resumed_nanos, 60_000);
    assert_eq!(configurations[1].hash, "two");
}

#[test]
fn a_day_is_remembered_in_bounded_room() {
    let mut process = Process::new(&["a"]);
    for _ in 0..100_000 {
        process.meter.accepted(0);
        process.tick(1.0);
    }
    let accepted = |intervals: &[Interval]| {
        let sum: u64 = intervals.iter().map(|one| one.totals.accepted).sum();
        sum
    };
    for (seconds, points, step) in [
        (600.0, 600, 1.0),
        (600.0, 300, 2.0),
        (7_200.0, 300, 30.0),
        (86_400.0, 1_440, 60.0),
        (86_400.0, 288, 300.0),
    ] {
        let (length, intervals) = process.history.columns(seconds, points);
        assert_eq!(length, step, "{seconds} in {points}");
        let sum = accepted(&intervals) as f64;
        assert!(sum <= seconds + 2.0 * step, "{seconds} in {points}: {sum}");
        assert!(sum >= seconds - step, "{seconds} in {points}: {sum}");
        assert!(intervals.len() <= points + 2);
        let gapless = intervals
            .windows(2)
            .all(|pair| (pair[1].at - pair[1].seconds - pair[0].at).abs() < 1e-6);
        assert!(gapless, "{seconds} in {points}");
        assert_eq!(intervals.last().unwrap().at, process.at);
    }
}

#[test]
fn growth_is_told_from_noise() {
    let mut process = Process::new(&["a"]);
    for second in 0..300 {
        process.kernel_seconds += 0.5 + f64::from(second % 7) / 50.0;
        process.tick(1.0);
    }
    assert_eq!(process.history.growth(300.0), 0.0, "noise alone");
    for second in 0..300 {
        process.kernel_seconds += 0.5 + 0.001 * f64::from(second) + f64::from(second % 7) / 50.0;
        process.tick(1.0);
    }
    let growth = process.history.growth(290.0);
    assert!((growth - 0.001).abs() < 0.000_1, "{growth}");
}

#[test]
fn a_process_that_has_just_started_does_not_grow() {
    let mut process = Process::new(&["a"]);
    for second in 0..120 {
        process.kernel_seconds += f64::from(second) / 100.0;
        process.tick(1.0);
    }
    assert_eq!(process.history.growth(300.0), 0.0);
    assert!(process.history.growth(110.0) > 0.009);
}

#[test]
fn a_clock_that_is_set_back_makes_no_false_rates() {
    let mut process = Process::new(&["a"]);
    for _ in 0..100 {
        process.meter.accepted(0);
        process.tick(1.0);
    }
    process.tick(-5.0);
    assert_eq!(
        process.history.over(60.0).totals.accepted,
        60,
        "passed over"
    );
    process.at += 4.0;
    process.tick(2.0);
    process.tick(-3_600.0);
    assert_eq!(process.history.over(60.0).seconds, 0.0, "begun anew");
    process.meter.accepted(0);
    process.tick(1.0);
    assert_eq!(process.history.over(60.0).totals.accepted, 1);
    assert_eq!(process.history.totals().accepted, 101, "nothing was lost");
}

#[test]
fn a_mark_that_two_tell_of_is_one() {
    let mut process = Process::new(&["a"]);
    process.history.mark(process.at, "start", "one".into());
    process.tick(1.0);
    process.tick(600.0);
    process
        .history
        .alarm(process.at, "hit_rate_low", "few".into());
    process
        .history
        .alarm(process.at + 60.0, "hit_rate_low", "few".into());
    let kinds: Vec<_> = process.history.marks(1e6).map(|mark| mark.kind).collect();
    assert_eq!(kinds, ["start", "alarm", "alarm"]);
    assert_eq!(process.history.alarm_changes(), [("hit_rate_low", 2)]);
}

#[test]
fn before_the_first_moment_there_is_nothing() {
    let history = History::new();
    assert_eq!(history.over(60.0), Interval::default());
    assert_eq!(history.columns(600.0, 300).1, []);
    assert_eq!(history.growth(300.0), 0.0);
    assert_eq!(history.over(60.0).worker_imbalance(), None);
}

proptest! {
    #[test]
    fn intervals_that_tile_the_past_add_up(
        seconds in prop::collection::vec((0_u8..5, 0_u64..1_000_000, 0.2_f64..3.0), 3..400),
        points in 1_usize..500,
    ) {
        let mut process = Process::new(&["a", "b"]);
        process.tick(1.0);
        let base = process.history.totals();
        for (count, nanos, length) in seconds {
            for index in 0..count {
                let facts = if index % 2 == 0 { full() } else { resumed() };
                process.meter.handshake(usize::from(index), 0, &facts, nanos, COST);
                process.meter.records(facts.suite, RecordDirection::Sealed, 1, nanos, CpuTime(nanos));
            }
            process.meter.busy(CpuTime(nanos * 7));
            process.kernel_seconds += nanos as f64 / 1e9;
            process.tick(length);
        }
        let whole = process.history.totals().since(&base);
        let (_, tiles) = process.history.columns(1_200.0, points);
        let sum = |of: fn(&Interval) -> u64| tiles.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|one| one.totals.full()), whole.full());
        prop_assert_eq!(sum(|one| one.totals.resumed()), whole.resumed());
        prop_assert_eq!(sum(|one| one.totals.cpu.busy_nanos), whole.cpu.busy_nanos);
        prop_assert_eq!(sum(|one| one.totals.sealed().bytes), whole.sealed().bytes);
        prop_assert_eq!(sum(|one| one.totals.worker_nanos), whole.worker_nanos);
        prop_assert_eq!(sum(|one| one.totals.suites().map(|(_, count)| count).sum()), whole.completed());
        let older = process.history.between(60.0, 30.0);
        let newer = process.history.between(30.0, 0.0);
        let both = process.history.over(60.0);
        prop_assert_eq!(older.totals.full() + newer.totals.full(), both.totals.full());
        let named = |interval: &Interval| interval.handshakes.iter().map(|part| part.count).sum::<u64>();
        prop_assert_eq!(named(&older) + named(&newer), named(&both));
        prop_assert_eq!(named(&both), both.totals.completed());
    }
}
