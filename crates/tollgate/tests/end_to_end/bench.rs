//! `bench`: sheets that are measured, read, compared and drawn.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_cost::{Sheet, Unit};

use crate::server::Place;
use crate::tools::{Ran, run};

fn bench(place: &Place, arguments: &[&str]) -> Ran {
    let mut all = vec!["bench"];
    all.extend(arguments);
    place.tollgate(&all)
}

/// A sheet of one phase in the folder, as `sheet.json`.
fn measured(place: &Place, phase: &str) -> (Sheet, PathBuf) {
    let ran = bench(place, &["--phase", phase, "--quick", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let path = place.folder.path().join("sheet.json");
    std::fs::write(&path, &ran.out).unwrap();
    (Sheet::from_json(&ran.out).unwrap(), path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_phase_as_json_is_a_sheet_and_fits_its_schema() {
    let place = Place::new();
    let (sheet, path) = measured(&place, "1");
    assert_eq!(sheet.phases.len(), 1);
    assert!(sheet.clock_nanoseconds > 0.0 && sheet.steadiness.readings >= 10);
    for id in [
        "sign/rsa-2048",
        "sign/ecdsa-p256",
        "verify/ed25519",
        "key-exchange/x25519/server",
        "key-exchange/x25519mlkem768/client",
    ] {
        let figure = sheet.figure(id).unwrap();
        assert_eq!(figure.unit, Unit::Nanoseconds);
        // Nothing of this takes less than a microsecond on any machine, or as much as a second.
        assert!(
            (1e3..1e9).contains(&figure.measured.median) && figure.measured.n >= 15,
            "{figure:?}"
        );
    }
    let apart = |one: &str, other: &str| {
        let median = |id| sheet.figure(id).unwrap().measured.median;
        assert!(median(one) > 2.0 * median(other), "{one} {other}");
    };
    apart("sign/rsa-4096", "sign/rsa-2048");
    apart("sign/rsa-2048", "sign/ecdsa-p256");
    fits_schema(&place, &path);
}

fn fits_schema(place: &Place, sheet: &Path) {
    let ran = bench(place, &["--schema"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let schema = place.folder.path().join("schema.json");
    std::fs::write(&schema, ran.out).unwrap();
    let program = "import json, sys, jsonschema\n\
                   schema, sheet = (json.load(open(path)) for path in sys.argv[1:3])\n\
                   jsonschema.Draft202012Validator.check_schema(schema)\n\
                   jsonschema.Draft202012Validator(schema).validate(sheet)\n\
                   print('fits')\n";
    let ran = run(
        std::process::Command::new("python3").args(["-c", program, text(&schema), text(sheet)]),
        b"",
    );
    if ran.err.contains("No module named 'jsonschema'") {
        eprintln!("skipped: python3-jsonschema is not installed");
        return;
    }
    assert_eq!(ran.out.trim(), "fits", "{}", ran.all());
}

#[test]
fn a_sheet_beside_itself_shows_no_difference_and_beside_a_better_one_fails() {
    let place = Place::new();
    let (_, path) = measured(&place, "3");
    let same = bench(
        &place,
        &[
            "--sheet",
            text(&path),
            "--compare",
            text(&path),
            "--at-most",
            "1.0",
        ],
    );
    assert_eq!(same.code, Some(0), "{}", same.all());
    assert!(same.out.contains("0 of "), "{}", same.all());

    let mut better: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for figure in better["phases"][0]["figures"].as_array_mut().unwrap() {
        for key in ["low", "median", "high"] {
            figure[key] = json!(figure[key].as_f64().unwrap() / 10.0);
        }
    }
    better["machine"]["cores"] = json!(4_096);
    let old = place.folder.path().join("old.json");
    std::fs::write(&old, better.to_string()).unwrap();
    let arguments = ["--sheet", text(&path), "--compare", text(&old)];
    let shown = bench(&place, &arguments);
    assert_eq!(shown.code, Some(0), "{}", shown.all());
    for word in ["worse", "not the same cores: 4096"] {
        assert!(shown.out.contains(word), "{word}: {}", shown.all());
    }
    let mut strict = arguments.to_vec();
    strict.extend(["--at-most", "1.5"]);
    let failed = bench(&place, &strict);
    assert_eq!(failed.code, Some(1), "{}", failed.all());
    assert!(
        failed.err.contains("record/seal/aes-128-gcm/16384"),
        "{}",
        failed.all()
    );
}

#[test]
fn what_is_no_sheet_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    for (path, words) in [
        (file("broken.json", "{ not"), ["not JSON", "line 1"]),
        (
            file("other.json", "{}"),
            ["sheet_version", "tollgate bench"],
        ),
        (
            file("newer.json", "{\"sheet_version\": 9}"),
            ["sheet_version 9", "only 1"],
        ),
        (
            place.folder.path().join("absent.json"),
            ["absent.json", "No such file"],
        ),
    ] {
        for arguments in [
            vec!["--compare", text(&path)],
            vec!["--sheet", text(&path)],
            vec!["folk", "--sheet", text(&path)],
            vec!["primitives", "--sheet", text(&path)],
        ] {
            let ran = bench(&place, &arguments);
            assert_eq!(ran.code, Some(2), "{}", ran.all());
            for word in words {
                assert!(ran.err.contains(word), "{word}: {}", ran.all());
            }
            assert!(ran.out.is_empty(), "{}", ran.all());
        }
    }
    let ran = bench(&place, &["--phase", "9"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("6 (resumption)"), "{}", ran.all());
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_single_phases_leave_no_files() {
    let place = Place::new();
    let (_, path) = measured(&place, "1");
    let out = place.folder.path().join("out");
    let ran = bench(&place, &["--sheet", text(&path), "--out", text(&out)]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.out.contains("Phase 1: asymmetric"), "{}", ran.all());
    assert!(ran.err.contains("report.html"), "{}", ran.all());
    let written = std::fs::read_to_string(out.join("sheet.json")).unwrap();
    assert_eq!(
        Sheet::from_json(&written),
        Sheet::from_json(&std::fs::read_to_string(&path).unwrap())
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in [
        "http://", "https://", "src=\"", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    for part in ["RSA-2048", "<svg", "prefers-color-scheme", "published"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!place.folder.path().join("report.html").exists());
}

#[test]
fn primitives_and_published_figures_are_tables_over_a_sheet() {
    let place = Place::new();
    let (sheet, path) = measured(&place, "1");
    let ran = bench(&place, &["primitives", "--sheet", text(&path), "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let table: Value = serde_json::from_str(&ran.out).unwrap();
    let row = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == "sign/rsa-2048")
        .unwrap();
    let rate = row["per_second"]["median"].as_f64().unwrap();
    let time = sheet.figure("sign/rsa-2048").unwrap().measured.median;
    assert!((rate * time / 1e9 - 1.0).abs() < 1e-6);

    let ran = bench(&place, &["folk", "--sheet", text(&path)]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let line = ran
        .out
        .lines()
        .find(|line| line.contains("RSA-2048 signature"))
        .unwrap();
    assert!(line.contains("2 to 2.5 ms"), "{line}");
    assert!(ran.out.contains("they are 28"), "{}", ran.all());
}

#[test]
fn a_child_without_aes_instructions_shows_what_they_are_worth() {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if !flags.split_whitespace().any(|flag| flag == "aes") {
        eprintln!("skipped: this CPU has no instructions for AES");
        return;
    }
    let place = Place::new();
    let ran = bench(&place, &["--no-aesni", "--quick", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let sheet = Sheet::from_json(&ran.out).unwrap();
    let ratio = sheet
        .figure("record/no-aes/ratio/seal/aes-128-gcm/16384")
        .unwrap();
    assert_eq!(ratio.unit, Unit::Ratio);
    assert!(ratio.measured.median > 1.5, "{ratio:?}");
}
