//! The page of metrics is made from the table that they are written from.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fmt::Write;
use std::path::PathBuf;

use tollgate_console::{MetricKind, definitions};

const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` on the console's address answers in Prometheus text, or in OpenMetrics for those who accept it
(`Accept: application/openmetrics-text`). `tollgate export grafana` and `tollgate export prometheus-rules` make a
dashboard and alerting rules from the same table.

Labels are bounded, whatever clients send: names from the configuration, registered names, or `other`. CPU time and
memory by phase are written where the ledger is on (`ledger: on`, the default). A gauge that cannot be known yet is
absent rather than zero.

The phases: `asymmetric` is key exchange and signatures, `derivation` the rest of handshakes, `records` opening and
sealing records, `not_tls` all else that the workers do: kernel, HTTP, relaying. Together they are the CPU time of the
workers; `tollgate_ledger_agreement_ratio` says how nearly.

| metric | kind | labels | what it says |
|---|---|---|---|
";

const QUESTIONS: &str = "
## Questions

Cores by phase:

    sum by (phase) (rate(tollgate_cpu_seconds_total[1m]))

CPU microseconds per full handshake, by site and kind of certificate:

    1e6 * sum by (site, certificate) (rate(tollgate_handshake_cpu_seconds_total{kind!=\"resumed\"}[5m]))
        / sum by (site, certificate) (rate(tollgate_handshakes_total{kind!=\"resumed\"}[5m]))

Nanoseconds per byte, by suite and direction:

    1e9 * sum by (suite, direction) (rate(tollgate_record_cpu_seconds_total[5m]))
        / sum by (suite, direction) (rate(tollgate_record_bytes_total[5m]))

Bytes per open HTTP connection:

    sum(tollgate_connection_memory_bytes{mode=\"http\"}) / sum(tollgate_connections{mode=\"http\"})

Something to scale by, rather than CPU: cores that would be left if no handshake resumed:

    tollgate_cores - tollgate_cores_at_zero_hits
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for one in definitions() {
        let kind = match one.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Info => "information",
            MetricKind::Histogram => "histogram",
        };
        let labels: Vec<String> = one
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let labels = labels.join(", ");
        writeln!(
            page,
            "| `{}` | {kind} | {labels} | {} |",
            one.name, one.help
        )
        .unwrap();
    }
    page + QUESTIONS
}

#[test]
fn the_page_of_metrics_is_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page(),
        "docs/metrics.md is not what the table says any more; run this with UPDATE_FIXTURES=1"
    );
}

#[test]
fn every_metric_that_the_questions_name_is_there() {
    let words = QUESTIONS.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let mut seen = 0;
    for word in words.filter(|word| word.starts_with("tollgate_")) {
        assert!(definitions().iter().any(|one| one.name == word), "{word}");
        seen += 1;
    }
    assert_eq!(seen, 9);
}
