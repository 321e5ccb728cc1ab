//! Counters and histograms, one writer each, and the one snapshot shape.
//!
//! A [`Meter`] belongs to one worker: plain numbers, no lock, no atomic, no allocation after the first of a
//! kind. A scrape asks each worker for a clone, makes [`Snapshot`]s of them elsewhere and merges those.
//! Reads no clock: times are handed in. What clients send never becomes a label: every label is one of a
//! fixed set, a name from the configuration, or `other`.

mod counts;
mod histogram;
mod labels;
mod meter;
mod names;
mod snapshot;

pub use histogram::{BOUNDS_MICROS, Histogram};
pub use labels::Direction;
pub use meter::Meter;
pub use names::{MeterNames, NOWHERE, Places};
pub use snapshot::{
    BackendFact, BackendFailureLabels, ByteLabels, CertificateFact, ConnectionLabels,
    HandshakeFailureLabels, HandshakeLabels, KindLabel, ListenerLabel, MissLabels, OpenConnections,
    ProcessFacts, RefusalLabels, RequestLabels, Series, SiteLabel, Snapshot, Timing, WorkerCounts,
};
