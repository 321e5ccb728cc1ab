//! How much a workload needs: cores and memory by phase, from unit costs that are given or measured.
//!
//! In: a workload and unit costs, each with its origin. Out: terms whose arithmetic stands beside them, in one line that
//! a pocket calculator can check. To that end figures are rounded first, and computed with as they are shown. What is
//! needed and not known is named, never guessed.

mod answer;
mod costs;
mod migrate;
mod nodes;
mod origin;
mod presets;
mod shape;
#[cfg(test)]
mod tests;

pub use answer::plan;
pub use costs::{Choice, UnitCosts};
pub use migrate::{Migration, migrate};
pub use nodes::{Fleet, Nodes, Use};
pub use origin::{Input, Known, KnownBytes, Missing, Origin};
pub use presets::{Preset, presets};
pub use shape::{AtHits, Binding, CoresTerm, MemoryTerm, Plan, Waiting};

/// What is to be served. `None` means that it was not said, and adds nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// New connections per second, each with a handshake.
    pub connections_per_second: Option<f64>,
    /// Share of the handshakes that resume, 0 to 1.
    pub hits: Option<f64>,
    /// Application data sent, in 1,000,000,000 bits per second.
    pub gigabits_per_second: Option<f64>,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// Bytes sent per request.
    pub bytes_per_request: Option<f64>,
    /// New connections per request, 0 to 1.
    pub connections_per_request: Option<f64>,
    /// Connections held open at the same time.
    pub connections: Option<f64>,
    /// Handshakes in flight at the same time; goes before `handshake_seconds`.
    pub in_flight: Option<f64>,
    /// How long a handshake is in flight.
    pub handshake_seconds: Option<f64>,
    /// A round trip that each request waits for, unless its data is sent early.
    pub round_trip_seconds: Option<f64>,
    /// Where all of this is from.
    pub origin: Origin,
}

impl Workload {
    /// Handshakes per second, of connections by themselves and of those that requests open.
    pub fn handshakes_per_second(&self) -> f64 {
        let opened =
            self.requests_per_second.unwrap_or(0.0) * self.connections_per_request.unwrap_or(0.0);
        crate::price::round(self.connections_per_second.unwrap_or(0.0) + opened, 2)
    }
}
