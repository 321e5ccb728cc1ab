//! `tollgate export`: files that the tools they are for accept, about metrics that a server writes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, Offer, http_backend};

use crate::server::{Metrics, Place, Server, get};
use crate::tools::{eventually, find, run};

/// The thresholds of the tests: every alarm on.
const ALARMS: &str = "alarms: { fresh_per_second_per_core_above: 900, hold: 45s }\n";

/// Runs `export` with these words in a folder with a `tls.yaml`.
fn exported(place: &Place, arguments: &[&str]) -> String {
    let mut all = vec!["export"];
    all.extend(arguments);
    let ran = place.tollgate(&all);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.err.is_empty(), "{}", ran.all());
    ran.out
}

fn place() -> Place {
    let place = Place::new();
    let config = place.config("http", &["127.0.0.1:1"]);
    place.write_config(&format!("{config}{ALARMS}"));
    place
}

/// Every query of the dashboard, its marks among them.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let marks = dashboard["annotations"]["list"].as_array().unwrap().clone();
    targets
        .chain(marks)
        .filter_map(|one| one["expr"].as_str().map(str::to_owned))
        .collect()
}

/// Queries as `promtool` reads them: what Grafana fills in is filled in.
fn filled(query: &str) -> String {
    query
        .replace("$__rate_interval", "5m")
        .replace("$instance", ".*")
}

fn promtool(place: &Place, arguments: &[&str]) -> Option<crate::tools::Ran> {
    let Some(program) = find("promtool") else {
        eprintln!("skipped: promtool is not installed (Debian: prometheus)");
        return None;
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place.folder.path());
    Some(run(&mut command, b""))
}

#[test]
fn promtool_accepts_the_rules() {
    let place = place();
    place.folder.write(
        "rules.yaml",
        exported(&place, &["prometheus-rules", "tls.yaml"]),
    );
    let Some(ran) = promtool(&place, &["check", "rules", "rules.yaml"]) else {
        return;
    };
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("10 rules found"), "{}", ran.all());
}

/// What fires one alert each, by its name: series from the second minute on, and values per half minute.
const FIRING: [(&str, &[(&str, &str)]); 10] = [
    (
        "TollgateHitRateLow",
        &[
            ("tollgate_hit_ratio", "0.4+0x40"),
            ("tollgate_handshakes_total{kind=\"full\"}", "0+60x40"),
        ],
    ),
    (
        "TollgateFreshRateHigh",
        &[
            ("tollgate_handshakes_total{kind=\"full\"}", "0+180000x40"),
            ("tollgate_cores", "32+0x40"),
        ],
    ),
    (
        "TollgateFreshRatePerCoreHigh",
        &[
            ("tollgate_handshakes_total{kind=\"full\"}", "0+30000x40"),
            ("tollgate_cores", "1+0x40"),
        ],
    ),
    (
        "TollgateTlsCpuHigh",
        &[
            (
                "tollgate_cpu_seconds_total{phase=\"asymmetric\"}",
                "0+20x40",
            ),
            ("tollgate_cores", "2+0x40"),
        ],
    ),
    (
        "TollgateColdCacheOverCapacity",
        &[
            ("tollgate_cores_at_zero_hits", "2.1+0x40"),
            ("tollgate_cores", "2+0x40"),
        ],
    ),
    (
        "TollgateRequestsPerHandshakeFallen",
        &[
            ("tollgate_requests_per_handshake", "50+0x9 1.25+0x30"),
            ("tollgate_handshakes_total{kind=\"resumed\"}", "0+60x40"),
        ],
    ),
    (
        "TollgateCertificateExpiring",
        &[(
            "tollgate_certificate_expiry_timestamp_seconds{site=\"shop.test\",certificate=\"rsa-2048\"}",
            "900000+0x40",
        )],
    ),
    (
        "TollgateCertificateDearer",
        &[(
            "tollgate_alarm{alarm=\"certificate_dearer\",subject=\"shop.test\"}",
            "1+0x40",
        )],
    ),
    (
        "TollgateUnknownTicketKeys",
        &[
            (
                "tollgate_resumption_misses_total{reason=\"unknown_key\",site=\"shop.test\"}",
                "0+6x40",
            ),
            ("tollgate_handshakes_total{kind=\"full\"}", "0+60x40"),
        ],
    ),
    (
        "TollgateWorkerImbalance",
        &[
            ("tollgate_worker_accepted_total{worker=\"0\"}", "0+3000x40"),
            ("tollgate_worker_accepted_total{worker=\"1\"}", "0+1000x40"),
        ],
    ),
];

/// The same for a server at ease: nothing of it fires.
const AT_EASE: [(&str, &str); 14] = [
    ("tollgate_hit_ratio", "0.9+0x40"),
    ("tollgate_handshakes_total{kind=\"full\"}", "0+300x40"),
    ("tollgate_handshakes_total{kind=\"resumed\"}", "0+2700x40"),
    ("tollgate_cores", "2+0x40"),
    ("tollgate_cpu_seconds_total{phase=\"asymmetric\"}", "0+3x40"),
    ("tollgate_cpu_seconds_total{phase=\"not_tls\"}", "0+40x40"),
    ("tollgate_cores_at_zero_hits", "1.5+0x40"),
    ("tollgate_requests_per_handshake", "50+0x9 20+0x30"),
    (
        "tollgate_certificate_expiry_timestamp_seconds{site=\"shop.test\",certificate=\"rsa-2048\"}",
        "9000000+0x40",
    ),
    (
        "tollgate_alarm{alarm=\"certificate_dearer\",subject=\"\"}",
        "0+0x40",
    ),
    (
        "tollgate_alarm{alarm=\"hit_rate_low\",subject=\"\"}",
        "1+0x40",
    ),
    (
        "tollgate_resumption_misses_total{reason=\"unknown_key\",site=\"shop.test\"}",
        "0+6x40",
    ),
    ("tollgate_worker_accepted_total{worker=\"0\"}", "0+1600x40"),
    ("tollgate_worker_accepted_total{worker=\"1\"}", "0+1400x40"),
];

fn series(text: &mut String, series: &[(&str, &str)]) {
    for (name, values) in series {
        let name = match name.split_once('{') {
            Some((name, labels)) => {
                format!("{name}{{instance=\"edge:9180\",job=\"tollgate\",{labels}")
            }
            None => format!("{name}{{instance=\"edge:9180\",job=\"tollgate\"}}"),
        };
        let _ = writeln!(text, "      - {{ series: '{name}', values: '{values}' }}");
    }
}

#[test]
fn each_rule_fires_on_what_it_is_about_and_on_nothing_else() {
    let place = place();
    place.folder.write(
        "rules.yaml",
        exported(&place, &["prometheus-rules", "tls.yaml"]),
    );
    let mut text = "rule_files: [rules.yaml]\nevaluation_interval: 30s\ntests:\n".to_owned();
    for (alert, shown) in FIRING {
        let _ = writeln!(
            text,
            "  - interval: 30s\n    name: {alert}\n    input_series:"
        );
        series(&mut text, shown);
        let _ = writeln!(
            text,
            "    promql_expr_test:\n      - expr: count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})\n        eval_time: 7m\n        exp_samples: [{{ labels: '{{}}', value: 1 }}]"
        );
    }
    let _ = writeln!(
        text,
        "  - interval: 30s\n    name: at ease\n    input_series:"
    );
    series(&mut text, &AT_EASE);
    let _ = writeln!(
        text,
        "    promql_expr_test:\n      - expr: count(ALERTS)\n        eval_time: 7m\n        exp_samples: []"
    );
    place.folder.write("tests.yaml", &text);
    let Some(ran) = promtool(&place, &["test", "rules", "tests.yaml"]) else {
        return;
    };
    assert_eq!(ran.code, Some(0), "{}", ran.all());
}

#[test]
fn promtool_reads_every_query_of_the_dashboard() {
    let place = place();
    let dashboard: Value =
        serde_json::from_str(&exported(&place, &["grafana", "tls.yaml"])).unwrap();
    let mut text = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    let queries = queries(&dashboard);
    assert!(queries.len() > 30, "{}", queries.len());
    for (number, query) in queries.iter().enumerate() {
        let expression = Value::from(filled(query)).to_string();
        let _ = writeln!(
            text,
            "      - {{ record: \"query_{number}\", expr: {expression} }}"
        );
    }
    place.folder.write("queries.yaml", &text);
    let Some(ran) = promtool(&place, &["check", "rules", "queries.yaml"]) else {
        return;
    };
    assert_eq!(ran.code, Some(0), "{}\n{text}", ran.all());
}

/// Every selector in an expression: the metric with the matchers in its braces.
fn selectors(expression: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find("tollgate_") {
        rest = &rest[at..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        let inside = tail
            .strip_prefix('{')
            .and_then(|tail| tail.split_once('}'))
            .map_or("", |(inside, _)| inside);
        let matchers = inside
            .split(',')
            .filter_map(|matcher| matcher.split_once('='))
            .map(|(label, value)| {
                let (label, value) = (label.trim_end_matches('!'), value.trim_matches(['~', '"']));
                (label.to_owned(), value.to_owned())
            })
            .collect();
        found.push((name.to_owned(), matchers));
        rest = tail;
    }
    found
}

/// Drives a server so that it has something to say about everything, and has lost its ticket keys.
fn driven() -> (Server, Vec<tollgate_testkit::Backend>) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let backends = [format!("http://{}", backend.address())];
    let config = place.config("http", &[backends[0].as_str()]);
    let client = tollgate_testkit::Client::new(
        &place.authority,
        &Offer {
            resume: true,
            ..Offer::default()
        },
    );
    let fetch = |server: &Server, client: &tollgate_testkit::Client| {
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/bytes/100")).unwrap();
        connection.resumed()
    };
    let server = Server::start(place, &config);
    fetch(&server, &client);
    assert!(fetch(&server, &client));
    // A server in the place of the first one does not hold its ticket keys.
    let place = stop(server);
    let server = Server::start(place, &config);
    // What happens before the first look counts in no rate.
    assert!(server.wait_metrics(|metrics| !metrics.series("tollgate_alarm").is_empty()));
    assert!(!fetch(&server, &client));
    assert!(fetch(&server, &client));
    let old = server.client(&Offer {
        tls12: true,
        resume: true,
        ..Offer::default()
    });
    fetch(&server, &old);
    assert!(fetch(&server, &old));
    // More than half resume: what half of them would need can be told.
    assert!(fetch(&server, &client));
    let mut plain = TcpStream::connect(server.address()).unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: shop.test\r\n\r\n")
        .unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    (server, vec![backend])
}

/// Ends a server and hands back its place.
fn stop(server: Server) -> Place {
    let place = Place {
        folder: tollgate_testkit::Folder::new(),
        authority: tollgate_testkit::Authority::new("unused"),
        port: 0,
        console: 0,
    };
    let mut server = server;
    server.signal("TERM");
    assert_eq!(
        server.wait_exit(Duration::from_secs(30)),
        Some(0),
        "{}",
        server.stderr()
    );
    std::mem::replace(&mut server.place, place)
}

#[test]
fn every_metric_and_label_that_is_exported_is_in_a_scrape() {
    let (server, _backends) = driven();
    let dashboard = exported(&server.place, &["grafana"]);
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let rules = exported(&server.place, &["prometheus-rules"]);
    let mut asked = BTreeSet::new();
    for expression in queries(&dashboard).iter().chain([&rules]) {
        asked.extend(selectors(expression));
    }
    assert!(asked.len() > 40, "{asked:?}");
    let lacking = |metrics: &Metrics| -> Vec<String> {
        asked
            .iter()
            .filter(|(name, matchers)| {
                !metrics.series(name).iter().any(|series| {
                    matchers
                        .iter()
                        .filter(|(label, _)| !matches!(label.as_str(), "instance" | "job"))
                        .all(|(label, _)| series.labels.iter().any(|(own, _)| own == label))
                })
            })
            .map(|(name, matchers)| format!("{name} {matchers:?}"))
            .collect()
    };
    let mut missing = Vec::new();
    let all = eventually(Duration::from_secs(20), || {
        missing = lacking(&server.metrics());
        missing.is_empty()
    });
    assert!(all, "not in the scrape: {missing:#?}");
}

#[test]
fn a_file_that_cannot_be_read_or_written_is_wrong_input() {
    let place = place();
    place
        .folder
        .write("bad.yaml", "alarms: { hit_rate_below: 70 }\n");
    for (arguments, says) in [
        (&["export", "prometheus-rules", "bad.yaml"][..], "write 70%"),
        (&["export", "grafana", "nowhere.yaml"], "does not exist"),
        (
            &["export", "alertmanager", "--out", "no/where.yaml"],
            "cannot be written",
        ),
        (&["export", "zabbix"], "unrecognized subcommand"),
    ] {
        let ran = place.tollgate(arguments);
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        assert!(ran.err.contains(says), "{}", ran.all());
    }
    let ran = place.tollgate(&["export", "alertmanager", "--out", "routes.yaml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(
        place
            .folder
            .read("routes.yaml")
            .contains("TollgateFreshRateHigh")
    );
}
