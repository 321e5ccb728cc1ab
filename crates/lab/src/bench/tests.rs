//! Tables and the page over a sheet that is made up.

#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

use tollgate_cost::{Figure, Machine, Measured, PHASES, PhaseTable, Sheet, Steadiness, Unit};

use super::{conclusions, folk, report, text};

fn figure(id: &str, label: &str, unit: Unit, median: f64, half: f64) -> Figure {
    Figure {
        id: id.into(),
        label: label.into(),
        unit,
        measured: Measured {
            n: 25,
            median,
            low: median - half,
            high: median + half,
        },
        how: "made up".into(),
        reference: None,
        yardstick_nanoseconds: None,
    }
}

fn phases() -> Vec<PhaseTable> {
    let time =
        |id: &str, label: &str, median, half| figure(id, label, Unit::Nanoseconds, median, half);
    let handshake = |kind: &str, side: &str, median| {
        time(
            &format!("handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/{kind}/{side}"),
            &format!("handshake, TLS 1.3, ECDSA P-256, X25519, AES-128-GCM, {kind}, {side}"),
            median,
            100.0,
        )
    };
    let table = |phase: u8, figures| PhaseTable {
        phase,
        name: PHASES[usize::from(phase) - 1].into(),
        seconds: 1.0,
        figures,
    };
    let part = time(
        "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/full/server/signature",
        "handshake, TLS 1.3, ECDSA P-256, X25519, AES-128-GCM, full, server: signature",
        16_000.0,
        30.0,
    );
    vec![
        table(
            1,
            vec![
                time("sign/rsa-2048", "sign, RSA-2048", 230_000.0, 500.0),
                time("sign/ecdsa-p256", "sign, ECDSA P-256", 15_000.0, 30.0),
                time(
                    "sign/ed25519",
                    "sign, <Ed25519> & \"so on\"",
                    15_010.0,
                    30.0,
                ),
                time(
                    "verify/ecdsa-p256",
                    "verify, ECDSA P-256",
                    50_000.0,
                    50_000.0,
                ),
            ],
        ),
        table(
            2,
            vec![
                handshake("full", "server", 80_000.0),
                handshake("full", "client", 220_000.0),
                handshake("resumed", "server", 60_000.0),
                handshake("resumed", "client", 60_000.0),
                part,
            ],
        ),
    ]
}

fn sheet() -> Sheet {
    let mut phases = phases();
    for table in &mut phases {
        folk::refer(&mut table.figures);
    }
    Sheet {
        sheet_version: 1,
        made: "2026-01-02T03:04:05Z".into(),
        tollgate: "0.1.0".into(),
        provider: "none".into(),
        machine: Machine {
            cpu: "<script src=\"https://example.com/x.js\">".into(),
            cpu_flags: vec!["aes".into()],
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "6.1".into(),
            architecture: "x86_64".into(),
        },
        clock_nanoseconds: 90.0,
        steadiness: Steadiness::of(&[100.0]).unwrap(),
        phases,
    }
}

#[test]
fn the_page_is_the_same_for_the_same_sheet_and_needs_nothing_from_elsewhere() {
    let page = report::html(&sheet());
    assert_eq!(page, report::html(&sheet()));
    for part in [
        "<script",
        "src=\"",
        "href=\"http",
        "url(",
        "@import",
        "<link",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    // Every link leads to a place on the page.
    for link in page.split("href=\"#").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
    }
}

#[test]
fn text_of_the_sheet_means_itself_on_the_page() {
    let page = report::html(&sheet());
    assert!(page.contains("&lt;script src=&quot;https://example.com/x.js&quot;&gt;"));
    assert!(page.contains("&lt;Ed25519&gt; &amp; &quot;so on&quot;"));
    assert!(!page.contains("<Ed25519>"));
}

#[test]
fn figures_that_cannot_be_told_apart_are_named_and_others_are_not() {
    let text = text::sheet(&sheet());
    let line = text
        .lines()
        .find(|line| line.contains("not told apart here"))
        .unwrap();
    assert!(
        line.contains("sign, ECDSA P-256") && line.contains("Ed25519"),
        "{line}"
    );
    assert!(!line.contains("RSA-2048"), "{line}");
    assert!(text.contains("noisy"), "{text}");
}

#[test]
fn whole_handshakes_are_a_matrix_and_their_parts_a_table() {
    let text = text::sheet(&sheet());
    let row = text
        .lines()
        .find(|line| line.contains("ECDSA P-256, X25519, AES-128-GCM") && line.contains("220.0 µs"))
        .unwrap();
    for value in ["80.00 µs", "60.00 µs"] {
        assert!(row.contains(value), "{row}");
    }
    assert!(text.contains("signature"), "{text}");
}

#[test]
fn a_ratio_is_only_concluded_from_figures_that_are_told_apart() {
    let mut sheet = sheet();
    let found = conclusions::conclusions(&sheet).join("\n");
    assert!(found.contains("RSA-2048 signature costs 15.3"), "{found}");
    sheet.phases[0].figures[0].measured = sheet.phases[0].figures[1].measured;
    let found = conclusions::conclusions(&sheet).join("\n");
    assert!(
        found.contains("sign, RSA-2048 and sign, ECDSA P-256 are not told apart here"),
        "{found}"
    );
}

#[test]
fn published_figures_stand_beside_measured_ones_with_their_source() {
    let rows = folk::beside(&sheet());
    let rsa = rows
        .iter()
        .find(|row| row.what == "RSA-2048 signature")
        .unwrap();
    assert!(rsa.ratio().unwrap() < 0.2);
    let both = rows
        .iter()
        .find(|row| row.what.starts_with("full handshake, both sides, ECDSA"))
        .unwrap();
    assert!((both.measured.unwrap().median - 300_000.0).abs() < 1e-6);
    for row in &rows {
        assert!(!row.source.is_empty());
        assert!(row.published_low <= row.published_high, "{}", row.what);
    }
    let reference = sheet().phases[0].figures[0].reference.clone().unwrap();
    assert!((reference.low - 2e6).abs() < 1.0 && !reference.source.is_empty());
}
