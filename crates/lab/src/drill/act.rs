//! What a stretch of the drill was like: the load's pieces and the instance's seconds put together.

use std::time::{Duration, Instant};

use super::loading::{Loading, Piece};
use super::report::{Act, ActCores, Point, Recovery};
use super::watching::{Sample, Watching, firing, mean};

/// A second that the instance tells of began this much before it was told, at most.
const LAG: Duration = Duration::from_millis(1_300);
/// How much of the load a hit rate is looked at over.
const LATELY: Duration = Duration::from_secs(1);

/// The act between two moments.
pub(super) fn act(
    name: &str,
    loading: &Loading,
    watching: &Watching,
    from: Instant,
    to: Instant,
) -> Act {
    // Only seconds that lie in the act whole.
    let samples = watching.between(from + LAG, to);
    summary(name, &loading.between(from, to), &samples)
}

fn summary(name: &str, pieces: &[Piece], samples: &[Sample]) -> Act {
    let seconds: f64 = pieces.iter().map(|piece| piece.moment.seconds).sum();
    let operations = sum(pieces, |piece| piece.moment.operations);
    let cpu: Option<f64> = pieces
        .iter()
        .map(|piece| Some(piece.moment.server_cores? * piece.moment.seconds))
        .sum();
    let seen = mean(samples);
    let cores = seen.map_or(ActCores::default(), |seen| seen.cores);
    let times = times(pieces);
    Act {
        name: name.to_owned(),
        seconds,
        operations,
        per_second: operations as f64 / seconds.max(1e-9),
        failures: sum(pieces, |piece| piece.moment.failures),
        p50_micros: quantile(&times, 0.5),
        p99_micros: quantile(&times, 0.99),
        hit_rate: hit_rate(pieces),
        instance_hit_rate: seen.and_then(|seen| seen.hit_rate()),
        cores,
        process_cores: cpu.map(|cpu| cpu / seconds.max(1e-9)),
        micros_per_full: seen
            .filter(|seen| seen.resumed_per_second == 0.0 && seen.full_per_second > 0.0)
            .map(|seen| 1e6 * (cores.asymmetric + cores.derivation) / seen.full_per_second),
        alarms: samples
            .last()
            .map_or_else(Vec::new, |last| firing(&last.live)),
    }
}

fn sum(pieces: &[Piece], of: impl Fn(&Piece) -> u64) -> u64 {
    pieces.iter().map(of).sum()
}

/// Resumed over all handshakes; `None` without one.
pub(super) fn hit_rate(pieces: &[Piece]) -> Option<f64> {
    let full = sum(pieces, |piece| piece.moment.full);
    let resumed = sum(pieces, |piece| piece.moment.resumed);
    (full + resumed > 0).then(|| resumed as f64 / (full + resumed) as f64)
}

/// All times of operations, shortest first, with how often each was.
fn times(pieces: &[Piece]) -> Vec<(u64, u64)> {
    let all = pieces.iter().flat_map(|piece| &piece.moment.times);
    let mut times: Vec<(u64, u64)> = all.copied().collect();
    times.sort_unstable();
    times
}

/// The value below which `share` of all are.
pub(super) fn quantile(times: &[(u64, u64)], share: f64) -> Option<u64> {
    let all: u64 = times.iter().map(|(_, count)| count).sum();
    let wanted = (all as f64 * share).ceil().max(1.0) as u64;
    let mut passed = 0;
    times.iter().find_map(|(micros, count)| {
        passed += count;
        (passed >= wanted).then_some(*micros)
    })
}

/// How long after `since` the hit rate of the last second was `wanted` or more again.
pub(super) fn recovered(loading: &Loading, since: Instant, wanted: f64) -> Recovery {
    let pieces = loading.between(since, Instant::now());
    Recovery {
        hit_rate: wanted,
        seconds: first_over(&pieces, since, wanted),
    }
}

fn first_over(pieces: &[Piece], since: Instant, wanted: f64) -> Option<f64> {
    let mut begin = 0;
    for (number, piece) in pieces.iter().enumerate() {
        while pieces[begin].at + LATELY <= piece.at {
            begin += 1;
        }
        let whole = piece.at.saturating_duration_since(since) >= LATELY.mul_f64(0.95);
        if whole && hit_rate(&pieces[begin..=number]).is_some_and(|rate| rate >= wanted) {
            return Some((piece.at - since).as_secs_f64());
        }
    }
    None
}

/// The drill second by second, counted from `change`.
pub(super) fn curve(
    loading: &Loading,
    watching: &Watching,
    from: Instant,
    change: Instant,
) -> Vec<Point> {
    let now = Instant::now();
    let mut points = Vec::new();
    let mut begin = from;
    while begin + LATELY <= now {
        let end = begin + LATELY;
        let pieces = loading.between(begin, end);
        let seen = watching.between(end, end + LATELY);
        let seconds: f64 = pieces.iter().map(|piece| piece.moment.seconds).sum();
        let operations = sum(&pieces, |piece| piece.moment.operations);
        points.push(Point {
            at_seconds: match end >= change {
                true => (end - change).as_secs_f64(),
                false => -(change - end).as_secs_f64(),
            },
            per_second: operations as f64 / seconds.max(1e-9),
            hit_rate: hit_rate(&pieces),
            p99_micros: quantile(&times(&pieces), 0.99),
            failures: sum(&pieces, |piece| piece.moment.failures),
            cores: mean(&seen).map(|seen| seen.cores.workers),
        });
        begin = end;
    }
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;
    use crate::Moment;

    fn piece(at: Instant, full: u64, resumed: u64) -> Piece {
        Piece {
            at,
            moment: Moment {
                at_seconds: 0.0,
                seconds: 0.1,
                operations: full + resumed,
                per_second: 0.0,
                p50_micros: None,
                p99_micros: None,
                failures: 0,
                full,
                resumed,
                hit_rate: None,
                body_bytes: 0,
                server_cores: Some(0.5),
                times: vec![(300, full), (100, resumed)],
            },
        }
    }

    #[test]
    fn recovery_is_the_first_whole_second_that_is_over_the_threshold() {
        let since = Instant::now();
        let pieces: Vec<Piece> = (1..60)
            .map(|tenth| {
                let at = since + Duration::from_millis(100 * tenth);
                if tenth <= 20 {
                    piece(at, 10, 0)
                } else {
                    piece(at, 1, 9)
                }
            })
            .collect();
        let seconds = |wanted| first_over(&pieces, since, wanted);
        assert!(
            (seconds(0.9).unwrap() - 3.0).abs() < 0.11,
            "{:?}",
            seconds(0.9)
        );
        let earlier = seconds(0.4).unwrap();
        assert!((2.4..2.7).contains(&earlier), "{earlier}");
        assert_eq!(seconds(0.95), None);
    }

    #[test]
    fn an_act_adds_up_its_pieces() {
        let at = Instant::now();
        let summary = summary("before", &[piece(at, 10, 90), piece(at, 10, 90)], &[]);
        assert_eq!((summary.operations, summary.failures), (200, 0));
        assert_eq!(summary.hit_rate, Some(0.9));
        assert_eq!(
            (summary.p50_micros, summary.p99_micros),
            (Some(100), Some(300))
        );
        assert!((summary.process_cores.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(summary.instance_hit_rate, None);
    }

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let times = [(10, 50), (20, 49), (5_000, 1)];
        assert_eq!(quantile(&times, 0.5), Some(10));
        assert_eq!(quantile(&times, 0.99), Some(20));
        assert_eq!(quantile(&times, 1.0), Some(5_000));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
