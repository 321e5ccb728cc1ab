//! The client side of TLS: load.
//!
//! [`run`] drives one server and says what came of it: how many operations, how long
//! they took, what the handshakes really were, and what the watched processes paid. It never reports
//! what it was asked for in place of what it got: a run that missed its regime says so.
//! [`backend`] is the plaintext server to measure against.
//!
//! Reads the clock and `/proc`; input from the server is bounded and never trusted.

pub mod backend;
pub mod bench;
pub mod drill;
mod load;
pub mod probe;
mod watch;

pub use load::{
    Additive, Bar, EarlyDataCount, Ending, HandshakeCount, Handshakes, LoadError, LoadOptions,
    LoadResult, Look, MixPart, Mode, Moment, PartResult, Seen, ServerCost, ServerHandshakes,
    Spread, read_sources, run, run_watched,
};
pub use watch::{Cpu, Watched};
