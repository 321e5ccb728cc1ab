//! What the threads of a run share: when it begins to count, and when it is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::tally::Tally;

/// A tally that the thread which counts shares with the one that reports.
pub(crate) type SharedTally = Arc<Mutex<Tally>>;

/// The tally, whatever became of another thread that held it.
pub(crate) fn counting(tally: &SharedTally) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    WarmUp,
    Measured,
    Over,
}

/// Whether an operation has taken one of those that a run is limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It has, or there is no limit.
    Taken,
    /// It began in the warm-up, and takes one if it ends in the measured window.
    Open,
}

/// The signals of a run, from the one who conducts it to all who work and back.
pub(crate) struct Control {
    stage: watch::Sender<Stage>,
    /// The same as the last stage, but cheap to look at.
    over: AtomicBool,
    limit: Option<u64>,
    started: AtomicU64,
    finished: AtomicU64,
    /// Lanes that have all their held connections open, or whatever else they need.
    ready: AtomicU64,
    news: Notify,
}

impl Control {
    /// For a run that ends after `limit` operations at the latest.
    pub(crate) fn new(limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            stage: watch::Sender::new(Stage::WarmUp),
            over: AtomicBool::new(false),
            limit,
            started: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            news: Notify::new(),
        })
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.over.store(stage == Stage::Over, Ordering::Relaxed);
        self.stage.send_replace(stage);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Waits until the run has come to `stage` or beyond.
    pub(crate) async fn reached(&self, stage: Stage) {
        // The sender is part of this, so it cannot be gone.
        let _ = self.stage.subscribe().wait_for(|now| *now >= stage).await;
    }

    /// Whether another operation may begin. Those of the warm-up do not use up the limit.
    pub(crate) fn may_start(&self) -> Option<Slot> {
        if self.limit.is_some() && *self.stage.borrow() == Stage::WarmUp {
            return Some(Slot::Open);
        }
        self.take_slot().then_some(Slot::Taken)
    }

    /// Whether an operation that has ended in the measured window is within the limit.
    pub(crate) fn may_count(&self, slot: Slot) -> bool {
        match slot {
            Slot::Taken => true,
            Slot::Open => self.take_slot(),
        }
    }

    fn take_slot(&self) -> bool {
        self.limit
            .is_none_or(|limit| self.started.fetch_add(1, Ordering::Relaxed) < limit)
    }

    /// One more operation has ended and counts; the last one is news.
    pub(crate) fn finish(&self) {
        let finished = 1 + self.finished.fetch_add(1, Ordering::Relaxed);
        if self.limit.is_some_and(|limit| finished >= limit) {
            self.news.notify_one();
        }
    }

    /// Whether the limit is reached.
    pub(crate) fn is_used_up(&self) -> bool {
        self.limit
            .is_some_and(|limit| self.finished.load(Ordering::Relaxed) >= limit)
    }

    /// A lane has what it needs, or has opened all that it shall hold.
    pub(crate) fn lane_is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// Waits until so many lanes have said that they are ready.
    pub(crate) async fn lanes_ready(&self, wanted: u64) {
        while self.ready.load(Ordering::Relaxed) < wanted {
            self.news.notified().await;
        }
    }

    /// Waits until the limit of operations is reached; for ever without one.
    pub(crate) async fn used_up(&self) {
        while !self.is_used_up() {
            self.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_of_the_warm_up_takes_its_place_when_it_ends_in_the_window() {
        let control = Control::new(Some(2));
        let early = control.may_start();
        assert_eq!(early, Some(Slot::Open));
        control.enter(Stage::Measured);
        assert_eq!(control.may_start(), Some(Slot::Taken));
        assert!(control.may_count(Slot::Open));
        assert_eq!(control.may_start(), None, "two have begun that will count");
        assert!(!control.may_count(Slot::Open));
        control.finish();
        assert!(!control.is_used_up());
        control.finish();
        assert!(control.is_used_up());
    }

    #[test]
    fn without_a_limit_everything_counts() {
        let control = Control::new(None);
        assert_eq!(control.may_start(), Some(Slot::Taken));
        assert!(control.may_count(Slot::Open));
        control.finish();
        assert!(!control.is_used_up());
    }
}
