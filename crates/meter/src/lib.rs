//! Counters and histograms, one writer each, and the one snapshot shape.
//!
//! A [`Meter`] belongs to one worker: plain numbers, no lock, no atomic, no allocation after the first of a
//! kind. A scrape asks each worker for a clone, makes [`Snapshot`]s of them elsewhere and merges those.
//! Reads no clock: times are handed in. What clients send never becomes a label: every label is one of a
//! fixed set, a name from the configuration, or `other`.

pub mod alarms;
mod counts;
mod distribution;
mod histogram;
mod history;
mod labels;
mod ledger;
mod merge;
mod meter;
mod names;
mod snapshot;
mod unknown;

pub use distribution::{
    Distribution, LIFETIME_BOUNDS_MILLIS, REQUESTS_BOUNDS, TICKET_AGE_BOUNDS_MILLIS,
};
pub use histogram::{BOUNDS_MICROS, Histogram};
pub use history::{
    Configuration, HandshakePart, Held, History, HistoryMark, Interval, Open, RecordTotals, Totals,
    VersionTotals, WorkerPart,
};
pub use labels::{Direction, RecordDirection};
pub use meter::Meter;
pub use names::{MeterNames, NOWHERE, Places};
pub use snapshot::{
    BackendFact, BackendFailureLabels, ByteLabels, CertificateFact, ConnectionLabels, CpuByPhase,
    HandshakeFailureLabels, HandshakeLabels, HandshakeSeries, HeldBytes, KeyLabel, KindLabel,
    Lifetimes, ListenerLabel, LookUps, MethodLabels, MissLabels, OpenConnections, ProcessFacts,
    RecordSeries, RefusalLabels, RequestLabels, SchemeLabel, Series, SiteLabel, Snapshot, Tickets,
    Timing, WorkerCounts,
};
