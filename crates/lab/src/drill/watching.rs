//! The instance's own figures, looked at several times a second while the drill goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::live::{ConsoleAt, Live};
use super::report::{ActCores, AlarmSeen};

/// What was seen at a moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) live: Live,
    /// Whether it tells of a second that the one before did not tell of.
    pub(super) new_second: bool,
}

struct Seen {
    console: ConsoleAt,
    samples: Vec<Sample>,
}

/// A thread that looks; ends when dropped.
pub(super) struct Watching {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Begins to look every `interval`. An instance that does not answer for a while leaves a gap.
    pub(super) fn start(console: ConsoleAt, interval: Duration) -> std::io::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen {
            console,
            samples: Vec::new(),
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            std::thread::Builder::new()
                .name("drill-watch".into())
                .spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        look(&seen);
                        std::thread::park_timeout(interval);
                    }
                })?
        };
        Ok(Self {
            seen,
            stop,
            thread: Some(thread),
        })
    }

    /// Looks elsewhere from now on.
    pub(super) fn move_to(&self, console: ConsoleAt) {
        lock(&self.seen).console = console;
    }

    /// What was seen last.
    pub(super) fn latest(&self) -> Option<Live> {
        let seen = lock(&self.seen);
        seen.samples.last().map(|sample| sample.live.clone())
    }

    /// What was seen in `from..=to`.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Vec<Sample> {
        let seen = lock(&self.seen);
        let in_it = |sample: &&Sample| sample.at >= from && sample.at <= to;
        seen.samples.iter().filter(in_it).cloned().collect()
    }

    /// Names of the alarms that fire now.
    pub(super) fn firing(&self) -> Vec<String> {
        self.latest().map_or_else(Vec::new, |live| firing(&live))
    }

    /// Alarms that fired after `change`, and when they were quiet after `back`.
    pub(super) fn alarms(&self, change: Instant, back: Instant) -> Vec<AlarmSeen> {
        alarms(&self.between(change, Instant::now()), change, back)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; if it did, its samples stand.
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look(seen: &Mutex<Seen>) {
    let console = lock(seen).console.clone();
    let Ok(live) = console.live() else {
        return;
    };
    let at = Instant::now();
    let mut seen = lock(seen);
    // A figure that was asked for before the instance changed is of the old one.
    if seen.console == console {
        let new_second = seen
            .samples
            .last()
            .is_none_or(|last| last.live.second != live.second);
        seen.samples.push(Sample {
            at,
            live,
            new_second,
        });
    }
}

/// Names of the alarms that fire.
pub(super) fn firing(live: &Live) -> Vec<String> {
    let firing = live.alarms.iter().filter(|alarm| alarm.state == "firing");
    let mut names: Vec<String> = firing.map(|alarm| alarm.name.clone()).collect();
    names.dedup();
    names
}

/// The mean of the seconds that were seen, each by its length; with the handshakes per second in them.
pub(super) fn mean(samples: &[Sample]) -> Option<Mean> {
    let mut sum = Mean::default();
    for sample in samples.iter().filter(|sample| sample.new_second) {
        let second = &sample.live.second;
        let weight = second.seconds;
        let cores = &second.cores;
        sum.seconds += weight;
        sum.full_per_second += weight * second.full_per_second;
        sum.resumed_per_second += weight * second.resumed_per_second;
        sum.cores.asymmetric += weight * cores.asymmetric;
        sum.cores.derivation += weight * cores.derivation;
        sum.cores.records += weight * cores.records;
        sum.cores.not_tls += weight * cores.not_tls;
        sum.cores.workers += weight * cores.workers;
    }
    let over = |sum_of: f64| sum_of / sum.seconds;
    (sum.seconds > 0.0).then(|| Mean {
        seconds: sum.seconds,
        full_per_second: over(sum.full_per_second),
        resumed_per_second: over(sum.resumed_per_second),
        cores: ActCores {
            asymmetric: over(sum.cores.asymmetric),
            derivation: over(sum.cores.derivation),
            records: over(sum.cores.records),
            not_tls: over(sum.cores.not_tls),
            workers: over(sum.cores.workers),
        },
    })
}

/// A mean over several seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) seconds: f64,
    pub(super) full_per_second: f64,
    pub(super) resumed_per_second: f64,
    pub(super) cores: ActCores,
}

impl Mean {
    /// Handshakes per second, full and resumed.
    pub(super) fn handshakes(&self) -> f64 {
        self.full_per_second + self.resumed_per_second
    }

    /// Share of the resumed; `None` without a handshake.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        (self.handshakes() > 0.0).then(|| self.resumed_per_second / self.handshakes())
    }
}

fn alarms(samples: &[Sample], change: Instant, back: Instant) -> Vec<AlarmSeen> {
    let mut found: Vec<AlarmSeen> = Vec::new();
    for sample in samples {
        let now = &sample.live.alarms;
        for alarm in now.iter().filter(|alarm| alarm.state == "firing") {
            let known = found
                .iter_mut()
                .find(|seen| seen.name == alarm.name && seen.subject == alarm.subject);
            match known {
                // It fires again, so it was not quiet for good.
                Some(known) => known.quiet_after_seconds = None,
                None => found.push(AlarmSeen {
                    name: alarm.name.clone(),
                    subject: alarm.subject.clone(),
                    raised_after_seconds: (sample.at - change).as_secs_f64(),
                    quiet_after_seconds: None,
                    sentence: alarm.sentence.clone(),
                }),
            }
        }
        for known in &mut found {
            let fires = now.iter().any(|alarm| {
                alarm.state == "firing"
                    && alarm.name == known.name
                    && alarm.subject == known.subject
            });
            if !fires && known.quiet_after_seconds.is_none() {
                let since = sample.at.saturating_duration_since(back);
                known.quiet_after_seconds = Some(since.as_secs_f64());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;
    use crate::drill::live::{Alarm, Rates};

    fn sample(at: Instant, state: &str, full_per_second: f64, seconds: f64) -> Sample {
        Sample {
            at,
            new_second: true,
            live: Live {
                second: Rates {
                    seconds,
                    full_per_second,
                    ..Rates::default()
                },
                alarms: vec![Alarm {
                    name: "hit_rate_low".into(),
                    state: state.into(),
                    ..Alarm::default()
                }],
                ..Live::default()
            },
        }
    }

    #[test]
    fn an_alarm_is_timed_from_the_change_and_from_the_way_back() {
        let change = Instant::now();
        let at = |seconds| change + Duration::from_secs(seconds);
        let states = [
            (1, "quiet"),
            (2, "pending"),
            (4, "firing"),
            (12, "firing"),
            (13, "quiet"),
            (14, "quiet"),
        ];
        let samples: Vec<_> = states
            .map(|(seconds, state)| sample(at(seconds), state, 0.0, 1.0))
            .into();
        let seen = alarms(&samples, change, at(10));
        assert_eq!(seen.len(), 1);
        assert!((seen[0].raised_after_seconds - 4.0).abs() < 1e-6);
        assert!((seen[0].quiet_after_seconds.unwrap() - 3.0).abs() < 1e-6);
        let seen = alarms(&samples[..4], change, at(10));
        assert_eq!(seen[0].quiet_after_seconds, None);
    }

    #[test]
    fn a_mean_counts_each_second_once_and_by_its_length() {
        let at = Instant::now();
        let mut samples = vec![
            sample(at, "quiet", 100.0, 1.0),
            sample(at, "quiet", 100.0, 1.0),
            sample(at, "quiet", 400.0, 0.5),
        ];
        samples[1].new_second = false;
        let mean = mean(&samples).unwrap();
        assert!((mean.full_per_second - 200.0).abs() < 1e-9);
        assert_eq!(mean.hit_rate(), Some(0.0));
        assert!(super::mean(&[]).is_none());
    }
}
