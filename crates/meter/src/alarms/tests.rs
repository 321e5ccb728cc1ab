//! Alarms over hours and days, in microseconds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use super::*;
use proptest::prelude::*;

/// Some second of 2026.
const START: f64 = 1_790_000_000.0;

/// A minute with so many full and resumed handshakes a second, on four cores.
fn minute(full: u64, resumed: u64) -> Seen {
    Seen {
        seconds: 60.0,
        full: full * 60,
        resumed: resumed * 60,
        requests_per_handshake: Some(10.0),
        tls_cores: Some(0.1),
        cores_at_zero: Some(1.0),
        cores_there_are: 4.0,
        accepted_by_worker: vec![1_000, 1_010, 990, 1_000],
        ..Seen::default()
    }
}

/// Judges once a second from `from` on; what changed, with the second.
fn run(
    alarms: &mut Alarms,
    from: f64,
    seconds: u32,
    seen: impl Fn(f64) -> Seen,
) -> Vec<(f64, &'static str, State)> {
    (0..seconds)
        .flat_map(|second| {
            let second = f64::from(second);
            let now = START + from + second;
            alarms
                .judge(now, &seen(second))
                .into_iter()
                .map(move |change| (from + second, change.name, change.state))
        })
        .collect()
}

fn state(alarms: &Alarms, name: &str) -> AlarmState {
    alarms
        .states()
        .iter()
        .find(|state| state.name == name)
        .unwrap()
        .clone()
}

#[test]
fn an_alarm_fires_when_its_condition_has_held_and_goes_quiet_when_it_has_been_gone() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    assert_eq!(run(&mut alarms, 0.0, 60, |_| minute(1, 9)), []);
    let fired = run(&mut alarms, 60.0, 60, |_| minute(6, 4));
    assert_eq!(fired, [(90.0, "hit_rate_low", State::Firing)]);
    let shown = state(&alarms, "hit_rate_low");
    assert_eq!((shown.value, shown.threshold), (Some(0.4), 0.7));
    assert_eq!(shown.since, START + 90.0);
    let quiet = run(&mut alarms, 120.0, 60, |_| minute(1, 9));
    assert_eq!(quiet, [(150.0, "hit_rate_low", State::Quiet)]);
}

#[test]
fn a_short_dip_wakes_nobody() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    for round in 0..100 {
        let from = f64::from(round) * 40.0;
        assert_eq!(run(&mut alarms, from, 29, |_| minute(9, 1)), []);
        assert_eq!(run(&mut alarms, from + 29.0, 11, |_| minute(1, 9)), []);
    }
}

#[test]
fn a_rate_that_dances_around_the_threshold_fires_once_at_most() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let dance = |second: f64| {
        // 69 and 71 of 100 by turns.
        let resumed = if second % 2.0 == 0.0 { 69 } else { 71 };
        minute(100 - resumed, resumed)
    };
    assert_eq!(run(&mut alarms, 0.0, 3_600, dance), []);
    assert_eq!(run(&mut alarms, 3_600.0, 60, |_| minute(60, 40)).len(), 1);
    // Back over the threshold, but not by the margin: it goes on firing, and says nothing more.
    assert_eq!(run(&mut alarms, 3_660.0, 3_600, dance), []);
    assert!(state(&alarms, "hit_rate_low").is_firing());
}

#[test]
fn an_idle_server_alarms_nobody_for_a_day() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let idle = |_| Seen {
        cores_there_are: 2.0,
        accepted_by_worker: vec![0, 0],
        seconds: 60.0,
        ..Seen::default()
    };
    assert_eq!(run(&mut alarms, 0.0, 86_400, idle), []);
    // One client an hour that cannot resume is no trouble either.
    let rare = |second: f64| Seen {
        full: u64::from(second % 3_600.0 < 60.0),
        requests_per_handshake: Some(1.0),
        accepted_by_worker: vec![1, 0],
        ..idle(second)
    };
    assert_eq!(run(&mut alarms, 86_400.0, 86_400, rare), []);
    assert!(alarms.states().iter().all(AlarmState::is_quiet));
}

#[test]
fn traffic_that_ends_ends_the_alarm() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    run(&mut alarms, 0.0, 60, |_| minute(9, 1));
    assert!(state(&alarms, "hit_rate_low").is_firing());
    let quiet = run(&mut alarms, 60.0, 60, |_| minute(0, 0));
    assert_eq!(quiet, [(90.0, "hit_rate_low", State::Quiet)]);
    assert_eq!(state(&alarms, "hit_rate_low").value, None);
}

#[test]
fn fresh_handshakes_are_judged_per_instance_and_per_core() {
    let settings = AlarmSettings {
        fresh_per_second_per_core_above: Some(100.0),
        hit_rate_below: None,
        ..AlarmSettings::default()
    };
    let mut alarms = Alarms::new(settings);
    let four_hundred = run(&mut alarms, 0.0, 60, |_| minute(400, 0));
    assert_eq!(four_hundred, [], "100 per core is not above 100");
    let more = run(&mut alarms, 60.0, 60, |_| minute(404, 0));
    assert_eq!(more, [(90.0, "fresh_rate_per_core_high", State::Firing)]);
    let many = run(&mut alarms, 120.0, 60, |_| minute(5_001, 0));
    assert_eq!(many, [(150.0, "fresh_rate_high", State::Firing)]);
}

#[test]
fn tls_that_takes_over_a_quarter_of_the_cores_fires() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let busy = |cores| {
        move |_| Seen {
            tls_cores: Some(cores),
            ..minute(1, 9)
        }
    };
    assert_eq!(run(&mut alarms, 0.0, 60, busy(0.99)), []);
    assert_eq!(run(&mut alarms, 60.0, 60, busy(1.01)).len(), 1);
    let unknown = |_| Seen {
        tls_cores: None,
        ..minute(1, 9)
    };
    assert_eq!(
        run(&mut alarms, 120.0, 60, unknown).len(),
        1,
        "the ledger was turned off"
    );
}

#[test]
fn a_cold_cache_is_set_against_the_cores_there_are() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let cold = |cores| {
        move |_| Seen {
            cores_at_zero: Some(cores),
            ..minute(1, 9)
        }
    };
    assert_eq!(run(&mut alarms, 0.0, 60, cold(3.9)), []);
    let fired = run(&mut alarms, 60.0, 60, cold(4.1));
    assert_eq!(fired, [(90.0, "cold_cache_over_capacity", State::Firing)]);
    assert_eq!(state(&alarms, "cold_cache_over_capacity").threshold, 4.0);
}

#[test]
fn requests_per_handshake_fallen_five_fold_within_five_minutes_fire_and_stay() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let ratio = |ratio| {
        move |_| Seen {
            requests_per_handshake: Some(ratio),
            ..minute(1, 9)
        }
    };
    assert_eq!(run(&mut alarms, 0.0, 600, ratio(50.0)), []);
    assert_eq!(
        run(&mut alarms, 600.0, 600, ratio(11.0)),
        [],
        "not five-fold"
    );
    let mut alarms = Alarms::new(AlarmSettings::default());
    run(&mut alarms, 0.0, 600, ratio(50.0));
    let fallen = run(&mut alarms, 600.0, 3_000, ratio(1.25));
    assert_eq!(
        fallen,
        [(630.0, "requests_per_handshake_fallen", State::Firing)]
    );
    assert_eq!(
        state(&alarms, "requests_per_handshake_fallen").value,
        Some(40.0)
    );
    // After an hour the new level is the usual one.
    let usual = run(&mut alarms, 3_600.0, 3_600, ratio(1.25));
    assert_eq!(usual.len(), 1);
    assert_eq!(usual[0].2, State::Quiet);
}

#[test]
fn a_slow_fall_over_hours_is_no_fall() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let slow = |second: f64| Seen {
        requests_per_handshake: Some(50.0 * (-second / 3_600.0).exp()),
        ..minute(1, 9)
    };
    assert_eq!(run(&mut alarms, 0.0, 6 * 3_600, slow), []);
}

#[test]
fn each_certificate_has_an_alarm_of_its_own_that_waits_for_nothing() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let day = 86_400.0;
    let seen = |shop: f64| {
        let of = |subject: &str, days: f64| SeenCertificate {
            subject: subject.to_owned(),
            expires: START + days * day,
        };
        Seen {
            certificates: vec![
                of("shop.example ecdsa-p256", shop),
                of("api.example rsa-2048", 90.0),
            ],
            ..minute(1, 9)
        }
    };
    assert_eq!(alarms.judge(START, &seen(15.0)), []);
    let fired = alarms.judge(START + 2.0 * day, &seen(15.0));
    let [change] = fired.as_slice() else {
        panic!("{fired:?}")
    };
    assert_eq!(change.subject, "shop.example ecdsa-p256");
    assert_eq!(change.state, State::Firing);
    assert!(
        change.sentence.contains("ends in 13.0 days"),
        "{}",
        change.sentence
    );
    let ended = alarms.judge(START + 16.0 * day, &seen(15.0));
    assert_eq!(ended, []);
    let shown = alarms
        .states()
        .iter()
        .find(|state| state.subject.starts_with("shop"))
        .unwrap();
    assert!(
        shown.sentence.contains("ended 1.0 days ago"),
        "{}",
        shown.sentence
    );
    let renewed = alarms.judge(START + 16.0 * day + 1.0, &seen(106.0));
    assert_eq!(renewed.len(), 1);
    assert_eq!(renewed[0].state, State::Quiet);
    // A certificate that is served no more takes its alarm with it.
    alarms.judge(START + 100.0 * day, &seen(106.0));
    let gone = alarms.judge(START + 100.0 * day + 1.0, &minute(1, 9));
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(gone.iter().all(|change| change.state == State::Quiet));
}

#[test]
fn a_dearer_certificate_fires_at_once_and_until_it_is_taken_back() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let dearer = |_| Seen {
        dearer: vec![SeenDearer {
            subject: "shop.example".into(),
            sentence: "it was ecdsa-p256 and is now rsa-2048".into(),
            before_micros: Some(16.0),
            after_micros: Some(430.0),
        }],
        ..minute(1, 9)
    };
    run(&mut alarms, 0.0, 5, |_| minute(1, 9));
    assert_eq!(
        run(&mut alarms, 5.0, 60, dearer),
        [(5.0, "certificate_dearer", State::Firing)]
    );
    let shown = alarms
        .states()
        .iter()
        .find(|state| state.is_firing())
        .unwrap();
    assert_eq!((shown.value, shown.threshold), (Some(430.0), 16.0));
    let back = run(&mut alarms, 65.0, 5, |_| minute(1, 9));
    assert_eq!(back, [(65.0, "certificate_dearer", State::Quiet)]);
}

#[test]
fn what_was_not_measured_is_dearer_all_the_same() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let seen = Seen {
        dearer: vec![SeenDearer {
            subject: "shop.example".into(),
            ..SeenDearer::default()
        }],
        ..minute(1, 9)
    };
    assert_eq!(alarms.judge(START, &seen).len(), 1);
}

#[test]
fn unknown_ticket_keys_tell_of_a_fleet_out_of_step() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let unknown = |count| {
        move |_| Seen {
            unknown_keys: count,
            ..minute(20, 80)
        }
    };
    assert_eq!(
        run(&mut alarms, 0.0, 60, unknown(60)),
        [],
        "one of a hundred"
    );
    let fired = run(&mut alarms, 60.0, 60, unknown(66));
    assert_eq!(fired, [(90.0, "unknown_ticket_keys", State::Firing)]);
}

#[test]
fn imbalance_counts_only_where_chance_cannot_be_the_reason() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    let spread = |workers: [u64; 4]| {
        move |_| Seen {
            accepted_by_worker: workers.to_vec(),
            ..minute(1, 9)
        }
    };
    assert_eq!(
        run(&mut alarms, 0.0, 60, spread([20, 5, 5, 5])),
        [],
        "too few"
    );
    assert_eq!(
        run(&mut alarms, 60.0, 60, spread([1_150, 950, 950, 950])),
        []
    );
    let fired = run(&mut alarms, 120.0, 60, spread([2_000, 700, 650, 650]));
    assert_eq!(fired, [(150.0, "worker_imbalance", State::Firing)]);
    let one = |_| Seen {
        accepted_by_worker: vec![9_000],
        ..minute(1, 9)
    };
    assert_eq!(
        run(&mut alarms, 180.0, 60, one).len(),
        1,
        "one worker is always even"
    );
}

#[test]
fn other_thresholds_leave_what_fires_firing_and_turn_off_what_is_off() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    run(&mut alarms, 0.0, 60, |_| minute(6, 4));
    let since = state(&alarms, "hit_rate_low").since;
    alarms.reconfigure(AlarmSettings {
        hit_rate_below: Some(0.6),
        ..AlarmSettings::default()
    });
    assert_eq!(run(&mut alarms, 60.0, 60, |_| minute(6, 4)), []);
    assert_eq!(state(&alarms, "hit_rate_low").since, since);
    assert_eq!(state(&alarms, "hit_rate_low").threshold, 0.6);
    alarms.reconfigure(AlarmSettings {
        hit_rate_below: None,
        ..AlarmSettings::default()
    });
    let off = run(&mut alarms, 120.0, 2, |_| minute(6, 4));
    assert_eq!(off, [(120.0, "hit_rate_low", State::Quiet)]);
    assert!(
        !alarms
            .states()
            .iter()
            .any(|state| state.name == "hit_rate_low")
    );
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_an_alarm_waiting_for_ever() {
    let mut alarms = Alarms::new(AlarmSettings::default());
    run(&mut alarms, 86_400.0, 20, |_| minute(9, 1));
    assert!(!state(&alarms, "hit_rate_low").is_firing());
    assert_eq!(run(&mut alarms, 0.0, 60, |_| minute(9, 1)).len(), 1);
}

#[test]
fn a_threshold_of_everything_can_be_met_and_left() {
    let settings = AlarmSettings {
        hit_rate_below: Some(1.0),
        ..AlarmSettings::default()
    };
    let mut alarms = Alarms::new(settings);
    assert_eq!(run(&mut alarms, 0.0, 60, |_| minute(1, 99)).len(), 1);
    assert_eq!(run(&mut alarms, 60.0, 60, |_| minute(0, 100)).len(), 1);
}

#[test]
fn the_table_is_in_the_order_of_the_alarms_and_says_everything() {
    let settings = AlarmSettings {
        fresh_per_second_per_core_above: Some(1.0),
        ..AlarmSettings::default()
    };
    for alarm in Alarm::ALL {
        let definition = alarm.definition();
        assert_eq!(definition.alarm, alarm);
        for text in [definition.sentence, definition.reason, definition.advice] {
            assert!(
                text.len() > 20 && !text.ends_with('.') && !text.contains("  "),
                "{text}"
            );
        }
        assert!(settings.threshold(alarm).is_some(), "{}", definition.name);
        let expression = definition.promql(1.5);
        assert!(expression.contains("tollgate_"), "{expression}");
        assert!(
            !expression.contains('{') || expression.contains('"'),
            "{expression}"
        );
    }
}

/// A threshold as `tls.yaml` has it.
fn default_text(alarm: Alarm) -> String {
    let settings = AlarmSettings::default();
    match (alarm, settings.threshold(alarm)) {
        (_, None) => "off".to_owned(),
        (Alarm::ColdCacheOverCapacity | Alarm::CertificateDearer, Some(_)) => "on".to_owned(),
        (Alarm::CertificateExpiring, Some(seconds)) => format!("{}d", seconds / 86_400.0),
        (_, Some(threshold)) => threshold.to_string(),
    }
}

/// What the documentation says of every alarm.
fn documented() -> String {
    let mut text =
        "| alarm | what it means | setting | default | severity |\n|---|---|---|---|---|\n"
            .to_owned();
    for definition in &DEFINITIONS {
        text.push_str(&format!(
            "| [`{0}`](#{0}) | {1} | `{2}` | {3} | {4} |\n",
            definition.name,
            definition.sentence,
            definition.field,
            default_text(definition.alarm),
            definition.severity.name()
        ));
    }
    for definition in &DEFINITIONS {
        let threshold = AlarmSettings::default().threshold(definition.alarm);
        text.push_str(&format!(
            "\n### {}\n{}\n\n**What to do:** {}\n\n```promql\n{}\n```\n",
            definition.name,
            Definition::whole(definition.reason),
            Definition::whole(definition.advice),
            definition.promql(threshold.unwrap_or(1_000.0))
        ));
    }
    text
}

#[test]
fn the_documentation_has_every_alarm_as_the_table_has_it() {
    const START: &str =
        "<!-- alarms: written by UPDATE_EXPECTED=1 cargo test -p tollgate-meter -->\n";
    const END: &str = "<!-- end of alarms -->";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alarms.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{START}{}{END}{after}", documented());
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(document == expected, "docs/alarms.md is behind the table");
    }
}

proptest! {
    /// Whatever is seen, an alarm fires only after its condition held for `hold`, and changes alternate.
    #[test]
    fn changes_alternate_and_are_a_hold_apart(minutes in prop::collection::vec((0_u64..20, 0_u64..20), 1..400)) {
        let mut alarms = Alarms::new(AlarmSettings::default());
        let mut last: Option<(f64, State)> = None;
        for (second, (full, resumed)) in minutes.into_iter().enumerate() {
            let now = START + second as f64;
            for change in alarms.judge(now, &minute(full, resumed)) {
                prop_assert_eq!(change.name, "hit_rate_low");
                if let Some((at, state)) = last {
                    prop_assert_ne!(state, change.state);
                    prop_assert!(now - at >= 30.0);
                } else {
                    prop_assert_eq!(change.state, State::Firing);
                    prop_assert!(now - START >= 30.0);
                }
                last = Some((now, change.state));
            }
        }
    }
}
