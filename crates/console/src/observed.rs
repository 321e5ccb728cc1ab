//! What the views are made from.

use tollgate_cost::Sheet;
use tollgate_meter::alarms::AlarmState;
use tollgate_meter::{History, Interval, Snapshot};

/// Seconds that "now" stands for wherever a rate is shown.
pub(crate) const MINUTE: f64 = 60.0;

/// Everything that is known of a process at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What was counted up to now.
    pub snapshot: &'a Snapshot,
    /// The past; its last moment is at most some seconds old.
    pub history: &'a History,
    /// Every alarm that is evaluated.
    pub alarms: &'a [AlarmState],
    /// What `tollgate bench` measured on this machine; `None` where it did not.
    pub sheet: Option<&'a Sheet>,
    /// Seconds since 1970.
    pub now: f64,
}

impl Observed<'_> {
    /// The last minute, or since the start when that is less.
    pub(crate) fn minute(&self) -> Interval {
        self.history.over(MINUTE)
    }

    /// Cores that the workers can use: the smaller of their number and the cores of the process.
    pub fn cores(&self) -> f64 {
        let workers = self.snapshot.workers.len() as f64;
        match self.snapshot.process.cores {
            cores if cores > 0.0 => cores.min(workers),
            _ => workers,
        }
    }
}
