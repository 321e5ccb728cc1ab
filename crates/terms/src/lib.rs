//! Nouns and units shared by every room: what a handshake was, in the words of RFC 8446,
//! and how much of something there is.
//!
//! Holds no behaviour beyond naming and parsing; reads no file, clock or socket.

mod facts;
mod names;
mod units;

pub use facts::{
    ClientIdentity, Culprit, HandshakeCost, HandshakeFacts, HandshakeKind, ResumptionMethod,
    ResumptionMiss,
};
pub use names::{
    CertificateKind, CipherSuite, NamedGroup, ServerName, ServerNameError, SignatureScheme,
    TlsVersion,
};
pub use units::{Bytes, CpuTime, UnixTime};
