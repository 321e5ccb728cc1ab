//! Label values as small numbers and back: what makes a set of labels fit into one key.

use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeFacts, HandshakeKind, NamedGroup, ResumptionMethod,
    ResumptionMiss, SignatureScheme, TlsVersion,
};

use crate::names::NOWHERE;

/// The label of everything that has none of its own.
pub(crate) const OTHER: &str = "other";
const NONE: &str = "none";

const SUITES: [CipherSuite; 9] = [
    CipherSuite::TLS_AES_128_GCM_SHA256,
    CipherSuite::TLS_AES_256_GCM_SHA384,
    CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];
/// Suites by their number, and what is none of them.
pub(crate) const SUITE_NAMES: [&str; SUITES.len() + 1] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    OTHER,
];
/// Schemes of the server's signature.
pub(crate) const SIGNATURES: [SignatureScheme; 9] = [
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::ECDSA_SECP256R1_SHA256,
    SignatureScheme::ECDSA_SECP384R1_SHA384,
    SignatureScheme::RSA_PSS_RSAE_SHA256,
    SignatureScheme::RSA_PSS_RSAE_SHA384,
    SignatureScheme::RSA_PSS_RSAE_SHA512,
    SignatureScheme::ED25519,
];
/// Versions by their number.
pub(crate) const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];
/// Ways to resume, by their number.
pub(crate) const METHODS: [&str; 2] = ["ticket", "session_cache"];
const GROUPS: [NamedGroup; 4] = [
    NamedGroup::X25519,
    NamedGroup::X25519MLKEM768,
    NamedGroup::SECP256R1,
    NamedGroup::SECP384R1,
];
const CERTIFICATES: [&str; 7] = [
    "ecdsa-p256",
    "ecdsa-p384",
    "ed25519",
    "rsa-2048",
    "rsa-3072",
    "rsa-4096",
    "rsa",
];
/// Groups by their name, and what is none of them; `none` is a resumed TLS 1.2 handshake.
pub(crate) const GROUP_NAMES: [&str; GROUPS.len() + 2] = [
    "x25519",
    "X25519MLKEM768",
    "secp256r1",
    "secp384r1",
    OTHER,
    NONE,
];
/// Kinds of certificate by their name, and what is none of them.
pub(crate) const CERTIFICATE_NAMES: [&str; CERTIFICATES.len() + 1] = [
    "ecdsa-p256",
    "ecdsa-p384",
    "ed25519",
    "rsa-2048",
    "rsa-3072",
    "rsa-4096",
    "rsa",
    OTHER,
];
/// Kinds of handshake that have a histogram of their own.
pub(crate) const KINDS: [&str; 3] = ["full", "full_with_retry", "resumed"];
/// Every reason for a resumption miss, by its number.
pub(crate) const MISSES: [ResumptionMiss; 8] = [
    ResumptionMiss::NothingOffered,
    ResumptionMiss::Expired,
    ResumptionMiss::UnknownKey,
    ResumptionMiss::Malformed,
    ResumptionMiss::OtherSite,
    ResumptionMiss::PolicyChanged,
    ResumptionMiss::NotInCache,
    ResumptionMiss::NotUsable,
];
/// What a connection is used for; `handshake` before that is known.
pub(crate) const MODES: [&str; 5] = ["http", "tcp", "passthrough", "handshake", OTHER];
/// Protocols of requests.
pub(crate) const PROTOCOLS: [&str; 4] = ["HTTP/1.1", "HTTP/2", "HTTP/1.0", OTHER];

/// Which way bytes went, seen from Tollgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Received from clients.
    ClientIn,
    /// Sent to clients.
    ClientOut,
    /// Received from backends.
    BackendIn,
    /// Sent to backends.
    BackendOut,
}

impl Direction {
    pub(crate) const ALL: [Self; 4] = [
        Self::ClientIn,
        Self::ClientOut,
        Self::BackendIn,
        Self::BackendOut,
    ];

    /// `"client_in"`, `"client_out"`, `"backend_in"` or `"backend_out"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientIn => "client_in",
            Self::ClientOut => "client_out",
            Self::BackendIn => "backend_in",
            Self::BackendOut => "backend_out",
        }
    }
}

/// Which way records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordDirection {
    /// Received and decrypted.
    Opened,
    /// Encrypted and sent.
    Sealed,
}

impl RecordDirection {
    pub(crate) const ALL: [Self; 2] = [Self::Opened, Self::Sealed];

    /// `"opened"` or `"sealed"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Sealed => "sealed",
        }
    }
}

/// The number of a suite in [`SUITE_NAMES`].
pub(crate) fn suite_index(suite: CipherSuite) -> usize {
    position(&SUITES, suite)
}

/// The number of a scheme in [`SIGNATURES`]; their number for one that is not there.
pub(crate) fn signature_index(scheme: SignatureScheme) -> usize {
    position(&SIGNATURES, scheme)
}

/// The number of a way to resume in [`METHODS`].
pub(crate) fn method_index(method: ResumptionMethod) -> usize {
    match method {
        ResumptionMethod::Ticket => 0,
        ResumptionMethod::SessionCache => 1,
    }
}

/// The number of a mode in [`MODES`].
pub(crate) fn mode_index(mode: &str) -> usize {
    match mode {
        "http" => 0,
        "tcp" => 1,
        "passthrough" => 2,
        "handshake" => 3,
        _ => 4,
    }
}

/// The number of a miss in [`MISSES`].
pub(crate) fn miss_index(miss: ResumptionMiss) -> usize {
    match miss {
        ResumptionMiss::NothingOffered => 0,
        ResumptionMiss::Expired => 1,
        ResumptionMiss::UnknownKey => 2,
        ResumptionMiss::Malformed => 3,
        ResumptionMiss::OtherSite => 4,
        ResumptionMiss::PolicyChanged => 5,
        ResumptionMiss::NotInCache => 6,
        ResumptionMiss::NotUsable => 7,
    }
}

/// The number of a kind in [`KINDS`].
pub(crate) fn kind_index(kind: HandshakeKind) -> usize {
    match kind {
        HandshakeKind::Full => 0,
        HandshakeKind::FullWithRetry => 1,
        HandshakeKind::Resumed(ResumptionMethod::Ticket | ResumptionMethod::SessionCache) => 2,
    }
}

fn certificate_index(kind: CertificateKind) -> usize {
    match kind {
        CertificateKind::EcdsaP256 => 0,
        CertificateKind::EcdsaP384 => 1,
        CertificateKind::Ed25519 => 2,
        CertificateKind::Rsa(2048) => 3,
        CertificateKind::Rsa(3072) => 4,
        CertificateKind::Rsa(4096) => 5,
        CertificateKind::Rsa(_) => 6,
    }
}

/// Packs site and listener numbers and what a handshake was: 20, 20, 1, 4, 4, 4 and 2 bits.
pub(crate) fn handshake_key(site: usize, listener: usize, facts: &HandshakeFacts) -> u64 {
    let suite = position(&SUITES, facts.suite);
    let group = facts
        .group
        .map_or(GROUPS.len() + 1, |group| position(&GROUPS, group));
    let certificate = facts
        .certificate
        .map_or(CERTIFICATES.len(), certificate_index);
    let mut key = narrow(site) << 20 | narrow(listener);
    key = key << 1 | u64::from(facts.version == TlsVersion::Tls13);
    key = key << 4 | suite as u64;
    key = key << 4 | group as u64;
    key = key << 4 | certificate as u64;
    key << 2 | kind_index(facts.kind) as u64
}

/// What [`handshake_key`] packed.
pub(crate) struct HandshakeWords {
    pub(crate) site: usize,
    pub(crate) listener: usize,
    pub(crate) version: &'static str,
    pub(crate) suite: &'static str,
    pub(crate) group: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) kind: &'static str,
}

/// Unpacks a key of [`handshake_key`].
pub(crate) fn handshake_words(key: u64) -> HandshakeWords {
    let bits = |from: u32, width: u32| (key >> from & ((1 << width) - 1)) as usize;
    let group = bits(6, 4);
    HandshakeWords {
        site: widen(bits(35, 20)),
        listener: widen(bits(15, 20)),
        version: [TlsVersion::Tls12, TlsVersion::Tls13][bits(14, 1)].name(),
        suite: SUITES.get(bits(10, 4)).map_or(OTHER, |suite| suite.name()),
        group: match GROUPS.get(group) {
            Some(known) => known.name(),
            None if group == GROUPS.len() => OTHER,
            None => NONE,
        },
        certificate: CERTIFICATES.get(bits(2, 4)).copied().unwrap_or(NONE),
        kind: KINDS.get(bits(0, 2)).copied().unwrap_or(OTHER),
    }
}

/// Packs a site number, a protocol and a status code: 20, 2 and 16 bits.
pub(crate) fn request_key(site: usize, protocol: &str, status: u16) -> u64 {
    let protocol = match protocol {
        "HTTP/1.1" => 0,
        "HTTP/2" => 1,
        "HTTP/1.0" => 2,
        _ => 3,
    };
    (narrow(site) << 2 | protocol) << 16 | u64::from(status)
}

/// Site number, protocol and status code of a key of [`request_key`].
pub(crate) fn request_words(key: u64) -> (usize, &'static str, u16) {
    (
        widen((key >> 18) as usize),
        PROTOCOLS[(key >> 16 & 3) as usize],
        (key & 0xffff) as u16,
    )
}

const NARROW_NOWHERE: u64 = (1 << 20) - 1;

/// A site or listener number in 20 bits; one beyond them becomes [`NOWHERE`].
fn narrow(index: usize) -> u64 {
    (index as u64).min(NARROW_NOWHERE)
}

fn widen(index: usize) -> usize {
    if index as u64 == NARROW_NOWHERE {
        NOWHERE
    } else {
        index
    }
}

/// The place of `wanted`, or the length of the table.
fn position<T: PartialEq, const N: usize>(table: &[T; N], wanted: T) -> usize {
    table.iter().position(|entry| *entry == wanted).unwrap_or(N)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_numbers_agree() {
        for (index, miss) in MISSES.into_iter().enumerate() {
            assert_eq!(miss_index(miss), index);
        }
        for (index, mode) in MODES.into_iter().enumerate() {
            assert_eq!(mode_index(mode), index);
        }
        for (index, suite) in SUITES.into_iter().enumerate() {
            assert_eq!(SUITE_NAMES[index], suite.name());
            assert_eq!(suite_index(suite), index);
        }
        for (index, group) in GROUPS.into_iter().enumerate() {
            assert_eq!(GROUP_NAMES[index], group.name());
        }
        assert_eq!(CERTIFICATE_NAMES[..CERTIFICATES.len()], CERTIFICATES);
        for method in [ResumptionMethod::Ticket, ResumptionMethod::SessionCache] {
            assert_eq!(METHODS[method_index(method)], method.name());
        }
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            assert_eq!(
                VERSIONS[usize::from(version == TlsVersion::Tls13)],
                version.name()
            );
        }
        for bits in [1_024, 2_048, 3_072, 4_096] {
            let kind = CertificateKind::Rsa(bits);
            assert_eq!(CERTIFICATES[certificate_index(kind)], kind.name());
        }
        for kind in [
            CertificateKind::EcdsaP256,
            CertificateKind::EcdsaP384,
            CertificateKind::Ed25519,
        ] {
            assert_eq!(CERTIFICATES[certificate_index(kind)], kind.name());
        }
    }

    #[test]
    fn a_request_key_reads_back() {
        for (site, protocol, status) in [(0, "HTTP/1.1", 200), (77, "HTTP/2", 599)] {
            assert_eq!(
                request_words(request_key(site, protocol, status)),
                (site, protocol, status)
            );
        }
        assert_eq!(
            request_words(request_key(NOWHERE, "SPDY", 0)),
            (NOWHERE, "other", 0)
        );
    }
}
