//! Rotation, seen through the door: a day passes in microseconds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::time::Duration;

use proptest::prelude::*;
use tollgate_keys::{Duty, ImportError, KeyMaterial, Lifetimes, MAX_KEYS, Ring};
use tollgate_terms::UnixTime;
use zeroize::Zeroizing;

const START: u64 = 1_790_000_000;

fn at(hour: u64) -> UnixTime {
    UnixTime(START + hour * 3_600)
}

fn day_and_six() -> Lifetimes {
    Lifetimes::new(
        Duration::from_secs(24 * 3_600),
        Duration::from_secs(6 * 3_600),
    )
    .unwrap()
}

/// Keys numbered from 1, so that a test sees which is which.
fn material(number: u8) -> KeyMaterial {
    KeyMaterial {
        name: [number; 16],
        secret: Zeroizing::new([number; 32]),
    }
}

fn duties(ring: &Ring, now: UnixTime) -> Vec<(u8, Duty)> {
    ring.keys()
        .iter()
        .map(|key| (key.name[0], ring.duty(key, now)))
        .collect()
}

#[test]
fn two_days_of_rotation_hand_over_without_a_gap() {
    let mut ring = Ring::new(day_and_six(), at(0), material(1));
    let mut made = 1;
    for (hour, expected) in [
        (0, vec![(1, Duty::Issue)]),
        (22, vec![(1, Duty::Issue)]),
        (23, vec![(1, Duty::Issue), (2, Duty::Wait)]),
        (24, vec![(1, Duty::Accept), (2, Duty::Issue)]),
        (29, vec![(1, Duty::Accept), (2, Duty::Issue)]),
        (30, vec![(2, Duty::Issue)]),
        (47, vec![(2, Duty::Issue), (3, Duty::Wait)]),
        (48, vec![(2, Duty::Accept), (3, Duty::Issue)]),
    ] {
        if let Some(next) = ring.turn(at(hour), || {
            made += 1;
            material(made)
        }) {
            ring = next;
        }
        assert_eq!(duties(&ring, at(hour)), expected, "at hour {hour}");
    }
}

#[test]
fn a_ring_that_still_holds_does_not_turn() {
    let ring = Ring::new(day_and_six(), at(0), material(1));
    assert!(
        ring.turn(at(22), || panic!("no key is due at hour 22"))
            .is_none()
    );
}

#[test]
fn a_ring_that_was_forgotten_for_a_week_issues_again_at_once() {
    let ring = Ring::new(day_and_six(), at(0), material(1));
    assert!(ring.issuing(at(168)).is_none());
    let ring = ring.turn(at(168), || material(2)).unwrap();
    assert_eq!(duties(&ring, at(168)), [(2, Duty::Issue)]);
}

#[test]
fn a_clock_set_back_by_a_year_leaves_one_issuing_key() {
    let ring = Ring::new(day_and_six(), at(9_000), material(1));
    let ring = ring.turn(at(0), || material(2)).unwrap();
    assert_eq!(duties(&ring, at(0)), [(2, Duty::Issue)]);
}

#[test]
fn a_clock_set_back_by_a_minute_keeps_the_key() {
    let ring = Ring::new(day_and_six(), at(10), material(1));
    let now = UnixTime(at(10).0 - 60);
    let ring = ring.turn(now, || material(2)).unwrap();
    assert_eq!(duties(&ring, now), [(2, Duty::Issue), (1, Duty::Wait)]);
    assert_eq!(
        duties(&ring, at(10)),
        [(2, Duty::Accept), (1, Duty::Issue)],
        "never two that issue"
    );
}

#[test]
fn a_waiting_key_is_accepted_and_a_retired_one_is_not() {
    let ring = Ring::new(day_and_six(), at(0), material(1));
    let ring = ring.turn(at(23), || material(2)).unwrap();
    assert!(ring.accepting(&[2; 16], at(23)).is_some());
    assert!(ring.accepting(&[1; 16], at(29)).is_some());
    assert!(ring.accepting(&[1; 16], at(30)).is_none());
    assert!(ring.accepting(&[3; 16], at(23)).is_none());
}

#[test]
fn shorter_lifetimes_after_a_reload_retire_what_they_must() {
    let ring = Ring::new(day_and_six(), at(0), material(1));
    let short = Lifetimes::new(Duration::from_secs(3_600), Duration::from_secs(7_200)).unwrap();
    let ring = ring.with_lifetimes(short);
    let ring = ring.turn(at(2), || material(2)).unwrap();
    assert_eq!(duties(&ring, at(2)), [(1, Duty::Accept), (2, Duty::Issue)]);
}

#[test]
fn debug_output_holds_no_secret() {
    let ring = Ring::new(
        day_and_six(),
        at(0),
        KeyMaterial {
            name: [0xab; 16],
            secret: Zeroizing::new([0xcd; 32]),
        },
    );
    let text = format!("{ring:?} {:?}", material(0xcd));
    assert!(!text.contains("205") && !text.contains("cdcd"), "{text}");
    assert!(text.contains("abababab"), "{text}");
}

#[test]
fn import_refuses_what_export_did_not_write() {
    let bytes = Ring::new(day_and_six(), at(0), material(1)).export();
    let with = |index: usize, value: u8| {
        let mut changed = bytes.to_vec();
        changed[index] = value;
        Ring::import(&changed).map(|_| ()).unwrap_err()
    };
    assert_eq!(Ring::import(b"").unwrap_err(), ImportError::NotARing);
    assert_eq!(with(0, b'X'), ImportError::NotARing);
    assert_eq!(with(4, 2), ImportError::UnknownVersion(2));
    assert!(matches!(with(5, 1), ImportError::Lifetimes(_)));
    assert_eq!(with(21, 0), ImportError::KeyCount(0));
    assert_eq!(with(21, 65), ImportError::KeyCount(65));
    assert!(matches!(with(21, 2), ImportError::Length { .. }));
    let mut twice = bytes.to_vec();
    twice[21] = 2;
    let key = bytes[22..].to_vec();
    twice.extend_from_slice(&key);
    assert_eq!(Ring::import(&twice).unwrap_err(), ImportError::SameName);
}

proptest! {
    #[test]
    fn one_key_issues_at_any_time_from_the_start_on(
        issue in 2_u64..200_000,
        accept_share in 0_u64..60,
        steps in prop::collection::vec(1_u64..100, 1..300),
    ) {
        let accept = (issue * accept_share / 10).min(7 * 86_400);
        let lifetimes =
            Lifetimes::new(Duration::from_secs(issue), Duration::from_secs(accept)).unwrap();
        let mut made = 0_u64;
        let mut next = || {
            made += 1;
            let mut name = [0; 16];
            name[..8].copy_from_slice(&made.to_be_bytes());
            KeyMaterial { name, secret: Zeroizing::new([7; 32]) }
        };
        let mut now = UnixTime(START);
        let mut ring = Ring::new(lifetimes, now, next());
        for step in steps {
            // Steps up to the lead: the longest pause that the door asks for.
            now = now + Duration::from_secs((lifetimes.lead().as_secs() * step / 100).max(1));
            let before = ring.clone();
            prop_assert!(ring.issuing(now).is_some(), "no gap before the ring turns");
            if let Some(turned) = ring.turn(now, &mut next) {
                ring = turned;
            }
            let issuing = ring.keys().iter().filter(|k| ring.duty(k, now) == Duty::Issue).count();
            prop_assert_eq!(issuing, 1);
            prop_assert!(ring.keys().len() <= MAX_KEYS);
            prop_assert!(ring.keys().iter().all(|k| ring.duty(k, now) != Duty::Retire));
            // What issued before is accepted for as long as promised.
            for key in before.keys() {
                if now < key.opens + lifetimes.issue() + lifetimes.accept() {
                    prop_assert!(ring.accepting(&key.name, now).is_some());
                }
            }
            prop_assert!(ring.turn(now, || material(0)).is_none(), "turning settles");
        }
    }

    #[test]
    fn export_and_import_keep_every_key(turns in 0_u64..200) {
        let mut made = 1;
        let mut ring = Ring::new(day_and_six(), at(0), material(1));
        for hour in 1..=turns {
            if let Some(next) = ring.turn(at(hour), || { made += 1; material(made) }) {
                ring = next;
            }
        }
        let bytes = ring.export();
        let back = Ring::import(&bytes).unwrap();
        prop_assert!(*back.export() == *bytes);
        prop_assert_eq!(back.lifetimes(), ring.lifetimes());
    }

    #[test]
    fn import_takes_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Ring::import(&bytes);
        let mut named = b"TGKR\x01".to_vec();
        named.extend_from_slice(&bytes);
        let _ = Ring::import(&named);
    }
}
