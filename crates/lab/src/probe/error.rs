//! Why a probe has no result: where it stopped, what that means, and what to do.

use std::io;
use std::time::Duration;

use tollgate_tls::{Failure, FailureReason, MaterialError};

use super::{StartTlsError, explain};

/// Why a connection could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The question makes no sense; the message says why.
    #[error("{0}")]
    Input(String),
    /// A file of the question cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The system's words.
        source: io::Error,
    },
    /// A certificate, key or authority of the question cannot be used.
    #[error("{0}")]
    Material(#[from] MaterialError),
    /// The name has no address.
    #[error(
        "resolve: {host} has no address: {reason}; check the spelling, or name one with --endpoint"
    )]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// No address could be connected to.
    #[error("connect: {}; check the address and the port, and that the server is up", .0.join("; "))]
    Connect(Vec<String>),
    /// The dialogue in front of TLS failed.
    #[error("STARTTLS: {0}")]
    StartTls(#[from] StartTlsError),
    /// The handshake failed.
    #[error("handshake: {failure}{}", explain::behind(failure))]
    Handshake {
        /// Why.
        failure: Failure,
    },
    /// The server ended the connection within the handshake, without an alert.
    #[error("handshake: {}", explain::CLOSED)]
    Closed,
    /// The handshake was complete, and then the request failed.
    #[error("request: {0}")]
    Request(String),
    /// The socket failed while something was sent before the handshake.
    #[error("{phase}: {source}")]
    Io {
        /// What was being done.
        phase: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// It took too long.
    #[error("{phase}: nothing within {} s; raise --timeout if the server is that slow", after.as_secs_f64())]
    Timeout {
        /// What was being waited for.
        phase: &'static str,
        /// How long.
        after: Duration,
    },
}

impl ProbeError {
    /// Whether the question was wrong, rather than the server.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Input(_) | Self::File { .. } | Self::Material(_) => true,
            Self::Resolve { .. }
            | Self::Connect(_)
            | Self::StartTls(_)
            | Self::Handshake { .. }
            | Self::Closed
            | Self::Request(_)
            | Self::Io { .. }
            | Self::Timeout { .. } => false,
        }
    }

    /// Why the handshake failed, if that is what failed.
    pub fn handshake_reason(&self) -> Option<FailureReason> {
        match self {
            Self::Handshake { failure } => Some(failure.reason()),
            Self::Closed => Some(FailureReason::Closed),
            _ => None,
        }
    }
}
