//! Whatever the text, reading it ends, does not panic, and says where and why it was refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tollgate_config::{Finding, Severity, decode, read, render};

/// Good files to damage.
const GOOD: [&str; 6] = [
    include_str!("../../../examples/good.yaml"),
    include_str!("../../../examples/demo.yaml"),
    include_str!("../../../examples/tcp.yaml"),
    include_str!("../../../examples/passthrough.yaml"),
    include_str!("../../../examples/mtls.yaml"),
    include_str!("../../../examples/re-encrypt.yaml"),
];

/// Pieces that mean something to YAML or to the reader.
const PIECES: [&str; 32] = [
    "\t",
    "\n",
    "\r\n",
    "- ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "*",
    "&a ",
    "*a",
    "<<: ",
    "#",
    "|",
    ">",
    "!!str ",
    "---\n",
    "...\n",
    "~",
    "null",
    "%",
    "@",
    "\u{feff}",
    "\u{0}",
    "\u{fc}",
    "\u{1f980}",
    "-1",
    "99999999999999999999",
    "1e999s",
];

fn check_findings(text: &str, findings: &[Finding]) {
    for finding in findings {
        if let Some(span) = finding.span {
            assert!(span.start <= span.end && span.end <= text.len(), "{span:?}");
            assert!(
                text.get(span.start..span.end).is_some(),
                "{span:?} splits a character"
            );
        }
        assert!(!finding.title.is_empty() && !finding.title.contains('\0'));
    }
    assert_eq!(
        render("tls.yaml", text, findings, false).is_empty(),
        findings.is_empty()
    );
}

fn check(text: &str) {
    match read("tls.yaml", text, Path::new("/etc/tollgate")) {
        Ok(read) => {
            assert!(
                read.warnings
                    .iter()
                    .all(|finding| finding.severity == Severity::Warning)
            );
            assert!(!read.config.listeners.is_empty() && !read.config.sites.is_empty());
            check_findings(text, &read.warnings);
        }
        Err(findings) => {
            assert!(
                findings
                    .iter()
                    .any(|finding| finding.severity == Severity::Error)
            );
            check_findings(text, &findings);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,400}") {
        check(&text);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(text) = decode(&bytes) {
            check(text);
        }
    }

    #[test]
    fn a_damaged_good_file_is_answered(
        file in 0..GOOD.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..PIECES.len(), 0_usize..12), 1..6),
    ) {
        let mut text: Vec<char> = GOOD[file].chars().collect();
        for (place, piece, removed) in damage {
            let at = place.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, PIECES[piece].chars());
        }
        check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn a_good_file_with_any_value_is_answered(
        file in 0..GOOD.len(),
        place in any::<prop::sample::Index>(),
        value in "[ -~]{0,40}",
    ) {
        let mut lines: Vec<String> = GOOD[file].lines().map(str::to_owned).collect();
        let at = place.index(lines.len());
        if let Some(colon) = lines[at].find(": ") {
            lines[at].truncate(colon + 2);
            write!(lines[at], "{value:?}").unwrap();
        }
        check(&lines.join("\n"));
    }
}

/// Generous on a shared machine; an expansion without bound would take hours.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn large_and_nested_files_end_soon() {
    let started = Instant::now();
    let mut names = String::from("sites:\n  - names:\n");
    let mut fields = String::new();
    let mut sites = String::from("sites:\n");
    for n in 0..20_000 {
        writeln!(names, "      - \"a{}.example\"", n / 2).unwrap();
        writeln!(fields, "field{n}: {n}").unwrap();
        writeln!(sites, "  - nmaes: [a]\n    wrong: 1").unwrap();
    }
    let texts = [
        names,
        fields,
        sites,
        "[".repeat(1 << 20),
        "{a: ".repeat(1 << 18),
        "- ".repeat(1 << 19),
        "\"".repeat(1 << 20),
        "a: &a\n".repeat(1 << 16),
        "x".repeat((1 << 20) + 1),
        "\u{fc}".repeat(1 << 19),
        format!("a: [{}]", "b, ".repeat(1 << 18)),
        format!("[{}]", "[], ".repeat(1 << 17)),
        format!("[{}]", "{a: b}, ".repeat(1 << 16)),
        "? ".repeat(1 << 18),
        "*a ".repeat(1 << 18),
        "!a ".repeat(1 << 18),
        "a: ".repeat(1 << 18),
        "a:\n ".repeat(1 << 18),
    ];
    for text in &texts {
        check(text);
    }
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}
