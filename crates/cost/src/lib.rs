//! The sheet: what TLS costs on one machine, in six tables, as `tollgate bench` measured it.
//!
//! Pure: no file, clock or socket. Text comes in, figures with their spread and origin go out.

mod figure;
mod measure;
mod sheet;

pub use figure::{Figure, Reference, Unit};
pub use measure::Measured;
pub use sheet::{Machine, PHASES, PhaseTable, Sheet};
