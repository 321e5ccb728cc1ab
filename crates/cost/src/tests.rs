//! The room through its door.

#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    Change, Figure, Machine, Measured, PHASES, PhaseTable, Reference, Sheet, SheetError,
    Steadiness, Unit, compare,
};

fn figure(id: &str, unit: Unit, median: f64, half: f64) -> Figure {
    Figure {
        id: id.into(),
        label: id.replace('/', ", "),
        unit,
        measured: Measured {
            n: 25,
            median,
            low: median - half,
            high: median + half,
        },
        how: "made up for a test".into(),
        reference: None,
        yardstick_nanoseconds: None,
    }
}

fn sheet(figures: Vec<Figure>) -> Sheet {
    Sheet {
        sheet_version: 1,
        made: "2026-01-02T03:04:05Z".into(),
        tollgate: "0.1.0".into(),
        provider: "none".into(),
        machine: Machine {
            cpu: "a CPU".into(),
            cpu_flags: vec!["aes".into()],
            cores: 2,
            memory_bytes: 1 << 33,
            kernel: "6.1".into(),
            architecture: "x86_64".into(),
        },
        clock_nanoseconds: 90.0,
        steadiness: Steadiness::of(&[100.0]).unwrap(),
        phases: vec![PhaseTable {
            phase: 1,
            name: PHASES[0].into(),
            seconds: 1.5,
            figures,
        }],
    }
}

fn full() -> Sheet {
    let mut sheet = sheet(
        Unit::ALL
            .iter()
            .map(|unit| figure(unit.name(), *unit, 10.0, 1.0))
            .collect(),
    );
    sheet.phases[0].figures[0].reference = Some(Reference {
        low: 1.0,
        high: 2.0,
        source: "a book".into(),
        remark: Some("an old one".into()),
    });
    sheet
}

fn text(sheet: &Sheet) -> String {
    serde_json::to_string(sheet).unwrap()
}

fn changed(change: impl Fn(&mut Value)) -> SheetError {
    let mut value = serde_json::to_value(full()).unwrap();
    change(&mut value);
    Sheet::from_json(&value.to_string()).unwrap_err()
}

#[test]
fn a_sheet_comes_back_as_it_was_written() {
    assert_eq!(Sheet::from_json(&text(&full())).unwrap(), full());
}

#[test]
fn a_wrong_sheet_is_refused_with_the_place_and_what_is_allowed() {
    let says = |error: &SheetError, words: &[&str]| {
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{word:?} is missing in: {text}");
        }
    };
    let broken = Sheet::from_json("{\n  \"sheet_version\": 1,\n  ?").unwrap_err();
    says(&broken, &["not JSON", "line 3", "tollgate bench"]);
    says(
        &Sheet::from_json("[]").unwrap_err(),
        &["sheet_version", "missing"],
    );
    says(
        &changed(|value| value["sheet_version"] = json!(2)),
        &["sheet_version 2", "only 1", "measure again"],
    );
    says(
        &changed(|value| value["phases"][0]["figures"][1]["unit"] = json!("minutes")),
        &["nanoseconds_per_byte", "\"minutes\"", "per_second"],
    );
    says(
        &changed(|value| value["phases"][0]["figures"][1]["id"] = json!("nanoseconds")),
        &["nanoseconds is there twice"],
    );
    says(
        &changed(|value| value["phases"][0]["figures"][2]["median"] = json!("many")),
        &["phase 1, figure bytes", "--schema"],
    );
    says(
        &changed(|value| value["phases"][0]["figures"][2]["low"] = json!(11)),
        &["figure bytes", "low 11", "median 10"],
    );
    says(
        &changed(|value| value["phases"][0]["phase"] = json!(7)),
        &["phase 7", "no such phase", "1 to 6"],
    );
    says(
        &changed(|value| value["phases"][0]["phase"] = json!(2)),
        &["phase 2 (asymmetric)", "another name"],
    );
    says(
        &changed(|value| value["phase"] = json!(2)),
        &["unknown field `phase`", "machine"],
    );
}

#[test]
fn a_sheet_set_beside_itself_shows_no_difference() {
    let comparison = compare(&full(), &full());
    assert!(comparison.differences.is_empty());
    assert!(comparison.only_old.is_empty() && comparison.only_new.is_empty());
    assert_eq!(comparison.figures.len(), Unit::ALL.len());
    for figure in &comparison.figures {
        assert_eq!(figure.change, Change::NotToldApart, "{}", figure.id);
    }
}

#[test]
fn a_change_is_judged_by_its_unit() {
    let old = sheet(vec![
        figure("time", Unit::Nanoseconds, 10.0, 1.0),
        figure("rate", Unit::PerSecond, 10.0, 1.0),
        figure("ratio", Unit::Ratio, 10.0, 1.0),
        figure("gone", Unit::Count, 10.0, 1.0),
    ]);
    let mut new = sheet(vec![
        figure("time", Unit::Nanoseconds, 20.0, 1.0),
        figure("rate", Unit::PerSecond, 20.0, 1.0),
        figure("ratio", Unit::Ratio, 20.0, 1.0),
        figure("fresh", Unit::Count, 10.0, 1.0),
    ]);
    new.machine.cores = 4;
    let comparison = compare(&old, &new);
    let changes: Vec<Change> = comparison.figures.iter().map(|row| row.change).collect();
    assert_eq!(changes, [Change::Worse, Change::Better, Change::Different]);
    assert_eq!(comparison.only_old, ["gone"]);
    assert_eq!(comparison.only_new, ["fresh"]);
    assert_eq!(comparison.differences.len(), 1);
    assert_eq!(comparison.differences[0].what, "cores");
    let worse: Vec<&str> = comparison
        .worse_than(1.5)
        .map(|row| row.id.as_str())
        .collect();
    assert_eq!(worse, ["time"]);
    assert_eq!(comparison.worse_than(2.5).count(), 0);
}

#[test]
fn figures_that_were_measured_with_something_else_are_not_compared() {
    let old = sheet(vec![figure("look-up", Unit::Nanoseconds, 10.0, 1.0)]);
    let mut new = old.clone();
    new.phases[0].figures[0].label = "look-up among a million".into();
    let comparison = compare(&old, &new);
    assert!(comparison.figures.is_empty());
    assert_eq!(comparison.only_old, ["look-up"]);
    assert_eq!(comparison.only_new, ["look-up"]);
}

#[test]
fn a_machine_that_drifted_tells_fewer_times_apart_but_as_many_sizes() {
    let figures = |median| {
        vec![
            figure("time", Unit::Nanoseconds, median, 0.1),
            figure("size", Unit::Bytes, median, 0.1),
        ]
    };
    let old = sheet(figures(10.0));
    let mut new = sheet(figures(10.5));
    let before = compare(&old, &new);
    assert_eq!(before.figures[0].change, Change::Worse);
    new.steadiness = Steadiness::of(&[90.0, 100.0, 110.0]).unwrap();
    let after = compare(&old, &new);
    assert_eq!(after.figures[0].change, Change::NotToldApart);
    assert_eq!(after.figures[1].change, Change::Worse);
}

#[test]
fn a_figure_that_was_not_disturbed_is_told_apart_in_a_sheet_that_was() {
    let disturbed = |reading: f64| {
        let mut calm = figure("calm", Unit::Nanoseconds, 10.0, 0.1);
        calm.yardstick_nanoseconds = Some([100.0, 100.5]);
        let mut rough = figure("rough", Unit::Nanoseconds, 10.0, 0.1);
        rough.yardstick_nanoseconds = Some([100.0, reading]);
        let old = figure("old", Unit::Nanoseconds, 10.0, 0.1);
        let mut size = figure("size", Unit::Bytes, 10.0, 0.1);
        size.yardstick_nanoseconds = Some([100.0, reading]);
        let mut sheet = sheet(vec![calm, rough, old, size]);
        sheet.steadiness = Steadiness::of(&[90.0, 100.0, 110.0]).unwrap();
        let drifts: Vec<f64> = sheet
            .figures()
            .map(|figure| (1e3 * sheet.drift_of(figure)).round())
            .collect();
        drifts
    };
    assert_eq!(disturbed(150.0), [5.0, 500.0, 100.0, 0.0]);
    assert_eq!(disturbed(80.0), [5.0, 200.0, 100.0, 0.0]);
}

#[test]
fn every_field_of_a_sheet_is_in_the_schema_and_described() {
    let schema: Value = serde_json::from_str(Sheet::SCHEMA).unwrap();
    check(
        &schema,
        &schema,
        &serde_json::to_value(full()).unwrap(),
        "sheet",
    );
    described(&schema);
    let units = &schema["$defs"]["figure"]["properties"]["unit"]["enum"];
    assert_eq!(*units, json!(Unit::ALL));
    assert_eq!(*units, json!(Unit::ALL.map(Unit::name)));
    assert_eq!(
        schema["$defs"]["table"]["properties"]["name"]["enum"],
        json!(PHASES)
    );
}

/// As much of JSON Schema as the sheet's needs; a full validator looks at a real sheet end to end.
fn check(root: &Value, schema: &Value, value: &Value, place: &str) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    if let Some(only) = schema.get("const") {
        assert_eq!(value, only, "{place}");
    } else if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{place}: {value}");
    } else if schema["type"] == "object" {
        let object = value.as_object().unwrap();
        assert_eq!(schema["additionalProperties"], json!(false), "{place}");
        for (key, inner) in object {
            let property = &schema["properties"][key];
            assert!(property.is_object(), "{place}.{key} is not in the schema");
            check(root, property, inner, &format!("{place}.{key}"));
        }
        for key in schema["required"].as_array().unwrap() {
            assert!(object.contains_key(key.as_str().unwrap()), "{place}: {key}");
        }
    } else if schema["type"] == "array" {
        for inner in value.as_array().unwrap() {
            check(root, &schema["items"], inner, &format!("{place}[]"));
        }
    } else {
        let fits = match schema["type"].as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            _ => false,
        };
        assert!(fits, "{place}: {value}");
    }
}

fn described(schema: &Value) {
    let Some(object) = schema.as_object() else {
        return;
    };
    for (key, inner) in object {
        if key == "properties" || key == "$defs" {
            for (name, property) in inner.as_object().unwrap() {
                let named = property.get("$ref").is_some() || property["description"].is_string();
                assert!(named, "{name} has no description");
                described(property);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = Sheet::from_json(&text);
    }

    #[test]
    fn no_number_in_a_figure_makes_reader_or_comparison_panic(median in any::<f64>(), half in any::<f64>()) {
        let mut made = full();
        made.phases[0].figures[0].measured = Measured { n: 3, median, low: median - half, high: median + half };
        if let Ok(read) = Sheet::from_json(&text(&made)) {
            compare(&full(), &read);
            compare(&read, &full());
        }
    }
}
