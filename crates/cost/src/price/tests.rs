//! The price of a miss against numbers done by hand, and what must hold for any.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use proptest::prelude::*;

use super::*;
use crate::{Figure, Machine, Measured, PhaseTable, SHEET_VERSION, Steadiness, Unit};

fn entry(version: &str, certificate: &str, rates: (f64, f64), micros: (f64, f64)) -> MixEntry {
    let known = |micros: f64| (micros > 0.0).then_some(micros);
    MixEntry {
        version: version.to_owned(),
        certificate: certificate.to_owned(),
        full_per_second: rates.0,
        resumed_per_second: rates.1,
        micros_per_full: known(micros.0),
        micros_per_resumed: known(micros.1),
    }
}

/// 100 full and 900 resumed handshakes a second, three kinds, on four cores.
fn by_hand() -> LiveMix {
    LiveMix {
        seconds: 60.0,
        groups: vec![
            entry("TLSv1.3", "ecdsa-p256", (60.0, 600.0), (75.0, 55.0)),
            entry("TLSv1.2", "ecdsa-p256", (20.0, 200.0), (65.0, 10.0)),
            entry("TLSv1.3", "rsa-2048", (20.0, 100.0), (300.0, 55.0)),
        ],
        worker_cores: 0.5,
        tls_cores: 0.2,
        cores_there_are: 4.0,
        growth_cores_per_second: 0.0005,
    }
}

fn sheet(figures: &[(&str, f64)]) -> Sheet {
    Sheet {
        sheet_version: SHEET_VERSION,
        made: "2026-11-20T10:00:00Z".into(),
        tollgate: "0.1.0".into(),
        provider: "test".into(),
        machine: Machine {
            cpu: "test".into(),
            cpu_flags: Vec::new(),
            cores: 2,
            memory_bytes: 1,
            kernel: "test".into(),
            architecture: "x86_64".into(),
        },
        clock_nanoseconds: 0.0,
        steadiness: Steadiness::of(&[1.0, 1.0, 1.0, 1.0]).unwrap(),
        phases: vec![PhaseTable {
            phase: 2,
            name: "derivation".into(),
            seconds: 1.0,
            figures: figures
                .iter()
                .map(|(id, nanos)| Figure {
                    id: (*id).to_owned(),
                    label: String::new(),
                    unit: Unit::Nanoseconds,
                    measured: Measured::of(&[*nanos]).unwrap(),
                    how: String::new(),
                    reference: None,
                    yardstick_nanoseconds: None,
                })
                .collect(),
        }],
    }
}

#[test]
fn the_price_is_what_a_person_gets_by_hand() {
    // 600 x (75 - 55) = 12000; 200 x (65 - 10) = 11000; 100 x (300 - 55) = 24500; together 47500 µs/s = 0.0475 cores.
    let price = price(&by_hand(), None);
    assert_eq!(price.hit_rate, Some(0.9));
    assert_eq!(price.saved_cores, Some(0.0475));
    assert_eq!(price.cores_at_zero, Some(0.5475));
    assert_eq!(price.tls_cores_at_zero, Some(0.2475));
    // Half instead of nine tenths: four ninths of the resumed ones are lost, 0.0475 x 4 / 9 = 0.021111.
    assert_eq!(price.cores_at_half, Some(0.521_111));
    assert_eq!((price.cores_now, price.headroom_cores), (0.5, 3.5));
    assert_eq!(price.seconds_of_headroom, Some(7_000.0));
    // 47500 µs/s over 900 resumed/s.
    assert_eq!(price.micros_per_miss, Some(52.78));
    assert_eq!(price.assumptions.len(), 1, "{:?}", price.assumptions);
    assert!(price.assumptions[0].starts_with("what is not TLS"));
    let expected = [
        "headroom = 4 - 0.5 = 3.5 cores",
        "time left = 3.5 cores / 0.0005000 cores/s = 7000 s, if the load goes on growing as over the last five minutes",
        "hits now = 900.00 / (100.00 + 900.00) = 0.9000",
        "TLSv1.3 ecdsa-p256: 600.00 resumed/s x (75.00 - 55.00) µs = 12000.0 µs/s",
        "TLSv1.2 ecdsa-p256: 200.00 resumed/s x (65.00 - 10.00) µs = 11000.0 µs/s",
        "TLSv1.3 rsa-2048: 100.00 resumed/s x (300.00 - 55.00) µs = 24500.0 µs/s",
        "saved now = 47500.0 µs/s / 1000000 = 0.0475 cores",
        "at 0 % hits = 0.5 + 0.0475 = 0.5475 cores",
        "TLS at 0 % hits = 0.2 + 0.0475 = 0.2475 cores",
        "at 50 % hits = 0.5 + 0.0475 x (1 - 0.5 / 0.9000) = 0.521111 cores",
        "a miss = 47500.0 µs/s / 900.00 resumed/s = 52.78 µs",
    ];
    assert_eq!(price.arithmetic, expected);
}

#[test]
fn fewer_hits_than_half_make_half_a_gain() {
    let mut mix = by_hand();
    mix.groups = vec![entry("TLSv1.3", "rsa-2048", (800.0, 200.0), (300.0, 50.0))];
    let price = price(&mix, None);
    // 800 full/s x 250 µs = 0.2 cores; half instead of a fifth: three eighths of them gained, 0.075 cores.
    assert_eq!(price.cores_at_half, Some(0.425));
    // 200 resumed/s x 250 µs.
    assert_eq!(price.saved_cores, Some(0.05));
    assert_eq!(price.cores_at_zero, Some(0.55));
    let line = price
        .arithmetic
        .iter()
        .find(|line| line.starts_with("at 50 %"))
        .unwrap();
    assert!(
        line.ends_with("a gain: fewer than half resume now"),
        "{line}"
    );
}

#[test]
fn without_any_resumption_nothing_is_saved() {
    let mut mix = by_hand();
    mix.groups = vec![entry("TLSv1.3", "ecdsa-p256", (10.0, 0.0), (75.0, 0.0))];
    let unknown = price(&mix, None);
    assert_eq!(
        (unknown.saved_cores, unknown.cores_at_zero),
        (Some(0.0), Some(0.5))
    );
    assert_eq!(
        (unknown.cores_at_half, unknown.micros_per_miss),
        (None, None)
    );
    assert!(
        unknown
            .assumptions
            .iter()
            .any(|one| one.contains("resumed handshake of TLSv1.3")),
        "{unknown:?}"
    );
    let sheet = sheet(&[(
        "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/resumed/server",
        55_000.0,
    )]);
    let known = price(&mix, Some(&sheet));
    // 10 full/s x 20 µs, half of it gained.
    assert_eq!(known.cores_at_half, Some(0.4999));
    assert_eq!(known.micros_per_miss, Some(20.0));
}

#[test]
fn an_idle_instance_has_nothing_to_lose() {
    let price = price(
        &LiveMix {
            cores_there_are: 2.0,
            ..LiveMix::default()
        },
        None,
    );
    assert_eq!(price.hit_rate, None);
    assert_eq!(
        (price.saved_cores, price.cores_at_zero),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(
        (price.micros_per_miss, price.seconds_of_headroom),
        (None, None)
    );
    assert_eq!(price.headroom_cores, 2.0);
    assert!(price.assumptions.is_empty());
}

#[test]
fn a_cost_that_was_not_seen_is_looked_for_nearby_then_in_the_sheet_and_said() {
    let mut mix = by_hand();
    mix.groups[1].micros_per_full = None;
    let nearby = price(&mix, None);
    // 75 µs of TLS 1.3 in place of 65 of TLS 1.2: 200 x 10 µs more.
    assert_eq!(nearby.saved_cores, Some(0.0495));
    assert!(
        nearby.assumptions.contains(&"no full handshake of TLSv1.2 ecdsa-p256 was seen: 75.00 µs is what one of TLSv1.3 ecdsa-p256 took".to_owned()),
        "{:?}", nearby.assumptions
    );
    mix.groups[2].micros_per_full = None;
    let unknown = price(&mix, None);
    assert_eq!(
        (
            unknown.saved_cores,
            unknown.cores_at_zero,
            unknown.cores_at_half
        ),
        (None, None, None)
    );
    assert!(
        unknown.assumptions[0].contains("not known")
            || unknown.assumptions[1].contains("not known")
    );
    let sheet = sheet(&[(
        "handshake/tls13/rsa-2048/x25519/aes-128-gcm/full/server",
        290_000.0,
    )]);
    let known = price(&mix, Some(&sheet));
    assert_eq!(known.saved_cores, Some(0.0485));
    assert!(
        known
            .assumptions
            .iter()
            .any(|one| one.contains("in the sheet of 2026-11-20"))
    );
}

#[test]
fn a_full_handshake_that_measured_cheaper_counts_as_equal() {
    let mut mix = by_hand();
    mix.groups = vec![entry("TLSv1.3", "ecdsa-p256", (10.0, 90.0), (80.0, 82.0))];
    let price = price(&mix, None);
    assert_eq!(price.saved_cores, Some(0.0));
    assert!(
        price
            .assumptions
            .iter()
            .any(|one| one.contains("taken as equal"))
    );
}

#[test]
fn growth_within_the_noise_is_no_growth() {
    let mut mix = by_hand();
    mix.growth_cores_per_second = 0.000_03;
    assert_eq!(price(&mix, None).seconds_of_headroom, None);
    mix.growth_cores_per_second = -0.01;
    assert_eq!(price(&mix, None).seconds_of_headroom, None);
    mix.growth_cores_per_second = 0.01;
    mix.worker_cores = 4.2;
    assert_eq!(price(&mix, None).seconds_of_headroom, Some(0.0));
}

/// What a pocket calculator makes of `a + b x (1 - c / d)` and the like: numbers, + - x / and parentheses.
fn calculated(text: &str) -> f64 {
    let cleaned: String = text
        .replace("resumed/s", "")
        .replace("full/s", "")
        .replace("µs/s", "")
        .replace("µs", "")
        .replace("cores/s", "")
        .replace("cores", "");
    let tokens: Vec<String> = cleaned
        .replace('(', " ( ")
        .replace(')', " ) ")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let mut at = 0;
    let value = sum(&tokens, &mut at);
    assert_eq!(at, tokens.len(), "{text}");
    value
}

fn sum(tokens: &[String], at: &mut usize) -> f64 {
    let mut value = product(tokens, at);
    while let Some(sign @ ("+" | "-")) = tokens.get(*at).map(String::as_str) {
        *at += 1;
        let next = product(tokens, at);
        value += if sign == "+" { next } else { -next };
    }
    value
}

fn product(tokens: &[String], at: &mut usize) -> f64 {
    let mut value = atom(tokens, at);
    while let Some(sign @ ("x" | "/")) = tokens.get(*at).map(String::as_str) {
        *at += 1;
        let next = atom(tokens, at);
        value = if sign == "x" {
            value * next
        } else {
            value / next
        };
    }
    value
}

fn atom(tokens: &[String], at: &mut usize) -> f64 {
    let token = &tokens[*at];
    *at += 1;
    if token != "(" {
        return token
            .parse()
            .unwrap_or_else(|_| panic!("{token} in {tokens:?}"));
    }
    let value = sum(tokens, at);
    *at += 1;
    value
}

/// The right side of a line as shown, and how much its last digit is worth.
fn shown_result(text: &str) -> (f64, f64) {
    let number: String = text
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-'))
        .collect();
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    (
        number.parse().unwrap(),
        10_f64.powi(-i32::try_from(digits).unwrap()),
    )
}

prop_compose! {
    fn any_entry()(
        version in prop::sample::select(vec!["TLSv1.2", "TLSv1.3"]),
        certificate in prop::sample::select(vec!["ecdsa-p256", "rsa-2048", "ed25519"]),
        rates in (0.0..5_000.0_f64, 0.0..5_000.0_f64),
        resumed in 5.0..200.0_f64,
        more in 0.0..1_000.0_f64,
    ) -> MixEntry {
        entry(version, certificate, rates, (resumed + more, resumed))
    }
}

prop_compose! {
    fn any_mix()(
        groups in prop::collection::vec(any_entry(), 0..6),
        worker_cores in 0.0..64.0_f64,
        tls in 0.0..1.0_f64,
        cores_there_are in 1.0..64.0_f64,
        growth in -0.01..0.01_f64,
    ) -> LiveMix {
        LiveMix {
            seconds: 60.0,
            groups,
            worker_cores,
            tls_cores: worker_cores * tls,
            cores_there_are,
            growth_cores_per_second: growth,
        }
    }
}

proptest! {
    #[test]
    fn more_hits_never_need_more_cores(mix in any_mix(), one in 0.0..=1.0_f64, other in 0.0..=1.0_f64) {
        let at = |hits| cores_at(&mix, None, hits).unwrap();
        prop_assert!(at(one.min(other)) >= at(one.max(other)) - 1e-9);
        prop_assert!(at(1.0) <= at(0.0));
    }

    #[test]
    fn at_the_hit_rate_of_now_the_cores_are_those_of_now(mix in any_mix()) {
        if let Some(hits) = price(&mix, None).hit_rate {
            let at = cores_at(&mix, None, hits).unwrap();
            prop_assert!((at - mix.worker_cores).abs() < 1e-6);
        }
    }

    #[test]
    fn the_page_and_the_formula_agree(mix in any_mix()) {
        let price = price(&mix, None);
        for (hits, shown) in [(0.0, price.cores_at_zero), (0.5, price.cores_at_half)] {
            let at = cores_at(&mix, None, hits).unwrap();
            prop_assert!((at - shown.unwrap()).abs() < 2e-6, "{at} {price:?}");
        }
        let saved = price.saved_cores.unwrap();
        prop_assert!((price.cores_at_zero.unwrap() - price.cores_now - saved).abs() < 1e-6);
        prop_assert!((price.tls_cores_at_zero.unwrap() - mix.tls_cores - saved).abs() < 2e-6);
    }

    /// Units: cost in other units gives cores in those; twice the handshakes save twice as much.
    #[test]
    fn what_is_saved_grows_with_rate_and_cost(mix in any_mix()) {
        let saved = |mix: &LiveMix| price(mix, None).saved_cores.unwrap();
        let mut twice = mix.clone();
        let mut dearer = mix.clone();
        for entry in &mut twice.groups {
            entry.full_per_second *= 2.0;
            entry.resumed_per_second *= 2.0;
        }
        for entry in &mut dearer.groups {
            entry.micros_per_full = entry.micros_per_full.map(|micros| micros * 2.0);
            entry.micros_per_resumed = entry.micros_per_resumed.map(|micros| micros * 2.0);
        }
        let exact: f64 = mix.groups.iter()
            .map(|one| one.resumed_per_second * (one.micros_per_full.unwrap() - one.micros_per_resumed.unwrap()) / 1e6)
            .sum();
        // Rates and costs are rounded to a hundredth: 5000/s x 0.01 µs and 0.005/s x 1000 µs per entry.
        let slack = 6.0 * 150.0 / 1e6;
        prop_assert!((saved(&mix) - exact).abs() < slack);
        prop_assert!((saved(&twice) - 2.0 * exact).abs() < 2.0 * slack);
        prop_assert!((saved(&dearer) - 2.0 * exact).abs() < 2.0 * slack);
    }

    #[test]
    fn every_line_is_right_on_a_pocket_calculator(mix in any_mix()) {
        for line in price(&mix, None).arithmetic {
            let Some((left, right)) = line.rsplit_once(" = ") else { continue };
            let left = left.split_once(" = ").map_or(left, |(_, left)| left);
            let left = left.rsplit_once(": ").map_or(left, |(_, left)| left);
            let (result, digit) = shown_result(right);
            let calculated = calculated(left);
            // Cores are shown without noughts at the end, so their last digit may be worth less than it seems.
            let digit = if right.contains("cores") { 1e-6 } else { digit };
            prop_assert!((calculated - result).abs() <= 0.51 * digit + 1e-9 * result.abs(), "{line}: {calculated}");
        }
    }
}
