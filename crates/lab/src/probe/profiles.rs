//! What real clients offer, as data: who they are decides which suite, group and certificate a
//! server chooses.
//!
//! Only what this client can speak is listed: no CBC suites, no TLS 1.1, no finite-field groups.
//! A server that needs those for an old client is not seen here.

use tollgate_terms::{CipherSuite, NamedGroup, SignatureScheme, TlsVersion};

/// A kind of client. Every list is in its order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for help and tables.
    pub about: &'static str,
    /// The one version it speaks; `None` for TLS 1.3 and 1.2.
    pub version: Option<TlsVersion>,
    /// Suites offered.
    pub suites: &'static [CipherSuite],
    /// Groups offered; the first comes with a key share.
    pub groups: &'static [NamedGroup],
    /// Signature schemes that it says it can verify.
    pub schemes: &'static [SignatureScheme],
    /// Application protocols offered.
    pub alpn: &'static [&'static str],
}

/// AES-128 first: a client with AES instructions, which is what a client of ours offers by itself.
const AES_FIRST: &[CipherSuite] = &tollgate_tls::DEFAULT_SUITES;

/// ChaCha20 first: a processor without AES instructions.
const CHACHA_FIRST: &[CipherSuite] = &[
    CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_AES_128_GCM_SHA256,
    CipherSuite::TLS_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
];

/// The same without the three of TLS 1.3.
const TLS12_CHACHA_FIRST: &[CipherSuite] = CHACHA_FIRST.split_at(3).1;

const TLS12_AES_FIRST: &[CipherSuite] = &[
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

const POST_QUANTUM: &[NamedGroup] = &[
    NamedGroup::X25519MLKEM768,
    NamedGroup::X25519,
    NamedGroup::SECP256R1,
    NamedGroup::SECP384R1,
];

const CURVES: &[NamedGroup] = &[
    NamedGroup::X25519,
    NamedGroup::SECP256R1,
    NamedGroup::SECP384R1,
];

const NIST_CURVES: &[NamedGroup] = &[NamedGroup::SECP256R1, NamedGroup::SECP384R1];

const ALL_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::ECDSA_SECP256R1_SHA256,
    SignatureScheme::RSA_PSS_RSAE_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::ECDSA_SECP384R1_SHA384,
    SignatureScheme::RSA_PSS_RSAE_SHA384,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PSS_RSAE_SHA512,
    SignatureScheme::RSA_PKCS1_SHA512,
];

const RSA_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_RSAE_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PSS_RSAE_SHA384,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PSS_RSAE_SHA512,
    SignatureScheme::RSA_PKCS1_SHA512,
];

const WEB: &[&str] = &["h2", "http/1.1"];

impl Profile {
    /// All of them, as help lists them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "browser",
            about: "a browser of today: TLS 1.3, post-quantum key share, AES-128 first",
            version: None,
            suites: AES_FIRST,
            groups: POST_QUANTUM,
            schemes: ALL_SCHEMES,
            alpn: WEB,
        },
        Self {
            name: "browser-2020",
            about: "a browser before post-quantum groups: TLS 1.3, X25519, AES-128 first",
            version: None,
            suites: AES_FIRST,
            groups: CURVES,
            schemes: ALL_SCHEMES,
            alpn: WEB,
        },
        Self {
            name: "phone-without-aes",
            about: "a phone without AES instructions: TLS 1.3, ChaCha20 first",
            version: None,
            suites: CHACHA_FIRST,
            groups: CURVES,
            schemes: ALL_SCHEMES,
            alpn: WEB,
        },
        Self {
            name: "android-old",
            about: "an old Android phone: TLS 1.2 only, ChaCha20 first",
            version: Some(TlsVersion::Tls12),
            suites: TLS12_CHACHA_FIRST,
            groups: CURVES,
            schemes: ALL_SCHEMES,
            alpn: WEB,
        },
        Self {
            name: "rsa-only",
            about: "a client that verifies RSA signatures only: it needs an RSA certificate",
            version: None,
            suites: AES_FIRST,
            groups: CURVES,
            schemes: RSA_SCHEMES,
            alpn: WEB,
        },
        Self {
            name: "tls12-only",
            about: "a library of ten years ago: TLS 1.2, NIST curves, AES-256 first, HTTP/1.1",
            version: Some(TlsVersion::Tls12),
            suites: TLS12_AES_FIRST,
            groups: NIST_CURVES,
            schemes: ALL_SCHEMES,
            alpn: &["http/1.1"],
        },
    ];

    /// The names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|profile| profile.name)
    }

    /// The profile with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for profile in Profile::ALL {
            assert_eq!(Profile::by_name(profile.name), Some(profile));
        }
        assert_eq!(Profile::by_name("netscape"), None);
        assert_eq!(Profile::names().count(), Profile::ALL.len());
    }

    #[test]
    fn a_profile_offers_suites_of_every_version_that_it_speaks() {
        for profile in Profile::ALL {
            let is_13 = |suite: &&CipherSuite| suite.0 >> 8 == 0x13;
            let tls13 = profile.suites.iter().filter(is_13).count();
            assert!(tls13 < profile.suites.len(), "{}", profile.name);
            assert_eq!(tls13 > 0, profile.version.is_none(), "{}", profile.name);
        }
    }

    #[test]
    fn who_has_no_aes_lists_chacha20_first() {
        for name in ["android-old", "phone-without-aes"] {
            let first = Profile::by_name(name).unwrap().suites[0];
            assert!(first.name().contains("CHACHA20"), "{name}: {first}");
        }
    }
}
