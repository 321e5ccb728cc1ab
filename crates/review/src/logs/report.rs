//! What a log said, as plain data for people and programs.

use serde::Serialize;

use super::advice::Missing;
use super::format::Product;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Format in words; `None` when no line fitted any.
    pub format: Option<&'static str>,
    /// Whose log it is.
    pub product: Product,
    /// Lines that are not empty.
    pub lines_read: u64,
    /// Lines that the format fits.
    pub lines_understood: u64,
    /// Lines that it does not fit.
    pub lines_strange: u64,
    /// The first three of those.
    pub strange: Vec<Strange>,
    /// Lines outside of the period that was asked for.
    pub lines_outside: u64,
    /// Lines of requests and connections without TLS.
    pub lines_without_tls: u64,
    /// Lines of requests on connections that were counted before.
    pub lines_of_known_connections: u64,
    /// Time of the first line counted, RFC 3339, UTC.
    pub from: Option<String>,
    /// Time of the last one.
    pub until: Option<String>,
    /// Seconds between the two.
    pub period_seconds: Option<f64>,
    /// Handshakes, and how many of them resumed.
    pub handshakes: Count,
    /// Handshakes that did not complete, where the log tells.
    pub handshakes_failed: u64,
    /// How handshakes were told from requests, in words.
    pub counted_by: &'static str,
    /// By TLS version, most first.
    pub by_version: Vec<Count>,
    /// By cipher suite, most first.
    pub by_suite: Vec<Count>,
    /// By site, most first, at most ten.
    pub by_site: Vec<Count>,
    /// Sites beyond those.
    pub sites_more: usize,
    /// Width of an interval in seconds.
    pub interval_seconds: i64,
    /// Intervals with handshakes, in order.
    pub intervals: Vec<Interval>,
    /// The interval with the lowest hit rate, among those with enough handshakes.
    pub worst: Option<Interval>,
    /// Median of the hit rates of intervals with enough handshakes.
    pub hit_rate_median: Option<f64>,
    /// Times at which the hit rate was more than 20 points below the median.
    pub dips: Vec<Dip>,
    /// What the log cannot tell.
    pub missing: Vec<Missing>,
}

/// Handshakes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// Of what; empty, and left out, for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Full handshakes.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// Handshakes of which the log does not tell which.
    pub not_told: u64,
    /// Resumed in full and resumed, 0 to 1.
    pub hit_rate: Option<f64>,
}

impl Count {
    /// All handshakes.
    pub fn all(&self) -> u64 {
        self.full + self.resumed + self.not_told
    }
}

/// Handshakes in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its beginning, RFC 3339, UTC.
    pub start: String,
    /// Its handshakes.
    #[serde(flatten)]
    pub count: Count,
    /// Handshakes per second over the whole interval.
    pub handshakes_per_second: f64,
}

/// A stretch of time in which far fewer handshakes resumed than usual.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dip {
    /// Its beginning, RFC 3339, UTC.
    pub start: String,
    /// How long it lasted, in whole intervals.
    pub seconds: i64,
    /// The lowest hit rate of its intervals.
    pub hit_rate_lowest: f64,
    /// Handshakes per second while it lasted.
    pub handshakes_per_second: f64,
}

/// A line that the format does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Strange {
    /// Its number, from 1.
    pub line: u64,
    /// Why it does not fit.
    pub why: String,
    /// Its beginning, control characters replaced.
    pub text: String,
}
