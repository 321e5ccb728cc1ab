//! One endpoint, as a person debugging sees it.
//!
//! A [`Prober`] makes single connections and says of each what was negotiated, what it took and what the
//! server sent. Whoever wants more than one connection asks for more.
//! Nothing is sent as early data that may not be sent twice.

mod chain;
mod delay;
pub mod diagnose;
mod error;
mod exchange;
mod explain;
mod files;
pub mod fleet;
mod link;
mod options;
mod paragraph;
mod prober;
mod profiles;
mod reach;
mod repeat;
mod report;
pub mod round_trips;
mod starttls;
mod text;
mod verdict;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use chain::{CertificateReport, Chain, INITIAL_WINDOW_BYTES, StapleReport};
pub use delay::DelayProxy;
pub use error::ProbeError;
pub use options::{EarlyData, MOST_EARLY_BYTES, ProbeOptions, ProxyHeader, Request, Target};
pub use prober::Prober;
pub use profiles::Profile;
pub use reach::resolve;
pub use repeat::{Gathered, Percentiles, Summary, Times};
pub use report::{Connection, EarlyDataOutcome, RoundTrips, Ticket};
pub use starttls::{StartTls, StartTlsError};
pub use text::Look;
pub use verdict::{Effort, Finding, WORTH_IT, Worth};

/// A result as one line, for programs.
pub trait JsonLine {
    /// JSON without a line break.
    fn json_line(&self) -> String;
}

impl<T: serde::Serialize> JsonLine for T {
    fn json_line(&self) -> String {
        // Every result here has text for keys and can be written.
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An address and port.
    Tcp(SocketAddr),
    /// A unix socket; a path that begins with `@` is an abstract name.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
