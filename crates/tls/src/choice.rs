//! Which certificate of a site a client gets.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{NamedGroup, SignatureScheme, SupportedCipherSuite};
use tollgate_terms::CertificateKind;

use crate::material::Certificate;
use crate::provider::signing_through_us;
use crate::trace;

/// The certificates of a site, most wanted first: ECDSA P-256, Ed25519, ECDSA P-384, RSA from the
/// shortest key up, and in the order of the configuration within one kind.
#[derive(Debug)]
pub(crate) struct Choice {
    candidates: Vec<Candidate>,
    /// Every suite of the site.
    suites: Vec<rustls::CipherSuite>,
}

#[derive(Debug)]
struct Candidate {
    kind: CertificateKind,
    key: Arc<CertifiedKey>,
    /// TLS 1.2 suites of the site that this key can sign for.
    suites: Vec<rustls::CipherSuite>,
}

impl Choice {
    /// The choice among `certificates` for a site that speaks `suites`.
    pub(crate) fn new(certificates: &[Arc<Certificate>], suites: &[SupportedCipherSuite]) -> Self {
        let mut candidates: Vec<Candidate> = certificates
            .iter()
            .map(|certificate| Candidate {
                kind: certificate.kind(),
                key: signing_through_us(certificate.certified_key()),
                suites: suites
                    .iter()
                    .filter(|suite| suite.tls13().is_none())
                    .filter(|suite| {
                        suite.usable_for_signature_algorithm(
                            certificate.certified_key().key.algorithm(),
                        )
                    })
                    .map(SupportedCipherSuite::suite)
                    .collect(),
            })
            .collect();
        candidates.sort_by_key(|candidate| rank(candidate.kind));
        Self {
            candidates,
            suites: suites.iter().map(SupportedCipherSuite::suite).collect(),
        }
    }
}

/// What a signature costs us decides; all of these are strong enough.
fn rank(kind: CertificateKind) -> (u8, u16) {
    match kind {
        CertificateKind::EcdsaP256 => (0, 0),
        CertificateKind::Ed25519 => (1, 0),
        CertificateKind::EcdsaP384 => (2, 0),
        CertificateKind::Rsa(bits) => (3, bits),
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let tls13 = trace::current().tls13;
        let suited = self
            .candidates
            .iter()
            .find(|candidate| candidate.suits(&hello, tls13));
        // Without a suited certificate the first one goes on: a session may still resume without
        // any, and a full handshake ends with the `handshake_failure` alert that belongs to it.
        let chosen = suited.or(self.candidates.first())?;
        trace::note(|trace| {
            trace.certificate = Some(chosen.kind);
            trace.unsuited = suited.is_none() && shares(&self.suites, hello.cipher_suites());
        });
        Some(Arc::clone(&chosen.key))
    }
}

impl Candidate {
    /// Whether the client can verify this certificate's signature, and in TLS 1.2 also agrees by a
    /// suite and, for ECDSA, by its curve (RFC 8422, section 5.1.1).
    fn suits(&self, hello: &ClientHello<'_>, tls13: bool) -> bool {
        let mut schemes = hello
            .signature_schemes()
            .iter()
            .filter(|scheme| !tls13 || !is_pkcs1(**scheme));
        if !schemes.any(|scheme| self.key.key.choose_scheme(&[*scheme]).is_some()) {
            return false;
        }
        tls13
            || (shares(&self.suites, hello.cipher_suites()) && self.curve_in(hello.named_groups()))
    }

    fn curve_in(&self, groups: Option<&[NamedGroup]>) -> bool {
        let curve = match self.kind {
            CertificateKind::EcdsaP256 => NamedGroup::secp256r1,
            CertificateKind::EcdsaP384 => NamedGroup::secp384r1,
            CertificateKind::Ed25519 | CertificateKind::Rsa(_) => return true,
        };
        groups.is_none_or(|groups| groups.contains(&curve))
    }
}

fn shares(own: &[rustls::CipherSuite], offered: &[rustls::CipherSuite]) -> bool {
    own.iter().any(|suite| offered.contains(suite))
}

/// TLS 1.3 signs handshakes with RSA in its PSS form only (RFC 8446, section 4.2.3).
fn is_pkcs1(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    )
}
