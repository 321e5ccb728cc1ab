//! Why an operation failed.

use std::fmt;
use std::io;

use tollgate_http::{Fault, SendError};
use tollgate_tls::Failure;

use super::response::Refusal;

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection could not be made.
    Connect(io::Error),
    /// The socket failed later.
    Io(io::Error),
    /// TLS failed.
    Tls(Failure),
    /// The server ended the connection before the response was whole.
    Closed,
    /// The response is of no use.
    Response(Refusal),
    /// The HTTP room could not send the request.
    Send(SendError),
    /// The HTTP room could not read the response.
    Body,
    /// It took too long.
    Timeout,
}

/// A name with few values, fit to be counted by.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "connect: {}", error.kind()),
            Self::Io(error) => write!(f, "socket: {}", error.kind()),
            Self::Tls(failure) => write!(f, "tls: {}", failure.reason().name()),
            Self::Closed | Self::Send(SendError::Stale | SendError::Unsent(_)) => {
                f.write_str("closed_by_server")
            }
            Self::Response(refusal) => write!(f, "{refusal}"),
            Self::Send(SendError::Failed(Fault::Malformed(_))) => {
                f.write_str("response_cannot_be_read")
            }
            Self::Send(SendError::Failed(Fault::Closed(_) | Fault::Switched)) => {
                f.write_str("broken_off_before_response")
            }
            Self::Send(SendError::RequestBody(_)) => f.write_str("request_body_not_taken"),
            Self::Body => f.write_str("response_cut_short"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Response(refusal)
    }
}
