//! Choosing, seen through the door; no test waits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tollgate_balance::{Balancer, Outcome, PassiveHealth, State, Strategy, Weight};

fn weights(weights: &[u32]) -> Vec<Weight> {
    weights.iter().copied().map(Weight::new).collect()
}

fn balancer(strategy: Strategy, shares: &[u32]) -> Balancer {
    Balancer::new(strategy, &weights(shares), PassiveHealth::default())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn fail(balancer: &mut Balancer, index: usize, times: usize, now: Instant) {
    for _ in 0..times {
        balancer.started(index);
        balancer.finished(index, Outcome::Failed, now);
    }
}

#[test]
fn turns_of_a_heavy_backend_are_spread_evenly() {
    let mut balancer = balancer(Strategy::RoundRobin, &[5, 1, 1]);
    let now = Instant::now();
    let turns: Vec<usize> = (0..7).map(|_| balancer.choose(now, &[]).unwrap()).collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn three_failures_in_a_row_leave_a_backend_alone_and_one_trial_brings_it_back() {
    let mut balancer = balancer(Strategy::RoundRobin, &[1, 1]);
    let start = Instant::now();
    fail(&mut balancer, 0, 2, start);
    balancer.started(0);
    balancer.finished(0, Outcome::Answered, start);
    fail(&mut balancer, 0, 2, start);
    assert_eq!(balancer.state(0), Some(State::Up), "not in a row");
    fail(&mut balancer, 0, 1, start);
    assert_eq!(balancer.state(0), Some(State::LeftAlone));
    for _ in 0..10 {
        assert_eq!(balancer.choose(start + seconds(4), &[]), Some(1));
    }
    let later = start + seconds(5);
    let turns: Vec<_> = (0..6)
        .map(|_| balancer.choose(later, &[]).unwrap())
        .collect();
    assert_eq!(
        turns.iter().filter(|&&index| index == 0).count(),
        1,
        "exactly one trial: {turns:?}"
    );
    assert_eq!(balancer.state(0), Some(State::OnTrial));
    balancer.answered(0);
    assert_eq!(balancer.state(0), Some(State::Up));
}

#[test]
fn a_failed_trial_starts_the_cooldown_again() {
    let mut balancer = balancer(Strategy::LeastConnections, &[1, 1]);
    let start = Instant::now();
    fail(&mut balancer, 0, 3, start);
    balancer.started(1);
    assert_eq!(balancer.choose(start + seconds(5), &[]), Some(0));
    fail(&mut balancer, 0, 1, start + seconds(6));
    assert_eq!(balancer.choose(start + seconds(10), &[]), Some(1));
    assert_eq!(balancer.choose(start + seconds(11), &[]), Some(0));
}

#[test]
fn a_trial_that_nobody_reports_on_is_repeated() {
    let mut balancer = balancer(Strategy::LeastConnections, &[1, 1]);
    let start = Instant::now();
    fail(&mut balancer, 0, 3, start);
    balancer.started(1);
    assert_eq!(balancer.choose(start + seconds(5), &[]), Some(0));
    assert_eq!(balancer.choose(start + seconds(9), &[]), Some(1));
    assert_eq!(balancer.choose(start + seconds(10), &[]), Some(0));
}

#[test]
fn late_failures_do_not_lengthen_the_cooldown() {
    let mut balancer = balancer(Strategy::LeastConnections, &[1, 1]);
    let start = Instant::now();
    fail(&mut balancer, 0, 3, start);
    fail(&mut balancer, 0, 1, start + seconds(4));
    balancer.started(1);
    assert_eq!(balancer.choose(start + seconds(5), &[]), Some(0));
}

#[test]
fn when_all_are_down_the_least_recently_failed_is_tried() {
    let mut balancer = balancer(Strategy::RoundRobin, &[1, 1, 1]);
    let start = Instant::now();
    for (index, second) in [(0, 2), (1, 0), (2, 1)] {
        fail(&mut balancer, index, 3, start + seconds(second));
    }
    let now = start + seconds(3);
    assert_eq!(balancer.choose(now, &[]), Some(1));
    assert_eq!(balancer.choose(now, &[1]), Some(2));
    assert_eq!(balancer.choose(now, &[1, 2]), Some(0));
    assert_eq!(
        balancer.choose(now, &[0, 1, 2]),
        None,
        "none is tried twice"
    );
}

#[test]
fn when_checks_took_all_down_they_are_tried_in_turn() {
    let mut balancer = balancer(Strategy::RoundRobin, &[1, 1]);
    balancer.set_checked(0, false);
    balancer.set_checked(1, false);
    let now = Instant::now();
    let turns: Vec<_> = (0..4).map(|_| balancer.choose(now, &[]).unwrap()).collect();
    assert_eq!(turns, [0, 1, 0, 1]);
    assert_eq!(balancer.state(0), Some(State::Down));
}

#[test]
fn a_check_that_finds_a_backend_up_ends_its_cooldown() {
    let mut balancer = balancer(Strategy::RoundRobin, &[1, 1]);
    let now = Instant::now();
    balancer.set_checked(0, false);
    fail(&mut balancer, 0, 3, now);
    balancer.set_checked(0, true);
    assert_eq!(balancer.state(0), Some(State::Up));
}

#[test]
fn passive_health_can_be_off() {
    let passive = PassiveHealth {
        failures: 0,
        ..PassiveHealth::default()
    };
    let mut balancer = Balancer::new(Strategy::RoundRobin, &weights(&[1, 1]), passive);
    fail(&mut balancer, 0, 100, Instant::now());
    assert_eq!(balancer.state(0), Some(State::Up));
}

#[test]
fn numbers_beyond_the_list_are_nobody() {
    let mut balancer = balancer(Strategy::RoundRobin, &[]);
    let now = Instant::now();
    balancer.started(3);
    balancer.finished(3, Outcome::Failed, now);
    balancer.set_checked(3, false);
    assert_eq!(balancer.choose(now, &[]), None);
    assert_eq!(balancer.state(3), None);
}

proptest! {
    #[test]
    fn a_round_gives_each_backend_exactly_its_weight(shares in prop::collection::vec(1_u32..=256, 1..12)) {
        let mut balancer = balancer(Strategy::RoundRobin, &shares);
        let now = Instant::now();
        let round: u32 = shares.iter().sum();
        let mut taken = vec![0_i64; shares.len()];
        for step in 1..=i64::from(round) {
            taken[balancer.choose(now, &[]).unwrap()] += 1;
            // Within a round nobody is ahead of, or behind, its share by more than one per backend.
            for (&took, &share) in taken.iter().zip(&shares) {
                let off = took * i64::from(round) - step * i64::from(share);
                prop_assert!(off.abs() <= i64::from(round) * shares.len() as i64);
            }
        }
        let expected: Vec<i64> = shares.iter().map(|&share| share.into()).collect();
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn open_connections_fill_up_by_weight(shares in prop::collection::vec(1_u32..=16, 1..8)) {
        let mut balancer = balancer(Strategy::LeastConnections, &shares);
        let now = Instant::now();
        for _ in 0..shares.iter().sum::<u32>() * 3 {
            let index = balancer.choose(now, &[]).unwrap();
            balancer.started(index);
        }
        for (index, share) in shares.iter().enumerate() {
            prop_assert_eq!(balancer.open(index), share * 3);
        }
    }

    #[test]
    fn idle_backends_take_turns_under_least_connections(count in 1_usize..10, rounds in 1_usize..10) {
        let mut balancer = balancer(Strategy::LeastConnections, &vec![1; count]);
        let now = Instant::now();
        let mut taken = vec![0; count];
        for _ in 0..count * rounds {
            let index = balancer.choose(now, &[]).unwrap();
            balancer.started(index);
            balancer.finished(index, Outcome::Answered, now);
            taken[index] += 1;
        }
        prop_assert_eq!(taken, vec![rounds; count]);
    }

    #[test]
    fn a_choice_is_never_excluded_and_never_down_while_another_is_up(
        events in prop::collection::vec((0_u8..6, 0_usize..4, 0_u64..3), 0..200),
        least in any::<bool>(),
    ) {
        let strategy = if least { Strategy::LeastConnections } else { Strategy::RoundRobin };
        let mut balancer = balancer(strategy, &[1, 2, 3, 4]);
        let mut now = Instant::now();
        for (what, index, pause) in events {
            now += seconds(pause);
            match what {
                0 => balancer.started(index),
                1 => balancer.finished(index, Outcome::Failed, now),
                2 => balancer.finished(index, Outcome::Answered, now),
                3 => balancer.set_checked(index, pause == 0),
                _ => {
                    let others_up = (0..4).any(|i| i != index && balancer.state(i) == Some(State::Up));
                    let chosen = balancer.choose(now, &[index]).unwrap();
                    prop_assert_ne!(chosen, index);
                    if others_up {
                        prop_assert_ne!(balancer.state(chosen), Some(State::Down));
                        prop_assert_ne!(balancer.state(chosen), Some(State::LeftAlone));
                    }
                }
            }
        }
    }
}
