//! What requests per handshake were in the last minutes.

use std::collections::VecDeque;

use crate::alarms::seen::{ENOUGH_PER_SECOND, Seen};

/// How far back the greatest value is looked for, in seconds.
const WINDOW: f64 = 300.0;
/// How long a value from before the fall is held against what follows; then what follows is what is usual.
const GRUDGE: f64 = 3_600.0;
/// More values than a window has when it is judged once a second.
const MOST: usize = 1_000;

/// Requests per handshake of the last five minutes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    past: VecDeque<(f64, f64)>,
    /// When the fall was first seen, and from where it was.
    fallen: Option<(f64, f64)>,
}

impl Memory {
    /// Takes in what was seen, and answers with the value to compare it with; `None` when nothing is known.
    ///
    /// While the alarm is undecided or fires, that is the value from before the fall: else a level that
    /// stays low would be the usual one after five minutes, and the alarm gone.
    pub fn take(&mut self, now: f64, seen: &Seen, undecided: bool) -> Option<f64> {
        while self
            .past
            .front()
            .is_some_and(|(at, _)| now - at > WINDOW || self.past.len() > MOST)
        {
            self.past.pop_front();
        }
        let enough = seen.handshakes_per_second() >= ENOUGH_PER_SECOND;
        if let (true, Some(ratio)) = (enough, seen.requests_per_handshake) {
            self.past.push_back((now, ratio));
        }
        if !undecided {
            self.fallen = None;
        } else if self.fallen.is_none() {
            self.fallen = self.greatest().map(|ratio| (now, ratio));
        }
        if let Some((since, ratio)) = self.fallen {
            if now - since <= GRUDGE {
                return Some(ratio);
            }
            self.fallen = None;
            self.past.drain(..self.past.len().saturating_sub(1));
        }
        self.greatest()
    }

    fn greatest(&self) -> Option<f64> {
        self.past.iter().map(|(_, ratio)| *ratio).reduce(f64::max)
    }
}
