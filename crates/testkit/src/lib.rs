//! Development only: a certificate authority for tests, folders that clean up after themselves,
//! ports that nobody else has, a TLS client, and small backends that run on threads of their own.
//!
//! The backends speak real sockets (TCP, unix path and abstract, TLS), count what reached them, and
//! can be told by the request path to behave badly: to cut an answer short, to send two lengths, to
//! die in the middle. Nothing here is built for speed and nothing may be used by product code.
//! Input comes from the tests; a fixture that cannot be made ends the test with a panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "development only: a fixture that cannot be made is a failed test"
)]

mod authority;
mod backend;
mod bytes_backend;
mod client;
mod folder;
mod h2c;
mod http1;
mod request;
mod socket;

pub use authority::{Authority, Leaf, LeafKind, Validity};
pub use backend::{Backend, BackendTls, Seen};
pub use bytes_backend::{recording_backend, tcp_echo_backend};
pub use client::{Client, Offer, TlsConnection};
pub use folder::{Folder, free_port};
pub use h2c::{H2cBackend, h2c_backend};
pub use http1::http_backend;
pub use request::{ReadError, Request};
pub use socket::{Address, Socket};
