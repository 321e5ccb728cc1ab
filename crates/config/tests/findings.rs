//! Every file in `bad/` is answered with the text beside it.
//!
//! `UPDATE_EXPECTED=1 cargo test -p tollgate-config` writes the texts; read them before committing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_config::{Severity, decode, read, render};

/// Where the files under test pretend to be.
const BASE: &str = "/etc/tollgate";

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

/// What a person would see.
fn answer(bytes: &[u8]) -> String {
    let text = match decode(bytes) {
        Ok(text) => text,
        Err(finding) => return render("tls.yaml", "", &[finding], false),
    };
    match read("tls.yaml", text, Path::new(BASE)) {
        Ok(read) => render("tls.yaml", text, &read.warnings, false),
        Err(findings) => render("tls.yaml", text, &findings, false),
    }
}

#[test]
fn every_bad_file_is_answered_as_expected() {
    let files = files("tests/bad");
    assert!(files.len() >= 40, "{} files", files.len());
    let mut differing = Vec::new();
    for path in files {
        let answer = answer(&fs::read(&path).unwrap());
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&expected, &answer).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != answer {
            differing.push(format!("{}\n{answer}", path.display()));
        }
        assert!(!answer.is_empty(), "{} is not bad", path.display());
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn every_finding_has_a_label_and_a_way_out() {
    for path in files("tests/bad") {
        let bytes = fs::read(&path).unwrap();
        let Ok(text) = decode(&bytes) else { continue };
        let findings = match read("tls.yaml", text, Path::new(BASE)) {
            Ok(read) => read.warnings,
            Err(findings) => findings,
        };
        for finding in findings {
            assert!(
                !finding.label.is_empty(),
                "{}: {}",
                path.display(),
                finding.title
            );
        }
    }
}

#[test]
fn the_examples_are_read_without_a_finding() {
    let files = files("../../examples");
    assert!(files.len() >= 6);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        // Everything in it is to be regretted, and that is what it is for.
        let regretted = path.file_name().is_some_and(|name| name == "bad.yaml");
        match read("tls.yaml", &text, Path::new(BASE)) {
            Ok(read) if read.warnings.is_empty() != regretted => {}
            Ok(read) => panic!(
                "{}:\n{}",
                path.display(),
                render("tls.yaml", &text, &read.warnings, false)
            ),
            Err(findings) => panic!(
                "{}:\n{}",
                path.display(),
                render("tls.yaml", &text, &findings, false)
            ),
        }
    }
}

#[test]
fn color_is_added_only_when_asked_for() {
    let text = "sites: []\nlog: { sample: 0 }\n";
    let findings = read("tls.yaml", text, Path::new(BASE)).unwrap_err();
    assert!(!render("tls.yaml", text, &findings, false).contains('\x1b'));
    assert!(render("tls.yaml", text, &findings, true).contains('\x1b'));
    assert!(
        findings
            .iter()
            .any(|finding| finding.severity == Severity::Warning)
    );
}
