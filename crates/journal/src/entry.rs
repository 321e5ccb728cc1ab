//! What one line says, as plain data.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_terms::HandshakeFacts;

/// A text that a client sent is cut after this many bytes.
pub const LONGEST_TEXT_BYTES: usize = 8_192;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A request was answered, or given up.
    Request,
    /// A connection in tcp or passthrough mode ended.
    Connection,
    /// A handshake did not complete.
    HandshakeFailed,
    /// A connection was not served at all.
    Refused,
}

impl Event {
    /// `"request"`, `"connection"`, `"handshake_failed"` or `"refused"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::HandshakeFailed => "handshake_failed",
            Self::Refused => "refused",
        }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Everything was delivered.
    Complete,
    /// The client went away.
    ClientClosed,
    /// The client stayed under the minimum rate.
    ClientStalled,
    /// No backend could be reached, or none answered.
    BackendFailed,
    /// The backend broke off in its answer.
    BackendTruncated,
    /// A time limit was reached.
    Timeout,
    /// The process or configuration was going away.
    Drained,
    /// Anything else; `error` says what.
    Error,
}

impl End {
    /// The name in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientClosed => "client_closed",
            Self::ClientStalled => "client_stalled",
            Self::BackendFailed => "backend_failed",
            Self::BackendTruncated => "backend_truncated",
            Self::Timeout => "timeout",
            Self::Drained => "drained",
            Self::Error => "error",
        }
    }
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A peer on a unix socket, which has no address.
    Unix,
}

/// One line. Fields are in the order in which they are written; what is `None` is left out.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub time_millis: u64,
    /// What happened.
    pub event: Event,
    /// Listener, by address.
    pub listener: Option<Arc<str>>,
    /// Site.
    pub site: Option<Arc<str>>,
    /// Number of the worker.
    pub worker: Option<usize>,
    /// Who connected; with a PROXY header, who that names.
    pub client: Option<Peer>,
    /// `server_name` as sent, where there is no handshake to tell it (passthrough, failures).
    pub server_name: Option<Arc<str>>,
    /// What the handshake was: `server_name`, the `tls_` fields, `alpn` and `client_subject`.
    pub handshake: Option<Arc<HandshakeFacts>>,
    /// Whether the request came as early data.
    pub early_data: Option<bool>,
    /// `HTTP/1.1`, `HTTP/2`, `tcp` or `passthrough`.
    pub protocol: Option<&'static str>,
    /// Request method.
    pub method: Option<Cow<'static, str>>,
    /// `Host` or `:authority`, as sent.
    pub host: Option<Box<[u8]>>,
    /// Path and query, as sent.
    pub path: Option<Box<[u8]>>,
    /// Status code of the response.
    pub status: Option<u16>,
    /// Bytes of the request body, or received from the client.
    pub request_bytes: Option<u64>,
    /// Bytes of the response body, or sent to the client.
    pub response_bytes: Option<u64>,
    /// Backend that answered, by address.
    pub backend: Option<Arc<str>>,
    /// Further backends that were tried before.
    pub retries: Option<u32>,
    /// Wall time of the handshake in microseconds.
    pub handshake_us: Option<u64>,
    /// Wall time until the backend began to answer, or was connected, in microseconds.
    pub backend_us: Option<u64>,
    /// Wall time of all of it in microseconds.
    pub total_us: Option<u64>,
    /// How it ended.
    pub end: Option<End>,
    /// What went wrong.
    pub error: Option<Cow<'static, str>>,
}

impl Entry {
    /// An entry that says nothing but what and when.
    pub fn new(event: Event, time_millis: u64) -> Self {
        Self {
            time_millis,
            event,
            listener: None,
            site: None,
            worker: None,
            client: None,
            server_name: None,
            handshake: None,
            early_data: None,
            protocol: None,
            method: None,
            host: None,
            path: None,
            status: None,
            request_bytes: None,
            response_bytes: None,
            backend: None,
            retries: None,
            handshake_us: None,
            backend_us: None,
            total_us: None,
            end: None,
            error: None,
        }
    }
}
