//! The sheet: what TLS costs on one machine, in six tables, as `tollgate bench` measured it; and every formula over it.
//!
//! Pure: no file, clock or socket. Text comes in, figures with their spread and origin go out.

mod compare;
mod figure;
mod measure;
pub mod plan;
mod price;
mod read;
mod sheet;

pub use compare::{Change, Compared, Comparison, Difference, compare};
pub use figure::{Figure, Reference, Unit};
pub use measure::Measured;
pub use price::{LiveMix, MixEntry, PriceOfMiss, cores_at, price};
pub use read::SheetError;
pub use sheet::{Machine, PHASES, PhaseTable, SHEET_VERSION, Sheet, Steadiness};

#[cfg(test)]
mod tests;
