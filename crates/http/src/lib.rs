//! HTTP/1.1 and HTTP/2, both roles: limits, framing, pooled backend connections, forwarding headers.
//!
//! The only room that names hyper. It refuses what client and backend could read differently, and
//! decides nothing else: which site, which backend, how often and how long is the caller's business.
//! Its input is a byte stream from either side; clocks, sockets and TLS are the caller's. Everything
//! belongs to one worker thread (`Rc`, `Cell`), and its futures must run on a `LocalSet`.

mod body;
mod client;
mod forward;
mod local;
mod page;
mod pool;
mod server;
mod simple;
mod trailers;
mod upgrade;
mod watch;
mod watched;

pub use body::{Body, BodyError, BodyObserver, End};
pub use client::{ClientLimits, Driver, Fault, SendError, Sender, handshake};
pub use forward::{
    Authority, BadGateway, ClientFacts, ForwardContext, Forwarded, ForwardedHeaders, Identity,
    Refusal, authority, forward_request, forward_response,
};
pub use hyper::body::Bytes;
pub use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use hyper::http::{request, response};
pub use hyper::{Method, Request, Response, StatusCode, Uri, Version};
pub use page::{plain, text};
pub use pool::{Checkout, Lease, Pool};
pub use server::{Closed, Ended, Protocol, ServerLimits, serve};
pub use simple::{AskError, Asker, serve_simple, serve_simple_over};
pub use upgrade::{Duplex, Tunnelled, bridge};
pub use watch::ConnectionWatch;
