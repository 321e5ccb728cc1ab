//! Access logs of Tollgate, nginx and HAProxy: who resumed, when, and what cannot be told.
//!
//! Lines come from anywhere and may hold any bytes. Memory stays the same however long the log is.

mod advice;
mod fields;
mod format;
mod guess;
mod json;
mod recent;
mod report;
mod tally;
mod template;
#[cfg(test)]
mod tests;
mod time;

pub use advice::{HAPROXY_LOG_FORMAT, Missing, NGINX_LOG_FORMAT};
pub use format::{Format, FormatError, Product};
pub use report::{Count, Dip, Interval, Report, Strange};
pub use tally::{ENOUGH_HANDSHAKES, Options, Tally};
pub use time::Moment;

/// A longer line is not read; 64 KiB is more than nginx, HAProxy and Tollgate write with their defaults.
pub const LONGEST_LINE_BYTES: usize = 65_536;
