//! Read-only views of a process: Prometheus text, JSON for programs, and the page's files.
//!
//! Pure functions of what was observed: serves nothing, counts nothing, changes nothing, reads no clock. The caller
//! listens, asks the workers, keeps the past and sends the answer. Formulas are `cost`'s, alarms are `meter`'s.

mod assets;
mod boxes;
mod definitions;
mod exposition;
mod families;
mod json;
mod live;
mod observed;
mod past;
mod price;
pub mod view;

pub use assets::{Asset, asset};
pub use definitions::{MetricDefinition, MetricKind, definitions};
pub use families::{open_metrics, prometheus};
pub use json::json;
pub use live::live;
pub use observed::Observed;
pub use past::past;
pub use price::price;

/// A response without its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code: 200 or 404.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// The answer to a GET of `path`, which may carry a query, with this `Accept` header (empty when there is none).
///
/// `/metrics` is OpenMetrics for those who accept it and Prometheus text for everybody else. The files of the
/// page are [`asset`]s.
pub fn routes(path: &str, accept: &str, observed: &Observed<'_>) -> Answer {
    let path = path.split('?').next().unwrap_or_default();
    let (status, content_type, body) = match path {
        "/metrics" if accept.contains("application/openmetrics-text") => (
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            open_metrics(observed),
        ),
        "/metrics" => (
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            prometheus(observed),
        ),
        "/snapshot.json" => (200, "application/json", json(observed.snapshot)),
        "/healthz" => (200, "text/plain; charset=utf-8", "ok\n".to_owned()),
        _ => (
            404,
            "text/plain; charset=utf-8",
            "nothing here; there are /metrics, /snapshot.json and /healthz\n".to_owned(),
        ),
    };
    Answer {
        status,
        content_type,
        body,
    }
}
