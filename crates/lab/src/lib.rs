//! The client side of TLS: load.
//!
//! [`run`] drives one server from one thread and says what came of it: how many operations, how long
//! they took, what the handshakes really were, and what the watched processes paid. It never reports
//! what it was asked for in place of what it got: a run that missed its regime says so.
//! [`backend`] is the plaintext server to measure against.
//!
//! Reads the clock and `/proc`; input from the server is bounded and never trusted.

pub mod backend;
pub mod bench;
mod connection;
mod load;
mod options;
mod response;
mod result;
mod tally;
mod watch;

pub use load::{LoadError, run};
pub use options::{LoadOptions, Mode};
pub use result::{HandshakeCount, Handshakes, LoadResult, ServerCost, Spread};
pub use watch::{Cpu, Watched};
