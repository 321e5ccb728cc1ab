//! The cryptography of a handshake and of records in single pieces, for whoever wants to know what
//! each costs. The pieces are the ones that connections use: the same provider, the same wrappers
//! around it, the same tickets and the same records; nothing here is a copy made for measuring.
//!
//! Reads no clock: `now` is handed in, and timing is the caller's business.

mod chain;
mod exchange;
mod records;
mod schedule;
mod signing;
mod staple;
mod tickets;

pub use chain::{Issued, Revocation, ServedChain, issue};
pub use exchange::{ClientShare, KeyExchange};
pub use records::{RecordPair, seal};
pub use schedule::{Hash, Schedule12, Schedule13, Transcripts};
pub use signing::{SignatureKey, SignatureKind};
pub use tickets::Tickets;

/// Why a primitive cannot be made or did not do what it is there for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct PrimitiveError {
    /// What was tried, such as `sign with rsa-2048`.
    pub what: String,
    /// The library's words, or ours.
    pub reason: String,
}

fn broken(what: impl Into<String>, reason: impl std::fmt::Display) -> PrimitiveError {
    PrimitiveError {
        what: what.into(),
        reason: reason.to_string(),
    }
}
