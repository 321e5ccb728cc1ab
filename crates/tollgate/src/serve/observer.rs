//! What this process knows of itself: taken once a second, shown by the console from this one place.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_console::view::{Live, Past};
use tollgate_console::{Answer, routes};
use tollgate_meter::Snapshot;

/// The present and the past of the process.
#[derive(Debug, Default)]
pub struct Observer {
    last: Option<Snapshot>,
}

impl Observer {
    /// Takes in what the workers have counted up to now.
    pub fn take(&mut self, snapshot: Snapshot) {
        self.last = Some(snapshot);
    }

    /// Everything at this moment; `None` before the first second.
    pub fn live(&self) -> Option<Live> {
        None
    }

    /// The last `seconds` as columns of at most `points`.
    pub fn past(&self, _seconds: f64, _points: usize) -> Option<Past> {
        None
    }

    /// `/metrics` or `/snapshot.json` of `snapshot`, which is newer than what was taken last.
    pub fn counts(&self, path: &str, accept: &str, snapshot: &Snapshot) -> Answer {
        routes(path, accept, snapshot)
    }
}

/// Seconds since 1970, with their fraction.
pub fn now_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
