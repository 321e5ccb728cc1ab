//! Why bytes are not a ClientHello that is worth answering.

use tollgate_terms::Culprit;

/// Why the bytes that opened a connection were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Bytes that no TLS record begins with, and no other protocol that is recognised.
    #[error(
        "not TLS: byte {position} is 0x{byte:02x}, where a handshake record begins with 0x16 0x03"
    )]
    NotTls {
        /// Where the first impossible byte is, from 0.
        position: usize,
        /// That byte.
        byte: u8,
    },
    /// An SSL 2.0 ClientHello, or one wrapped in it.
    #[error("an SSL 2.0 hello; this client needs TLS 1.2 or newer")]
    SslV2,
    /// A PROXY protocol header where TLS was expected.
    #[error(
        "a PROXY protocol header instead of TLS; list the sender as a trusted proxy of this \
         listener, or stop it from sending the header"
    )]
    ProxyHeader,
    /// A TLS record other than a handshake record.
    #[error("record type {0} where the ClientHello's handshake record (22) belongs")]
    UnexpectedRecord(u8),
    /// A handshake message other than ClientHello.
    #[error("handshake message type {0} where ClientHello (1) belongs")]
    UnexpectedMessage(u8),
    /// A handshake record of no bytes, forbidden by RFC 8446, section 5.1.
    #[error("a handshake record of no bytes")]
    EmptyRecord,
    /// A record longer than 16,384 bytes.
    #[error("a record of {0} bytes; 16384 is the most")]
    RecordTooLong(usize),
    /// A ClientHello beyond the bounds of this reader.
    #[error(
        "a ClientHello over {} bytes, or over {} with its record headers",
        super::MAX_MESSAGE_BYTES,
        super::MAX_HELLO_BYTES
    )]
    TooLong,
    /// Bytes after the ClientHello in its last record.
    #[error("bytes after the ClientHello in the same record")]
    BytesAfterHello,
    /// A field that runs over its end, has an impossible length, or is followed by bytes.
    #[error("the {0} of the ClientHello is malformed")]
    Malformed(&'static str),
    /// An extension that is present twice.
    #[error("extension {0} is present twice")]
    DuplicateExtension(u16),
    /// `pre_shared_key` is not the last extension.
    #[error("pre_shared_key is not the last extension")]
    PreSharedKeyNotLast,
    /// Not as many binders as pre-shared key identities.
    #[error("{binders} binders for {identities} pre-shared keys")]
    BinderCount {
        /// Identities offered.
        identities: usize,
        /// Binders sent.
        binders: usize,
    },
    /// The null compression method is missing.
    #[error("compression is demanded; TLS has only the null method left")]
    NoNullCompression,
    /// A list of separately kept entries that is longer than any client's.
    #[error("over {} entries in {what}", super::MAX_ENTRIES)]
    TooMany {
        /// Which list.
        what: &'static str,
    },
}

// RFC 8446, section 6.
const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

impl HelloError {
    /// Description of the alert to answer with, RFC 8446, section 6.
    pub fn alert(&self) -> u8 {
        match self {
            Self::SslV2 => PROTOCOL_VERSION,
            Self::NotTls { .. }
            | Self::ProxyHeader
            | Self::UnexpectedRecord(_)
            | Self::UnexpectedMessage(_)
            | Self::EmptyRecord
            | Self::BytesAfterHello => UNEXPECTED_MESSAGE,
            Self::RecordTooLong(_) => RECORD_OVERFLOW,
            Self::TooLong | Self::Malformed(_) => DECODE_ERROR,
            Self::DuplicateExtension(_)
            | Self::PreSharedKeyNotLast
            | Self::BinderCount { .. }
            | Self::NoNullCompression
            | Self::TooMany { .. } => ILLEGAL_PARAMETER,
        }
    }

    /// Who can act: the operator for a PROXY header, which a proxy in front sends; else the client.
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::ProxyHeader => Culprit::Operator,
            _ => Culprit::Client,
        }
    }

    /// A label value in snake case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotTls { .. } => "not_tls",
            Self::SslV2 => "ssl_v2",
            Self::ProxyHeader => "unexpected_proxy_header",
            Self::UnexpectedRecord(_) => "unexpected_record",
            Self::UnexpectedMessage(_) => "unexpected_message",
            Self::EmptyRecord => "empty_record",
            Self::RecordTooLong(_) => "record_too_long",
            Self::TooLong => "hello_too_long",
            Self::BytesAfterHello => "bytes_after_hello",
            Self::Malformed(_) => "hello_malformed",
            Self::DuplicateExtension(_) => "duplicate_extension",
            Self::PreSharedKeyNotLast => "pre_shared_key_not_last",
            Self::BinderCount { .. } => "binder_count",
            Self::NoNullCompression => "no_null_compression",
            Self::TooMany { .. } => "too_many_entries",
        }
    }
}
