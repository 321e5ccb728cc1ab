//! What a plan says.

use serde::Serialize;

use super::Input;

/// How much a workload needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// What went in, each with its origin.
    pub inputs: Vec<Input>,
    /// CPU by phase.
    pub cores_by_phase: Vec<CoresTerm>,
    /// All of them together; 0 when nothing that takes CPU was asked for.
    pub cores: f64,
    /// The same at 50 % and at 0 % hits; empty without handshakes.
    pub at_hits: Vec<AtHits>,
    /// Full handshakes per second that one core does; `None` when their cost is not known.
    pub full_per_second_per_core: Option<f64>,
    /// Memory by phase.
    pub memory_by_phase: Vec<MemoryTerm>,
    /// Least of all of them together, in bytes.
    pub memory_low_bytes: f64,
    /// Most of all of them together, in bytes.
    pub memory_high_bytes: f64,
    /// The largest part; `None` when nothing was asked for.
    pub binds: Option<Binding>,
    /// What clients wait for, that early data would spare; `None` without a round trip.
    pub waiting: Option<Waiting>,
    /// What is true about all of this, a sentence each.
    pub notes: Vec<String>,
}

/// CPU of one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoresTerm {
    /// Phases, such as `1` or `1, 2`.
    pub phase: String,
    /// What takes it.
    pub what: String,
    /// How much.
    pub cores: f64,
    /// How it comes about.
    pub arithmetic: String,
    /// Where its figures are from, in short.
    pub from: Vec<String>,
}

/// What another hit rate would need.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtHits {
    /// The hit rate, 0 to 1.
    pub hits: f64,
    /// Cores, all phases; `None` when a cost is not known that only this hit rate needs.
    pub cores: Option<f64>,
    /// How it comes about, or what is missing.
    pub arithmetic: String,
}

/// Memory of one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryTerm {
    /// The phase.
    pub phase: String,
    /// What takes it.
    pub what: String,
    /// At least.
    pub low_bytes: f64,
    /// At most; equal to `low_bytes` when it is one value.
    pub high_bytes: f64,
    /// How it comes about.
    pub arithmetic: String,
    /// Where its figures are from, in short.
    pub from: Vec<String>,
}

/// What there is most of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    /// `CPU` or `memory`, with the part.
    pub what: String,
    /// Its share of all CPU or memory, 0 to 1.
    pub share: f64,
    /// How it comes about.
    pub arithmetic: String,
}

/// Time that clients wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// Seconds of waiting per second, of all clients together.
    pub seconds_per_second: f64,
    /// How it comes about.
    pub arithmetic: String,
}
