//! What is exported names only what the console writes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_meter::alarms::Alarm;

use super::*;

/// Every alarm on.
fn all_on() -> AlarmSettings {
    AlarmSettings {
        fresh_per_second_per_core_above: Some(900.0),
        ..AlarmSettings::default()
    }
}

/// Every expression that is exported.
fn expressions() -> Vec<String> {
    let settings = all_on();
    let rules = Alarm::ALL.into_iter().map(|alarm| {
        alarm
            .definition()
            .promql(settings.threshold(alarm).unwrap())
    });
    let panels = panels::rows(&settings)
        .into_iter()
        .flat_map(|(_, panels)| panels)
        .flat_map(|panel| panel.queries)
        .map(|query| query.expression);
    let marks = panels::ANNOTATIONS.into_iter().map(str::to_owned);
    rules.chain(panels).chain(marks).collect()
}

/// Names of metrics in an expression, each with the labels that its braces hold.
fn metrics(expression: &str) -> Vec<(String, Vec<String>)> {
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
        let labels = inside
            .split(',')
            .filter_map(|matcher| matcher.split(['=', '!']).next())
            .map(|label| label.trim().to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        found.push((name.to_owned(), labels));
        rest = tail;
    }
    found
}

/// Labels after `by` and `group_left`.
fn grouped(expression: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for word in ["by (", "group_left ("] {
        for part in expression.split(word).skip(1) {
            let inside = part.split(')').next().unwrap();
            labels.extend(inside.split(',').map(|label| label.trim().to_owned()));
        }
    }
    labels.remove("");
    labels
}

#[test]
fn every_metric_and_label_is_one_that_the_console_writes() {
    let written = tollgate_console::definitions();
    // What Prometheus adds to all that it scrapes, and to buckets.
    let always = ["instance", "job", "le"];
    let mut names = BTreeSet::new();
    for expression in expressions() {
        let mut known: BTreeSet<&str> = always.into_iter().collect();
        let found = metrics(&expression);
        assert!(!found.is_empty(), "{expression}");
        for (name, labels) in found {
            let definition = written
                .iter()
                .find(|definition| definition.samples().contains(&name))
                .unwrap_or_else(|| panic!("{name} is not written: {expression}"));
            for label in labels {
                let ok =
                    always.contains(&label.as_str()) || definition.labels.contains(&label.as_str());
                assert!(ok, "{name} has no label {label}: {expression}");
            }
            known.extend(definition.labels);
            names.insert(name);
        }
        for label in grouped(&expression) {
            assert!(known.contains(label.as_str()), "{label}: {expression}");
        }
    }
    assert!(names.len() > 25, "{names:?}");
}

#[test]
fn each_alarm_that_is_on_has_a_rule_with_its_threshold_and_hold() {
    let settings = AlarmSettings {
        hit_rate_below: Some(0.55),
        tls_cpu_above: None,
        hold: Duration::from_secs(90),
        ..all_on()
    };
    let text = rules::rules(&settings, Some(Path::new("tls.yaml")));
    assert_eq!(text.matches("- alert: Tollgate").count(), 9);
    assert!(text.contains("tollgate_hit_ratio < 0.55"));
    assert!(text.contains("for: 90s") && text.contains("for: 0s"));
    assert!(!text.contains("TollgateTlsCpuHigh"));
    assert!(text.contains("those of tls.yaml"));
    assert!(
        !text.contains("{threshold}") && !text.contains("{enough}"),
        "{text}"
    );
}

#[test]
fn the_dashboard_has_a_shape_that_can_be_imported() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&grafana::dashboard(&all_on())).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    assert_eq!(dashboard["uid"], "tollgate-ledger");
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let at = &panel["gridPos"];
        let of = |key: &str| at[key].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{panel}");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "{} lies on another", panel["title"]);
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
            assert!(panel["description"].as_str().unwrap().len() > 10, "{panel}");
        }
    }
    let titles: Vec<&str> = panels
        .iter()
        .map(|panel| panel["title"].as_str().unwrap())
        .collect();
    assert_eq!(
        titles[..5],
        [
            "The four to look at first",
            "Full handshakes",
            "Hit rate, and misses by reason",
            "CPU by phase",
            "Cipher suites"
        ]
    );
    let text = dashboard.to_string();
    assert!(
        !text.contains('@') && text.contains("$__rate_interval"),
        "placeholders are filled in"
    );
}

#[test]
fn thresholds_are_drawn_where_the_settings_have_one() {
    let settings = AlarmSettings {
        hit_rate_below: Some(0.6),
        fresh_per_second_above: None,
        ..all_on()
    };
    let dashboard: serde_json::Value =
        serde_json::from_str(&grafana::dashboard(&settings)).unwrap();
    let steps = |panel: usize| {
        dashboard["panels"][panel]["fieldConfig"]["defaults"]["thresholds"]["steps"].clone()
    };
    assert_eq!(steps(2)[1]["value"], 0.6);
    assert_eq!(steps(1).as_array().unwrap().len(), 1);
}

#[test]
fn names_of_alerts_are_those_of_alarms() {
    assert_eq!(rules::alert_name("hit_rate_low"), "TollgateHitRateLow");
    let text = alertmanager::routes();
    for alarm in Alarm::ALL {
        assert!(
            text.contains(&rules::alert_name(alarm.name())),
            "{}",
            alarm.name()
        );
    }
    assert_eq!(text.matches("receiver: tollgate-").count(), 3);
}
