//! What TLS costs on this machine: one file per phase, and the experiments around them.

mod aes_hardware;
pub mod allocators;
pub mod app;
mod assembly;
mod asymmetric;
pub mod certs;
mod chart;
mod conclusions;
mod connection_memory;
mod derivation;
pub(crate) mod driving;
pub mod explain;
mod fetch;
mod figures;
pub mod flame;
pub(crate) mod folder;
pub mod folk;
mod handshake_memory;
mod in_memory;
mod in_process;
mod machine;
mod matrix;
pub mod memory_table;
mod records;
pub mod regimes;
pub mod report;
mod resumption;
mod runner;
pub mod serving;
pub mod speed;
mod steps;
pub mod text;
pub mod tps;
pub mod uds;
mod yardstick;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use assembly::{Effort, SheetOptions, Stage, phases, sheet};
pub use driving::certificate_from_word;
pub use runner::clock_cost;
use yardstick::Yardstick;

/// What a measurement may spend, and whom it tells how far it is.
pub struct Bench<'a> {
    /// About how long one figure may take.
    pub per_figure: Duration,
    /// Told before each figure: what is measured next, and the share of the phase that is done (0 to 1).
    progress: &'a dyn Fn(&str, f64),
    /// How fast the machine is: looked at around each figure.
    yardstick: Yardstick,
}

impl<'a> Bench<'a> {
    /// Measurements that take about `per_figure` each; `progress` is told before each of them what comes,
    /// and the share of the phase that is done (0 to 1).
    pub const fn new(per_figure: Duration, progress: &'a dyn Fn(&str, f64)) -> Self {
        Self {
            per_figure,
            progress,
            yardstick: Yardstick::new(),
        }
    }

    /// What is measured next, and the share of the phase that is done.
    pub(crate) fn next(&self, what: &str, share: f64) {
        (self.progress)(what, share);
        self.yardstick.before();
    }
}

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A primitive did not do what it is there for.
    #[error("{what} does not work here: {reason}")]
    Broken {
        /// What was measured.
        what: String,
        /// Why it is of no use.
        reason: String,
    },
    /// The system refused something.
    #[error("{what}: {source}; {hint}")]
    System {
        /// What was tried.
        what: String,
        /// The system's words.
        source: std::io::Error,
        /// What to do about it.
        hint: String,
    },
    /// A load run inside could not begin.
    #[error(transparent)]
    Load(#[from] crate::LoadError),
}
