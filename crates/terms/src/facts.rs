//! What one handshake turned out to be.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    CertificateKind, CipherSuite, CpuTime, NamedGroup, ServerName, SignatureScheme, TlsVersion,
};

/// Full or resumed, as negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandshakeKind {
    /// Certificate and signature were sent.
    Full,
    /// A full handshake after a HelloRetryRequest (TLS 1.3).
    FullWithRetry,
    /// An earlier session or pre-shared key was taken up.
    Resumed(ResumptionMethod),
}

impl HandshakeKind {
    /// `"full"`, `"full_with_retry"` or `"resumed"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::FullWithRetry => "full_with_retry",
            Self::Resumed(_) => "resumed",
        }
    }

    /// Whether an earlier session was taken up.
    pub fn is_resumed(self) -> bool {
        matches!(self, Self::Resumed(_))
    }
}

/// How a resumed handshake found its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResumptionMethod {
    /// A self-contained ticket (TLS 1.2 `SessionTicket` or TLS 1.3 pre-shared key).
    Ticket,
    /// State kept by the server (TLS 1.2 session id, or TLS 1.3 pre-shared key with stored state).
    SessionCache,
}

impl ResumptionMethod {
    /// `"ticket"` or `"session_cache"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::SessionCache => "session_cache",
        }
    }
}

/// Why a handshake was full although it could have been resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResumptionMiss {
    /// The client offered neither a ticket, a pre-shared key nor a session id that was ours to find.
    NothingOffered,
    /// The ticket or session was older than its lifetime.
    Expired,
    /// The ticket names a key that this server does not hold (any more).
    UnknownKey,
    /// The ticket was not of our making or was changed on the way.
    Malformed,
    /// Made for another site.
    OtherSite,
    /// Made under another client-certificate policy.
    PolicyChanged,
    /// The session id is not in the cache.
    NotInCache,
    /// State was found but could not be used for this hello (suite, version, name or binder).
    NotUsable,
}

impl ResumptionMiss {
    /// A label value in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingOffered => "nothing_offered",
            Self::Expired => "expired",
            Self::UnknownKey => "unknown_key",
            Self::Malformed => "malformed",
            Self::OtherSite => "other_site",
            Self::PolicyChanged => "policy_changed",
            Self::NotInCache => "not_in_cache",
            Self::NotUsable => "not_usable",
        }
    }
}

/// A client certificate that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Subject distinguished name, RFC 4514 text.
    pub subject: String,
    /// Common name of the subject; empty when there is none.
    pub common_name: String,
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the DER certificate, lower-case hexadecimal.
    pub fingerprint_sha256: String,
    /// DNS and URI subject alternative names, in certificate order.
    pub alternative_names: Vec<String>,
}

/// What one completed handshake was: the record that metrics, access log and headers are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// Negotiated version.
    pub version: TlsVersion,
    /// Negotiated suite.
    pub suite: CipherSuite,
    /// Group of the key exchange; `None` for a resumed TLS 1.2 handshake, which has none.
    pub group: Option<NamedGroup>,
    /// Full or resumed.
    pub kind: HandshakeKind,
    /// Why it is not resumed; `None` when it is.
    pub miss: Option<ResumptionMiss>,
    /// Kind of certificate sent; `None` when resumed.
    pub certificate: Option<CertificateKind>,
    /// Scheme of the server's signature; `None` when resumed.
    pub signature: Option<SignatureScheme>,
    /// `server_name` as sent; `None` when absent.
    pub server_name: Option<ServerName>,
    /// Application protocol agreed by ALPN, such as `h2`; `None` when none was.
    pub alpn: Option<Arc<str>>,
    /// Verified client certificate, from this handshake or the one that it resumes.
    pub client: Option<Box<ClientIdentity>>,
    /// How long ago the ticket or stored session was made that was taken up, in whole seconds; `None`
    /// when the handshake is full, and to a client.
    pub ticket_age: Option<Duration>,
    /// Whether the client offered early data.
    pub early_data_offered: bool,
}

/// What one handshake took of our own CPU, in its two phases. Waiting and the kernel are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCost {
    /// Key exchange and signature.
    pub asymmetric: CpuTime,
    /// Everything else: parsing, key schedule, transcript, certificates, tickets.
    pub derivation: CpuTime,
}

impl HandshakeCost {
    /// Both phases together.
    pub fn total(self) -> CpuTime {
        CpuTime(self.asymmetric.0.saturating_add(self.derivation.0))
    }
}

impl AddAssign for HandshakeCost {
    fn add_assign(&mut self, other: Self) {
        self.asymmetric += other.asymmetric;
        self.derivation += other.derivation;
    }
}

/// Who can act on a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Culprit {
    /// The peer that connected to us.
    Client,
    /// The server that we connect to.
    Backend,
    /// Whoever wrote the configuration.
    Operator,
    /// The machine: out of file descriptors, memory, disk.
    Host,
    /// A defect of ours.
    Us,
}

impl Culprit {
    /// A label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Operator => "operator",
            Self::Host => "host",
            Self::Us => "us",
        }
    }
}
