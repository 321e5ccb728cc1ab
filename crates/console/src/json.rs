//! The snapshot as JSON.

use serde::Serialize;
use tollgate_meter::{BOUNDS_MICROS, Snapshot};

#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    snapshot: &'a Snapshot,
    worker_imbalance: Option<f64>,
    /// Upper bounds of the histograms' buckets; the last bucket has none.
    bucket_bounds_micros: &'a [u64],
}

/// The snapshot as one JSON object, with what is derived from it.
pub fn json(snapshot: &Snapshot) -> String {
    let view = View {
        snapshot,
        worker_imbalance: snapshot.worker_imbalance(),
        bucket_bounds_micros: &BOUNDS_MICROS,
    };
    // Plain data with text keys always serialises; should that ever change, an empty object says so.
    serde_json::to_string(&view).unwrap_or_else(|_| "{}".to_owned())
}
