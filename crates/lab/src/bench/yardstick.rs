//! How fast the machine is at the moment: a fixed piece of work, timed around each figure.

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use tollgate_cost::Unit;

use super::runner::thread_cpu;

/// The readings of one phase.
pub(crate) struct Yardstick {
    readings: RefCell<Vec<f64>>,
    /// The one before the figure at work.
    before: Cell<Option<f64>>,
}

impl Yardstick {
    pub(crate) const fn new() -> Self {
        Self {
            readings: RefCell::new(Vec::new()),
            before: Cell::new(None),
        }
    }

    /// A figure is measured next, or several in one go.
    pub(crate) fn before(&self) {
        self.before.set(Some(self.read()));
    }

    /// A figure of this unit is measured: the readings around it, if it is a time.
    pub(crate) fn around(&self, unit: Unit) -> Option<[f64; 2]> {
        let after = match unit {
            Unit::Bytes | Unit::Count | Unit::Ratio => return None,
            Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::PerSecond => self.read(),
        };
        // What comes without a word of warning begins where the one before has ended.
        let before = self.before.get().unwrap_or(after);
        self.before.set(Some(before));
        Some([before, after])
    }

    /// All readings so far, in nanoseconds.
    pub(crate) fn readings(&self) -> Vec<f64> {
        self.readings.borrow().clone()
    }

    fn read(&self) -> f64 {
        let reading = yardstick();
        self.readings.borrow_mut().push(reading);
        reading
    }
}

/// Passes of one reading: the middle one counts.
const PASSES: usize = 21;

/// CPU time of a fixed piece of work, in nanoseconds: several chains of multiplications at once over 8 KB,
/// which shows what the processor and whoever shares it have left. More memory than the nearest cache holds
/// would show where its pages happen to lie: figures of 0.1 % spread came with readings twice as long.
///
/// The middle of several, as a figure is the middle of its repetitions; the first pass after a wait finds
/// caches cold and a core half asleep.
pub(crate) fn yardstick() -> f64 {
    const WORDS: usize = 1_024;
    let words = vec![black_box(0x9e37_79b9_7f4a_7c15_u64); WORDS];
    let mut passes = [0.0; PASSES].map(|_: f64| pass(&words));
    passes.sort_by(f64::total_cmp);
    passes[passes.len() / 2]
}

fn pass(words: &[u64]) -> f64 {
    let mut sums = [1_u64; 8];
    let begun = thread_cpu();
    for _ in 0..128 {
        for eight in words.chunks_exact(sums.len()) {
            for (sum, word) in sums.iter_mut().zip(eight) {
                *sum = sum.wrapping_mul(*word) ^ (*sum >> 29);
            }
        }
        sums = black_box(sums);
    }
    thread_cpu().saturating_sub(begun).as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_reading_on_each_side_and_sizes_have_none() {
        let yardstick = Yardstick::new();
        yardstick.before();
        assert_eq!(yardstick.around(Unit::Bytes), None);
        let one = yardstick.around(Unit::Nanoseconds);
        let other = yardstick.around(Unit::PerSecond);
        let readings = yardstick.readings();
        assert_eq!(readings.len(), 3, "one before both, one after each");
        assert_eq!(one, Some([readings[0], readings[1]]));
        assert_eq!(other, Some([readings[0], readings[2]]));
        assert!(readings.iter().all(|reading| *reading > 0.0));
    }
}
