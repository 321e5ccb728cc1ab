//! What a process says of itself, seen through the door: a made-up process whose every count is known.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod sample;

use std::path::PathBuf;

use sample::{STARTED, sample};
use serde::Serialize;
use serde_json::Value;
use tollgate_console::{Observed, live, past, view};
use tollgate_meter::{History, Snapshot};

/// The answer is the file of this name. `UPDATE_FIXTURES=1` writes the file instead; a person reads the difference.
fn is_the_fixture(name: &str, value: &impl Serialize) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        expected == text,
        "{name} is not what the code gives any more; look at what changed, then run this with UPDATE_FIXTURES=1"
    );
}

#[test]
fn the_samples_answers_are_written_down() {
    let sample = sample();
    is_the_fixture("live.json", &live(&sample.observed()));
    is_the_fixture("history.json", &past(&sample.observed(), 600.0, 120));
}

/// The same, but for the last bit of a number.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-12 * one.abs()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value)| other.get(key).is_some_and(|other| alike(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

#[test]
fn where_all_resume_a_miss_costs_what_full_handshakes_cost_before() {
    let mut sample = sample();
    let before = live(&sample.observed());
    assert!(before.price.saved_cores.unwrap() > 0.0);
    // Ninety quiet seconds, and one second in which clients only resume.
    let mut last = sample.snapshot.clone();
    for _ in 0..90 {
        sample.now += 1.0;
        sample.history.take(sample.now, &last);
    }
    for one in &mut last.handshakes {
        if one.labels.kind == "resumed" {
            one.count += 100;
            one.asymmetric_nanos += 100 * 33_000;
            one.derivation_nanos += 100 * 24_000;
        }
    }
    sample.now += 1.0;
    sample.history.take(sample.now, &last);
    sample.snapshot = last;
    let said = live(&sample.observed());
    assert_eq!(said.minute.hit_rate, Some(1.0));
    assert!(said.price.saved_cores.unwrap() > 0.0, "{:?}", said.price);
    let recalled = |sentence: &String| sentence.contains("since the start");
    assert!(
        said.price.assumptions.iter().any(recalled),
        "{:?}",
        said.price
    );
    let at_zero = past(&sample.observed(), 60.0, 60).cores_at_zero;
    assert!(at_zero.last().unwrap().unwrap() > 0.0);
}

#[test]
fn what_is_written_reads_back() {
    let sample = sample();
    let said = live(&sample.observed());
    let text = serde_json::to_string(&said).unwrap();
    let back: view::Live = serde_json::from_str(&text).unwrap();
    let value = |live: &view::Live| serde_json::to_value(live).unwrap();
    assert!(alike(&value(&back), &value(&said)));
}

#[test]
fn a_process_that_has_just_started_knows_nothing_and_says_so() {
    let (snapshot, history) = (Snapshot::default(), History::new());
    let observed = Observed {
        snapshot: &snapshot,
        history: &history,
        alarms: &[],
        sheet: None,
        now: STARTED,
    };
    let said = live(&observed);
    assert_eq!(said.minute.hit_rate, None);
    assert_eq!(said.dominant, None);
    assert_eq!(said.boxes.len(), 6);
    for phase in &said.boxes {
        assert!(phase.headline.value.is_none(), "{}", phase.name);
        assert!(
            phase.headline.source.contains("ledger is off"),
            "{}",
            phase.name
        );
    }
    assert_eq!(past(&observed, 600.0, 300).at_seconds, [] as [f64; 0]);
    assert!(!serde_json::to_string(&said).unwrap().contains("NaN"));
}
