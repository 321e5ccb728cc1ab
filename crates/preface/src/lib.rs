//! The PROXY protocol, versions 1 and 2: read from the start of a connection, written to a backend.
//!
//! Pure: bytes in, a value out. Decides nothing about whom to believe; the caller asks only for
//! connections from addresses that it trusts. Input is the network: nothing here panics, a version 1
//! line is at most 107 bytes, a version 2 header at most [`MAX_V2_BYTES`].
//!
//! Source: "The PROXY protocol, versions 1 & 2", HAProxy's doc/proxy-protocol.txt; sections below are its.

mod checksum;
mod kinds;
mod v1;
mod v2;
mod write;

use std::net::SocketAddr;

use tollgate_terms::Culprit;

pub use kinds::*;
pub use write::{Outgoing, OutgoingTls, write_local_v2, write_unknown_v1, write_v1, write_v2};

/// Most bytes of a version 1 line with its CRLF (section 2.1).
pub const MAX_V1_BYTES: usize = 107;

/// Most bytes of a version 2 header that is read here, TLVs included.
pub const MAX_V2_BYTES: usize = 4096;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The beginning of a header; ask again with more bytes.
    Incomplete,
    /// No header: these bytes belong to the protocol that the listener serves.
    Absent,
    /// A whole header.
    Complete {
        /// What it says.
        header: Header,
        /// Its bytes; what follows belongs to the client.
        length: usize,
    },
    /// A header that breaks the rules; the connection must be closed (section 2).
    Malformed(PrefaceError),
}

/// What a proxy in front says about its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The client; `None` when unknown, a unix socket, or a datagram.
    pub source: Option<SocketAddr>,
    /// The address that the client connected to; `None` as for `source`.
    pub destination: Option<SocketAddr>,
    /// The proxy speaks for itself (a health check): the addresses of the connection are the true ones.
    pub local: bool,
    /// Type and value of each TLV in order; empty for version 1.
    pub tlvs: Vec<(u8, Vec<u8>)>,
}

/// TLS of the connection between client and proxy, from the TLV 0x20 (section 2.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncomingTls {
    /// The client connected over TLS.
    pub over_tls: bool,
    /// The client sent a certificate on this connection.
    pub certificate_sent: bool,
    /// The client sent a certificate in this TLS session, perhaps on an earlier connection.
    pub certificate_in_session: bool,
    /// The client's certificate was verified.
    pub verified: bool,
    /// Such as `TLSv1.3`.
    pub version: Option<String>,
    /// Common name of the client's certificate.
    pub common_name: Option<String>,
    /// Cipher suite.
    pub suite: Option<String>,
}

impl Header {
    /// Value of the first TLV of this type.
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        v2::first(&self.tlvs, kind)
    }

    /// The application protocol agreed by ALPN, such as `h2`.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tlv(TLV_ALPN)
    }

    /// The host name that the client asked for, when it is text.
    pub fn authority(&self) -> Option<&str> {
        std::str::from_utf8(self.tlv(TLV_AUTHORITY)?).ok()
    }

    /// TLS between client and proxy; `None` when the header does not tell.
    pub fn tls(&self) -> Option<IncomingTls> {
        v2::incoming_tls(self.tlv(TLV_TLS)?)
    }
}

/// Why a PROXY header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefaceError {
    /// No CRLF within 107 bytes.
    #[error("a PROXY v1 line over 107 bytes")]
    LineTooLong,
    /// A CR without LF, or LF without CR.
    #[error("a PROXY v1 line that does not end in CRLF")]
    LineEnd,
    /// A protocol other than `TCP4`, `TCP6` and `UNKNOWN`.
    #[error("a PROXY v1 protocol other than TCP4, TCP6 and UNKNOWN")]
    Protocol,
    /// Not exactly two addresses and two ports with single spaces between.
    #[error("a PROXY v1 line without exactly two addresses and two ports, one space before each")]
    Fields,
    /// An address that is none of the protocol's family.
    #[error("a PROXY v1 address that does not belong to its protocol")]
    Address,
    /// A port that is not a decimal number of 0 to 65535 without leading zeros.
    #[error("a PROXY v1 port that is not 0 to 65535 in plain decimal")]
    Port,
    /// A version other than 2 behind the binary signature.
    #[error("PROXY version {0} behind the version 2 signature")]
    Version(u8),
    /// A command other than LOCAL (0) and PROXY (1).
    #[error("PROXY v2 command {0}, where 0 and 1 are known")]
    Command(u8),
    /// A reserved address family or transport.
    #[error("PROXY v2 family 0x{0:02x}, which is reserved")]
    Family(u8),
    /// A header over [`MAX_V2_BYTES`].
    #[error("a PROXY v2 header of {0} bytes; {MAX_V2_BYTES} is the most")]
    TooLong(usize),
    /// Fewer bytes than the addresses of the family take.
    #[error("a PROXY v2 header too short for its addresses")]
    TooShort,
    /// A TLV that runs over the end of the header.
    #[error("a PROXY v2 TLV that runs over the end of the header")]
    Tlv,
    /// The CRC-32C does not fit.
    #[error("a PROXY v2 checksum that does not fit its header")]
    Checksum,
}

impl PrefaceError {
    /// Always the client: the proxy in front that sent the header.
    pub fn culprit(&self) -> Culprit {
        Culprit::Client
    }

    /// A label value in snake case; one for all, the message tells more.
    pub fn name(&self) -> &'static str {
        "proxy_header_malformed"
    }
}

/// Reads the first bytes of a connection: all received so far.
pub fn read(bytes: &[u8]) -> Reading {
    if is_beginning(bytes, v2::SIGNATURE) {
        return v2::read(bytes);
    }
    if is_beginning(bytes, v1::SIGNATURE) {
        return v1::read(bytes);
    }
    Reading::Absent
}

/// Whether `bytes` and `signature` agree as far as both reach.
fn is_beginning(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests;
