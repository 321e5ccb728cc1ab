//! Views, seen through the door: what is written is read back and compared with the snapshot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_console::{MetricKind, Observed, definitions, json, routes};
use tollgate_meter::{
    BackendFact, CertificateFact, Direction, History, Meter, MeterNames, RecordDirection, Snapshot,
};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, Culprit, HandshakeCost, HandshakeFacts, HandshakeKind,
    NamedGroup, ResumptionMiss, TlsVersion, UnixTime,
};

/// A site whose name needs every escape.
const ODD: &str = "odd\"\\\nname";

fn snapshot() -> Snapshot {
    let mut meter = Meter::new(MeterNames {
        sites: vec!["shop.example".into(), ODD.into()],
        listeners: vec!["0.0.0.0:443".into()],
        backends: vec![vec!["10.0.0.5:80".into()]],
        worker: 0,
    });
    let facts = HandshakeFacts {
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        group: Some(NamedGroup::X25519),
        kind: HandshakeKind::Full,
        miss: Some(ResumptionMiss::Expired),
        certificate: Some(CertificateKind::Rsa(2_048)),
        signature: None,
        server_name: None,
        alpn: None,
        client: None,
        ticket_age: None,
        early_data_offered: false,
    };
    meter.accepted(0);
    meter.opened(0, "http");
    meter.refused(0, "too_many");
    let cost = HandshakeCost {
        asymmetric: CpuTime(250_000_000),
        derivation: CpuTime(125_000_000),
    };
    meter.handshake(0, 0, &facts, 900, cost);
    meter.handshake(1, 0, &facts, 75, cost);
    meter.records(
        facts.suite,
        RecordDirection::Sealed,
        2,
        20_000,
        CpuTime(500_000_000),
    );
    meter.busy(CpuTime(1_500_000_000));
    meter.held("http", 4_096);
    meter.closed_after("http", Duration::from_millis(1_500), 7);
    meter.look_up(CpuTime(2_000));
    meter.ticket(142);
    meter.unknown_key([1; 16]);
    meter.early_data_refused();
    meter.handshake_failed(0, "no_common_suite", Culprit::Client);
    meter.request(0, "HTTP/2", 200, 1_500);
    meter.request(0, "HTTP/2", 0, 90_000_000);
    meter.bytes(0, "http", Direction::ClientOut, 1 << 60);
    meter.backend_failure(0, 0, "connect_refused");
    meter.retry(0);
    let mut snapshot = meter.snapshot();
    snapshot.process.version = "0.1.0".into();
    snapshot.process.config_hash = "abc".into();
    snapshot.process.reloads_succeeded = 3;
    snapshot.process.ledger = true;
    snapshot.process.cores = 4.0;
    snapshot.process.session_bytes = Some(1_024);
    snapshot.process.worker_cpu_seconds = vec![(0, 1.25)];
    snapshot.process.backends = vec![BackendFact {
        site: "shop.example".into(),
        backend: "10.0.0.5:80".into(),
        up: true,
    }];
    snapshot.process.certificates = vec![CertificateFact {
        site: "shop.example".into(),
        certificate: "rsa-2048".into(),
        expires: UnixTime(1_800_000_000),
    }];
    snapshot
}

fn observed(snapshot: &Snapshot, write: impl Fn(&Observed<'_>) -> String) -> String {
    let mut history = History::new();
    history.take(1_000.0, &Snapshot::default());
    history.take(1_060.0, snapshot);
    history.alarm(1_060.0, "hit_rate_low", "few resume".into());
    write(&Observed {
        snapshot,
        history: &history,
        alarms: &[],
        sheet: None,
        now: 1_060.0,
    })
}

fn prometheus(snapshot: &Snapshot) -> String {
    observed(snapshot, tollgate_console::prometheus)
}

fn open_metrics(snapshot: &Snapshot) -> String {
    observed(snapshot, tollgate_console::open_metrics)
}

/// What a scraper makes of the text.
#[derive(Debug, Default)]
struct Scrape {
    /// Kind by family, in order of appearance and without doubles.
    kinds: BTreeMap<String, String>,
    helps: BTreeSet<String>,
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", family, help] => {
                    assert!(help.ends_with('.'), "{line}");
                    assert!(scrape.helps.insert(family.into()), "twice: {line}");
                }
                ["#", "TYPE", family, kind] => {
                    let before = scrape.kinds.insert(family.into(), kind.into());
                    assert_eq!(before, None, "twice: {line}");
                }
                ["#", "UNIT", family, unit] => assert!(family.ends_with(unit), "{line}"),
                ["#", "EOF"] => {}
                _ => scrape.sample(line),
            }
        }
        scrape
    }

    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, labels)) => (name, read_labels(labels)),
        };
        let before = self
            .samples
            .insert((name.into(), labels), value.parse().unwrap());
        assert_eq!(before, None, "a series appears twice: {line}");
    }
}

/// Reads `a="b",c="d"}` with escapes undone.
fn read_labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &after[end + 1..];
    }
    assert_eq!(rest, "}");
    labels
}

#[test]
fn what_a_scraper_reads_is_what_the_snapshot_holds() {
    let expected = Scrape::read(include_str!("expected.txt")).samples;
    for text in [prometheus(&snapshot()), open_metrics(&snapshot())] {
        let found = Scrape::read(&text).samples;
        for (series, value) in &expected {
            assert_eq!(found.get(series), Some(value), "{series:?}");
        }
    }
}

#[test]
fn every_family_has_a_help_a_kind_and_a_conventional_name() {
    let scrape = Scrape::read(&prometheus(&snapshot()));
    let kinds: BTreeSet<String> = scrape.kinds.keys().cloned().collect();
    assert_eq!(scrape.helps, kinds);
    for (family, kind) in &scrape.kinds {
        assert!(family.starts_with("tollgate_"), "{family}");
        assert_eq!(family.ends_with("_total"), kind == "counter", "{family}");
    }
    let table: BTreeSet<String> = definitions()
        .iter()
        .map(|one| one.name.to_owned())
        .collect();
    assert_eq!(table.len(), definitions().len(), "a name is there twice");
    assert_eq!(table, kinds, "what is written is the table");
    for (name, _) in scrape.samples.keys() {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|ending| name.strip_suffix(ending))
            .filter(|base| scrape.kinds.contains_key(*base))
            .unwrap_or(name);
        assert!(scrape.kinds.contains_key(base), "{name} has no family");
    }
}

#[test]
fn every_sample_has_the_labels_of_its_definition() {
    let scrape = Scrape::read(&prometheus(&snapshot()));
    for (name, labels) in scrape.samples.keys() {
        let definition = definitions()
            .iter()
            .find(|one| one.samples().contains(name))
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        let mut expected: BTreeSet<&str> = definition.labels.iter().copied().collect();
        if name.ends_with("_bucket") {
            expected.insert("le");
        }
        let found: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
        assert_eq!(found, expected, "{name}");
        let is_info = definition.kind == MetricKind::Info;
        assert_eq!(is_info, name.ends_with("_info"), "{name}");
    }
}

#[test]
fn where_the_ledger_is_off_its_times_are_absent() {
    let mut off = snapshot();
    off.process.ledger = false;
    let (on, off) = (prometheus(&snapshot()), prometheus(&off));
    for name in [
        "tollgate_cpu_seconds_total{",
        "tollgate_handshake_cpu_seconds_total{",
        "tollgate_record_cpu_seconds_total{",
        "tollgate_worker_phase_cpu_seconds_total{",
        "tollgate_connection_memory_bytes{",
        "tollgate_ledger_agreement_ratio ",
    ] {
        let has = |text: &str| text.lines().any(|line| line.starts_with(name));
        assert!(has(&on), "{name}");
        assert!(!has(&off), "{name}");
    }
}

#[test]
fn names_of_keys_that_clients_make_up_are_one_series() {
    let mut meter = Meter::new(MeterNames::default());
    for number in 0..10_000_u128 {
        meter.unknown_key(number.to_be_bytes());
        meter.unknown_key([0xab; 16]);
    }
    let text = prometheus(&meter.snapshot());
    let scrape = Scrape::read(&text);
    let found: BTreeMap<&str, f64> = scrape
        .samples
        .iter()
        .filter(|((name, _), _)| name == "tollgate_unknown_ticket_keys_total")
        .map(|((_, labels), value)| (labels["key"].as_str(), *value))
        .collect();
    let key = "ab".repeat(16);
    let expected = BTreeMap::from([(key.as_str(), 9_993.0), ("other", 10_007.0)]);
    assert_eq!(found, expected);
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        eprintln!("promtool is not installed (Debian package prometheus): not asked");
        return;
    };
    let text = prometheus(&snapshot());
    let mut stdin = promtool.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let done = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.is_empty(), "{said}");
}

#[test]
fn open_metrics_names_families_without_the_ending_of_their_samples() {
    let text = open_metrics(&snapshot());
    let scrape = Scrape::read(&text);
    assert_eq!(scrape.kinds["tollgate_handshakes"], "counter");
    assert_eq!(scrape.kinds["tollgate_config"], "info");
    assert_eq!(scrape.kinds["tollgate_connections"], "gauge");
    assert_eq!(scrape.kinds["tollgate_connections_total"], "unknown");
    assert!(text.contains("# UNIT tollgate_handshake_seconds seconds\n"));
    assert!(text.contains("# UNIT tollgate_cpu_seconds seconds\n"));
    assert!(text.contains("# UNIT tollgate_record_bytes bytes\n"));
    assert!(text.ends_with("\n# EOF\n"));
    assert!(!prometheus(&snapshot()).contains("# EOF"));
}

#[test]
fn json_holds_the_same_numbers() {
    let value: serde_json::Value = serde_json::from_str(&json(&snapshot())).unwrap();
    assert_eq!(value["handshakes"][1]["site"], "shop.example");
    assert_eq!(value["handshakes"][1]["count"], 1);
    assert_eq!(value["connections"][0]["open"], 1);
    assert_eq!(value["worker_imbalance"], 1.0);
    assert_eq!(value["bucket_bounds_micros"][0], 50);
    assert_eq!(value["handshake_times"][0]["histogram"]["sum_micros"], 975);
    assert_eq!(
        value["process"]["certificates"][0]["expires_seconds"],
        1_800_000_000_u64
    );
}

#[test]
fn each_path_is_answered_in_its_content_type() {
    let snapshot = snapshot();
    for (path, accept, status, content_type) in [
        ("/", "text/html", 404, "text/plain; charset=utf-8"),
        (
            "/metrics",
            "",
            200,
            "text/plain; version=0.0.4; charset=utf-8",
        ),
        (
            "/metrics?x=1",
            "*/*",
            200,
            "text/plain; version=0.0.4; charset=utf-8",
        ),
        (
            "/metrics",
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        ("/snapshot.json", "", 200, "application/json"),
        ("/healthz", "", 200, "text/plain; charset=utf-8"),
        ("/metrics/", "", 404, "text/plain; charset=utf-8"),
        ("", "", 404, "text/plain; charset=utf-8"),
    ] {
        let history = History::new();
        let observed = Observed {
            snapshot: &snapshot,
            history: &history,
            alarms: &[],
            sheet: None,
            now: 0.0,
        };
        let answer = routes(path, accept, &observed);
        assert_eq!(
            (answer.status, answer.content_type),
            (status, content_type),
            "{path}"
        );
        assert!(!answer.body.is_empty());
    }
}

#[test]
fn an_empty_snapshot_is_answered_too() {
    Scrape::read(&prometheus(&Snapshot::default()));
    Scrape::read(&open_metrics(&Snapshot::default()));
    assert!(json(&Snapshot::default()).contains("\"worker_imbalance\":null"));
}
