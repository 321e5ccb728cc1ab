//! What one connection was: everything that a probe says, for people and for programs.

use std::fmt;

use serde::{Serialize, Serializer};
use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeKind, NamedGroup, SignatureScheme, TlsVersion,
};
use tollgate_tls::client::TicketSeen;

use super::chain::{Chain, StapleReport};

/// What became of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyDataOutcome {
    /// None was sent.
    NotAttempted,
    /// The server took it.
    Accepted,
    /// The server threw it away, and it was sent again after the handshake.
    NotAccepted,
}

impl fmt::Display for EarlyDataOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAttempted => "Not attempted",
            Self::Accepted => "accepted",
            Self::NotAccepted => "NOT accepted",
        })
    }
}

/// One ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ticket {
    /// How long the server says that it takes it.
    pub lifetime_seconds: u64,
    /// Length of the ticket.
    pub bytes: usize,
    /// Early data that it allows; 0 for none.
    pub early_data_bytes: u32,
}

impl From<TicketSeen> for Ticket {
    fn from(seen: TicketSeen) -> Self {
        Self {
            lifetime_seconds: seen.lifetime.as_secs(),
            bytes: seen.bytes,
            early_data_bytes: seen.early_data_bytes,
        }
    }
}

/// Round trips by what they were spent on. Counted by what had to be waited for, not by the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// The TCP handshake; 0 on a unix socket.
    pub tcp: u32,
    /// The dialogue in front of TLS.
    pub start_tls: u32,
    /// Flights of the server that had to be waited for.
    pub handshake: u32,
    /// The request, unless it went as early data.
    pub request: u32,
}

impl RoundTrips {
    /// All of them.
    pub fn total(self) -> u32 {
        self.tcp + self.start_tls + self.handshake + self.request
    }
}

/// One connection: what was negotiated, what it took, what the server sent.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    /// When it began, Unix time.
    pub timestamp_us: u64,
    /// `initial` or `resume`: what was tried, which `handshake_kind` may not be.
    pub name: String,
    /// The target as the user wrote it, without the port.
    pub target: String,
    /// What was connected to.
    pub endpoint: String,
    /// Endpoints that were tried before and refused, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_endpoints: Vec<String>,
    /// The name that was sent and that the certificate was checked for.
    pub server_name: String,
    /// Whether the certificate was checked at all.
    pub verified: bool,
    /// Whether early data was sent.
    pub sent_early_data: bool,
    /// Whether the server took it.
    pub early_data_accepted: bool,
    /// Both in one word.
    pub early_data: EarlyDataOutcome,
    /// Why none was sent, in words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data_reason: Option<String>,
    /// From the first attempt to connect until it was connected.
    pub connect_time_ms: f64,
    /// The dialogue in front of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_tls_time_ms: Option<f64>,
    /// From the ClientHello to the end of the handshake.
    pub handshake_time_ms: f64,
    /// Full or resumed.
    #[serde(rename = "handshake_kind", serialize_with = "kind")]
    pub kind: HandshakeKind,
    /// Whether the server asked for another key share first (HelloRetryRequest).
    pub hello_retry_request: bool,
    /// Why it was not resumed, when it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumption_miss: Option<&'static str>,
    /// The version.
    #[serde(rename = "protocol_version", serialize_with = "text")]
    pub version: TlsVersion,
    /// The suite, in its IANA spelling.
    #[serde(rename = "cipher_suite", serialize_with = "text")]
    pub suite: CipherSuite,
    /// The application protocol, if one was agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// The named group of the key exchange; none in resumed TLS 1.2.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional")]
    pub named_group: Option<NamedGroup>,
    /// The scheme of the server's signature; none when resumed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional")]
    pub signature_scheme: Option<SignatureScheme>,
    /// The kind of the server's certificate; none when resumed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional")]
    pub certificate_kind: Option<CertificateKind>,
    /// The certificates that were sent; none when resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    /// The longest flight of the server in the handshake, records and all.
    pub server_flight_bytes: usize,
    /// What fits the initial congestion window.
    pub initial_window_bytes: usize,
    /// What to trim when it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_advice: Option<String>,
    /// The stapled OCSP response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staple: Option<StapleReport>,
    /// Tickets that came.
    pub tickets: Vec<Ticket>,
    /// The JA4 fingerprint of the hello that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ja4: Option<String>,
    /// Round trips.
    pub round_trips: RoundTrips,
    /// The same in one number.
    pub round_trips_total: u32,
    /// From the end of the handshake, or from the request if that was later, to the first line of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_time_ms: Option<f64>,
    /// The first line of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_line: Option<String>,
    /// What came behind the first line, at most 1 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// From the first attempt to connect to the end of what was asked for.
    pub total_time_ms: f64,
}

impl Connection {
    /// `full`, `full (HelloRetryRequest)`, `resumed` or `resumed (HelloRetryRequest)`.
    pub fn kind_text(&self) -> &'static str {
        match (self.kind.is_resumed(), self.hello_retry_request) {
            (false, false) => "full",
            (false, true) => "full (HelloRetryRequest)",
            (true, false) => "resumed",
            (true, true) => "resumed (HelloRetryRequest)",
        }
    }

    /// The kind in the words of tlshake and rustls.
    pub(super) fn kind_word(kind: HandshakeKind) -> &'static str {
        match kind {
            HandshakeKind::Full => "Full",
            HandshakeKind::FullWithRetry => "FullWithHelloRetryRequest",
            HandshakeKind::Resumed(_) => "Resumed",
        }
    }
}

fn kind<S: Serializer>(kind: &HandshakeKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(Connection::kind_word(*kind))
}

fn text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn optional<S: Serializer>(
    value: &Option<impl fmt::Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
