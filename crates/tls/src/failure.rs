//! Why a connection failed, by a name for labels and by who can act.

use std::fmt;

use rustls::{
    AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved,
};
use tollgate_terms::Culprit;

/// Which end of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client connected to us.
    Server,
    /// We connected to a backend.
    Client,
}

impl Side {
    fn peer(self) -> Culprit {
        match self {
            Self::Server => Culprit::Client,
            Self::Client => Culprit::Backend,
        }
    }
}

/// Why a handshake or an established connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureReason {
    /// No protocol version that both ends speak.
    NoCommonVersion,
    /// No cipher suite that both ends speak and that fits a certificate.
    NoCommonSuite,
    /// No named group that both ends speak.
    NoCommonGroup,
    /// No application protocol that both ends speak.
    NoCommonAlpn,
    /// No certificate whose signature the client can verify.
    NoSuitableCertificate,
    /// The peer must show a certificate and has shown none.
    CertificateMissing,
    /// The peer's certificate is past its end, or not valid yet.
    CertificateExpired,
    /// The peer's certificate is on a revocation list.
    CertificateRevoked,
    /// The peer's certificate comes from an authority that is not trusted.
    CertificateUnknownIssuer,
    /// The backend's certificate is for another name.
    CertificateWrongName,
    /// The peer's certificate or its signature is wrong in some other way.
    CertificateInvalid,
    /// The peer lacks something that we require, such as signature algorithms.
    PeerIncompatible,
    /// The client does not know the secret of the ticket that it shows (RFC 8446, section 4.2.11.2).
    WrongBinder,
    /// The peer broke the protocol.
    PeerMisbehaved,
    /// A record that cannot be decrypted or is longer than allowed.
    BadRecord,
    /// Bytes that are no TLS, or a message that cannot be read.
    BadMessage,
    /// The handshake is longer than any real one.
    TooLong,
    /// The peer sent this alert.
    AlertReceived(u8),
    /// The peer closed the connection in the middle.
    Closed,
    /// The socket failed.
    Io(std::io::ErrorKind),
    /// The configuration cannot serve this.
    Misconfigured,
    /// Keys are used up.
    Exhausted,
    /// A defect of ours.
    Internal,
}

impl FailureReason {
    /// A label value in snake case; one of a fixed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoCommonVersion => "no_common_version",
            Self::NoCommonSuite => "no_common_suite",
            Self::NoCommonGroup => "no_common_group",
            Self::NoCommonAlpn => "no_common_alpn",
            Self::NoSuitableCertificate => "no_suitable_certificate",
            Self::CertificateMissing => "certificate_missing",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateRevoked => "certificate_revoked",
            Self::CertificateUnknownIssuer => "certificate_unknown_issuer",
            Self::CertificateWrongName => "certificate_wrong_name",
            Self::CertificateInvalid => "certificate_invalid",
            Self::PeerIncompatible => "peer_incompatible",
            Self::WrongBinder => "wrong_binder",
            Self::PeerMisbehaved => "peer_misbehaved",
            Self::BadRecord => "bad_record",
            Self::BadMessage => "bad_message",
            Self::TooLong => "too_long",
            Self::AlertReceived(description) => alert_name(description),
            Self::Closed => "closed",
            Self::Io(_) => "io",
            Self::Misconfigured => "misconfigured",
            Self::Exhausted => "exhausted",
            Self::Internal => "internal",
        }
    }
}

/// A failed handshake or connection: the reason, who can act, and the details as text.
#[derive(Clone, Debug)]
pub struct Failure {
    reason: FailureReason,
    culprit: Culprit,
    detail: Box<str>,
}

impl Failure {
    /// Why, for labels.
    pub fn reason(&self) -> FailureReason {
        self.reason
    }

    /// Who can act.
    pub fn culprit(&self) -> Culprit {
        self.culprit
    }

    /// A failure found by ourselves.
    pub(crate) fn new(reason: FailureReason, culprit: Culprit, detail: &str) -> Self {
        Self {
            reason,
            culprit,
            detail: detail.into(),
        }
    }

    /// The peer went away before the end.
    pub(crate) fn closed(side: Side) -> Self {
        Self::new(
            FailureReason::Closed,
            side.peer(),
            "the connection was closed before the handshake ended",
        )
    }

    /// The handshake of the peer is longer than any real one.
    pub(crate) fn too_long(side: Side, limit: usize) -> Self {
        Self::new(
            FailureReason::TooLong,
            side.peer(),
            &format!("more than {limit} bytes received before the end of the handshake"),
        )
    }

    /// The socket failed.
    pub(crate) fn io(side: Side, error: &std::io::Error) -> Self {
        Self::new(
            FailureReason::Io(error.kind()),
            side.peer(),
            &error.to_string(),
        )
    }

    /// What the library reports, seen from `side`.
    pub(crate) fn of(side: Side, error: &Error) -> Self {
        let (reason, culprit) = judge(side, error);
        Self::new(reason, culprit, &error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.detail)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for std::io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.reason {
            FailureReason::Io(kind) => kind,
            FailureReason::Closed => std::io::ErrorKind::UnexpectedEof,
            _ => std::io::ErrorKind::InvalidData,
        };
        Self::new(kind, failure)
    }
}

fn judge(side: Side, error: &Error) -> (FailureReason, Culprit) {
    let reason = match error {
        Error::PeerIncompatible(what) => incompatible(what),
        Error::PeerMisbehaved(PeerMisbehaved::IncorrectBinder) => FailureReason::WrongBinder,
        Error::PeerMisbehaved(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_) => FailureReason::PeerMisbehaved,
        Error::NoApplicationProtocol => FailureReason::NoCommonAlpn,
        Error::NoCertificatesPresented => FailureReason::CertificateMissing,
        Error::InvalidCertificate(what) => certificate(what),
        Error::InvalidCertRevocationList(_) => {
            return (FailureReason::Misconfigured, Culprit::Operator);
        }
        Error::AlertReceived(alert) => FailureReason::AlertReceived(u8::from(*alert)),
        Error::DecryptError
        | Error::PeerSentOversizedRecord
        | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => FailureReason::BadRecord,
        Error::InvalidMessage(_) | Error::InvalidEncryptedClientHello(_) => {
            FailureReason::BadMessage
        }
        _ => return (FailureReason::Internal, Culprit::Us),
    };
    (reason, side.peer())
}

fn incompatible(what: &PeerIncompatible) -> FailureReason {
    match what {
        PeerIncompatible::NoCipherSuitesInCommon => FailureReason::NoCommonSuite,
        PeerIncompatible::NoKxGroupsInCommon => FailureReason::NoCommonGroup,
        PeerIncompatible::NoSignatureSchemesInCommon => FailureReason::NoSuitableCertificate,
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => FailureReason::NoCommonVersion,
        _ => FailureReason::PeerIncompatible,
    }
}

fn certificate(what: &CertificateError) -> FailureReason {
    match what {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => FailureReason::CertificateExpired,
        CertificateError::Revoked => FailureReason::CertificateRevoked,
        CertificateError::UnknownIssuer => FailureReason::CertificateUnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            FailureReason::CertificateWrongName
        }
        _ => FailureReason::CertificateInvalid,
    }
}

/// RFC 8446, section 6, and those of RFC 5246 that are still sent.
fn alert_name(description: u8) -> &'static str {
    match AlertDescription::from(description) {
        AlertDescription::CloseNotify => "alert_received_close_notify",
        AlertDescription::UnexpectedMessage => "alert_received_unexpected_message",
        AlertDescription::BadRecordMac => "alert_received_bad_record_mac",
        AlertDescription::RecordOverflow => "alert_received_record_overflow",
        AlertDescription::HandshakeFailure => "alert_received_handshake_failure",
        AlertDescription::NoCertificate => "alert_received_no_certificate",
        AlertDescription::BadCertificate => "alert_received_bad_certificate",
        AlertDescription::UnsupportedCertificate => "alert_received_unsupported_certificate",
        AlertDescription::CertificateRevoked => "alert_received_certificate_revoked",
        AlertDescription::CertificateExpired => "alert_received_certificate_expired",
        AlertDescription::CertificateUnknown => "alert_received_certificate_unknown",
        AlertDescription::IllegalParameter => "alert_received_illegal_parameter",
        AlertDescription::UnknownCA => "alert_received_unknown_ca",
        AlertDescription::AccessDenied => "alert_received_access_denied",
        AlertDescription::DecodeError => "alert_received_decode_error",
        AlertDescription::DecryptError => "alert_received_decrypt_error",
        AlertDescription::ProtocolVersion => "alert_received_protocol_version",
        AlertDescription::InsufficientSecurity => "alert_received_insufficient_security",
        AlertDescription::InternalError => "alert_received_internal_error",
        AlertDescription::InappropriateFallback => "alert_received_inappropriate_fallback",
        AlertDescription::UserCanceled => "alert_received_user_canceled",
        AlertDescription::NoRenegotiation => "alert_received_no_renegotiation",
        AlertDescription::MissingExtension => "alert_received_missing_extension",
        AlertDescription::UnsupportedExtension => "alert_received_unsupported_extension",
        AlertDescription::UnrecognisedName => "alert_received_unrecognized_name",
        AlertDescription::UnknownPSKIdentity => "alert_received_unknown_psk_identity",
        AlertDescription::CertificateRequired => "alert_received_certificate_required",
        AlertDescription::NoApplicationProtocol => "alert_received_no_application_protocol",
        _ => "alert_received_other",
    }
}
