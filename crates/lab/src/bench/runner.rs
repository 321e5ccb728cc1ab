//! Timing one operation: CPU time of this thread, in batches, with the price of the clock taken off.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tollgate_cost::{Figure, Measured, Unit};

use super::{Bench, BenchError};

/// A batch shorter than this would show the clock rather than the operation.
const LONGEST_BATCH: Duration = Duration::from_millis(2);
/// The least that a batch may take when there is little time for a figure.
const SHORTEST_BATCH: Duration = Duration::from_micros(100);
/// Fewest repetitions of a figure; fewer give no useful interval.
const LEAST_BATCHES: usize = 15;
/// More repetitions than this narrow the interval no further than the machine drifts.
const MOST_BATCHES: usize = 400;

impl Bench<'_> {
    /// CPU time of this thread per call of `op`, in nanoseconds.
    ///
    /// One batch of calls takes at least 2 ms (less when `per_figure` is under 50 ms), so that the clock
    /// does not show; there are at least 15 batches, and as many as fit into `per_figure`. Both calls of
    /// the clock are taken off. The first error of `op` ends it.
    pub(crate) fn time(
        &self,
        id: impl Into<String>,
        label: impl Into<String>,
        how: impl Into<String>,
        op: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<Figure, BenchError> {
        let label = label.into();
        self.yardstick.before();
        let samples = self.batches(op)?;
        Ok(Figure {
            id: id.into(),
            measured: measured(&label, &samples)?,
            label,
            unit: Unit::Nanoseconds,
            how: how.into(),
            reference: None,
            yardstick_nanoseconds: self.yardstick.around(Unit::Nanoseconds),
        })
    }

    /// The same per byte, for an `op` that handles `bytes` of them.
    pub(crate) fn time_bytes(
        &self,
        id: impl Into<String>,
        label: impl Into<String>,
        how: impl Into<String>,
        bytes: u64,
        op: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<Figure, BenchError> {
        let figure = self.time(id, label, how, op)?;
        Ok(Figure {
            unit: Unit::NanosecondsPerByte,
            measured: figure.measured.scaled(1.0 / bytes.max(1) as f64),
            ..figure
        })
    }

    /// A figure from samples that were taken in another way than by [`Bench::time`].
    pub(crate) fn figure(
        &self,
        id: impl Into<String>,
        label: impl Into<String>,
        how: impl Into<String>,
        unit: Unit,
        samples: &[f64],
    ) -> Result<Figure, BenchError> {
        let label = label.into();
        Ok(Figure {
            id: id.into(),
            measured: measured(&label, samples)?,
            label,
            unit,
            how: how.into(),
            reference: None,
            yardstick_nanoseconds: self.yardstick.around(unit),
        })
    }

    /// A figure that does not vary.
    pub(crate) fn exact(
        &self,
        id: impl Into<String>,
        label: impl Into<String>,
        how: impl Into<String>,
        unit: Unit,
        value: f64,
    ) -> Figure {
        Figure {
            id: id.into(),
            label: label.into(),
            unit,
            measured: Measured::exact(value),
            how: how.into(),
            reference: None,
            yardstick_nanoseconds: None,
        }
    }

    /// Nanoseconds per call, one for each batch.
    fn batches(
        &self,
        mut op: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<Vec<f64>, BenchError> {
        let clock = clock_cost();
        let shortest = (self.per_figure / 25).clamp(SHORTEST_BATCH, LONGEST_BATCH);
        let begun = Instant::now();
        let mut calls = 1_u32;
        // Also warms the caches: the batches that were too short are not counted.
        let first = loop {
            let took = batch(&mut op, calls)?;
            if took >= shortest || calls >= 1 << 30 {
                break took;
            }
            calls = next_size(calls, took, shortest);
        };
        let per_call =
            |took: Duration| (took.as_nanos() as f64 - clock.median).max(0.0) / f64::from(calls);
        let mut samples = Vec::with_capacity(MOST_BATCHES);
        // A single long call that was also the first is cold; it is not counted either.
        if calls > 1 {
            samples.push(per_call(first));
        }
        while samples.len() < LEAST_BATCHES
            || (begun.elapsed() < self.per_figure && samples.len() < MOST_BATCHES)
        {
            samples.push(per_call(batch(&mut op, calls)?));
        }
        Ok(samples)
    }
}

/// What reading the CPU clock of a thread costs between two readings, in nanoseconds. Measured once.
pub fn clock_cost() -> Measured {
    static COST: OnceLock<Measured> = OnceLock::new();
    *COST.get_or_init(|| {
        let samples: Vec<f64> = (0..501)
            .map(|_| {
                let first = thread_cpu();
                let second = thread_cpu();
                second.saturating_sub(first).as_nanos() as f64
            })
            .collect();
        // 501 finite samples always have a median.
        Measured::of(&samples).unwrap_or(Measured::exact(0.0))
    })
}

/// CPU time that this thread has taken so far.
pub(crate) fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// CPU time of `calls` calls, with two readings of the clock in it.
fn batch(
    op: &mut impl FnMut() -> Result<(), BenchError>,
    calls: u32,
) -> Result<Duration, BenchError> {
    let before = thread_cpu();
    for _ in 0..calls {
        op()?;
    }
    Ok(thread_cpu().saturating_sub(before))
}

/// Calls for the next try when `calls` took `took` and `shortest` is wanted: at least twice as many, at
/// most a hundred times, with a tenth to spare.
fn next_size(calls: u32, took: Duration, shortest: Duration) -> u32 {
    let factor = shortest.as_nanos() as f64 * 1.1 / took.as_nanos().max(1) as f64;
    (f64::from(calls) * factor.clamp(2.0, 100.0)).ceil() as u32
}

fn measured(label: &str, samples: &[f64]) -> Result<Measured, BenchError> {
    Measured::of(samples).ok_or_else(|| BenchError::Broken {
        what: label.to_owned(),
        reason: format!("{} samples gave no finite median", samples.len()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn quick() -> Bench<'static> {
        Bench::new(Duration::from_millis(10), &|_, _| ())
    }

    /// Work that the compiler cannot drop, in proportion to `rounds`.
    fn work(rounds: u32) -> Result<(), BenchError> {
        let mut sum = 0_u64;
        for round in 0..rounds {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(u64::from(round)));
        }
        std::hint::black_box(sum);
        Ok(())
    }

    #[test]
    fn ten_times_the_work_takes_about_ten_times_the_cpu_time() {
        let one = quick().time("a", "a", "test", || work(1_000)).unwrap();
        let ten = quick().time("b", "b", "test", || work(10_000)).unwrap();
        assert!(one.measured.n >= 15 && one.measured.low > 0.0);
        let ratio = ten.measured.median / one.measured.median;
        assert!((5.0..20.0).contains(&ratio), "{one:?} {ten:?}");
    }

    #[test]
    fn waiting_is_not_counted() {
        let figure = quick()
            .time("wait", "wait", "test", || {
                std::thread::sleep(Duration::from_millis(3));
                work(200_000)
            })
            .unwrap();
        let busy = quick()
            .time("work", "work", "test", || work(200_000))
            .unwrap();
        // The wait alone is 3 ms; the CPU time of starting it is far below a millisecond.
        assert!(figure.measured.median < busy.measured.median + 2e6);
    }

    #[test]
    fn a_price_per_byte_is_the_price_of_the_call_shared_out() {
        let call = quick().time("a", "a", "test", || work(10_000)).unwrap();
        let byte = quick()
            .time_bytes("b", "b", "test", 1_000, || work(10_000))
            .unwrap();
        assert_eq!(byte.unit, Unit::NanosecondsPerByte);
        let ratio = call.measured.median / byte.measured.median;
        assert!((500.0..2_000.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_first_error_ends_the_measurement() {
        let mut left = 40;
        let result = quick().time("a", "a", "test", || {
            left -= 1;
            if left == 0 {
                return Err(BenchError::Broken {
                    what: "a".into(),
                    reason: "out".into(),
                });
            }
            work(100)
        });
        assert!(result.is_err());
        assert_eq!(left, 0);
    }

    #[test]
    fn reading_the_clock_has_a_price_below_a_millisecond() {
        let cost = clock_cost();
        assert!(cost.median >= 0.0 && cost.median < 1e6, "{cost:?}");
    }
}
