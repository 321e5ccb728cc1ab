//! TLS, and the only room that names rustls: hello reading, handshakes in both roles, certificates,
//! tickets, sessions.
//!
//! A connection's way: [`read_hello`] -> choose a [`ServerSite`] -> [`handshake`] -> [`TlsStream`].
//! Under the sockets, [`Handshake`] and [`Session`] are bytes in and bytes out.
//! The library shakes hands; from the first record after that on, keys and records are ours.
//!
//! Refuses early data, renegotiation, suites without forward secrecy, and whatever has no AEAD. Opens no
//! socket, file or clock: streams, PEM bytes, ticket keys and the [`Clock`] are handed in. Input from the
//! network never panics and never makes memory grow without bound; futures belong to one thread.

mod buffers;
mod choice;
pub mod client;
mod failure;
pub mod hello;
mod ledger;
pub mod material;
mod opening;
pub mod primitives;
mod provider;
mod records;
mod resumption;
mod server;
mod session;
mod sessions;
mod shaking;
mod stream;
pub mod timing;
mod trace;
mod updates;

pub use buffers::Buffers;
pub use client::{BackendTlsPolicy, ClientSite, connect};
pub use failure::{Failure, FailureReason, Side};
pub use hello::{ClientHello, HelloError, MAX_HELLO_BYTES};
pub use ledger::{Clocks, RecordWay, Records, Spent, Taken};
pub use material::{Certificate, ClientTrust, MaterialError, MaterialFinding};
pub use opening::{Heard, HelloFailure, alert_bytes, handshake, read_hello};
pub use provider::DEFAULT_SUITES;
pub use resumption::{Clock, Resumption, ResumptionSettings};
pub use server::{ClientPolicy, Handshake, Progress, ServerSite, SitePolicy, Step};
pub use session::{Closed, Received, Session};
pub use sessions::SessionCache;
pub use stream::TlsStream;

#[cfg(test)]
mod tests;
