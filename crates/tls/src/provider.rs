//! The primitives that a site uses, in its order, and the wrappers through which every key exchange
//! and every signature goes: the place to time them, and later to batch them.

use std::sync::Arc;

use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup,
    aws_lc_rs,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{
    Error, ProtocolVersion, SignatureAlgorithm, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use tollgate_terms::{CipherSuite, NamedGroup};

use crate::timing::{Part, part};
use crate::trace;

/// Which suites go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The order of the policy.
    Policy,
    /// ChaCha20, for a client that lists it first and thus has no AES instructions.
    ChaCha20,
}

/// Every suite, AES-128 first: the SHA-384 suites cost a quarter more per handshake.
pub const DEFAULT_SUITES: [CipherSuite; 9] = [
    CipherSuite::TLS_AES_128_GCM_SHA256,
    CipherSuite::TLS_AES_256_GCM_SHA384,
    CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// The primitives for `suites` and `groups`; an empty list means all, in our order.
pub(crate) fn provider(
    suites: &[CipherSuite],
    groups: &[NamedGroup],
    first: First,
) -> CryptoProvider {
    let known = aws_lc_rs::default_provider();
    let wanted = if suites.is_empty() {
        &DEFAULT_SUITES
    } else {
        suites
    };
    let mut cipher_suites: Vec<SupportedCipherSuite> = wanted
        .iter()
        .filter_map(|wanted| {
            known
                .cipher_suites
                .iter()
                .find(|suite| u16::from(suite.suite()) == wanted.0)
                .copied()
        })
        .collect();
    if first == First::ChaCha20 {
        // A stable sort keeps the order of the policy among the rest.
        cipher_suites.sort_by_key(|suite| !is_chacha20(u16::from(suite.suite())));
    }
    CryptoProvider {
        cipher_suites,
        kx_groups: kx_groups(groups),
        ..known
    }
}

/// Whether a suite encrypts with ChaCha20-Poly1305.
pub(crate) fn is_chacha20(suite: u16) -> bool {
    matches!(
        CipherSuite(suite),
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}

fn kx_groups(groups: &[NamedGroup]) -> Vec<&'static dyn SupportedKxGroup> {
    if groups.is_empty() {
        return vec![&X25519MLKEM768, &X25519, &SECP256R1, &SECP384R1];
    }
    groups
        .iter()
        .filter_map(|group| match *group {
            NamedGroup::X25519MLKEM768 => Some(&X25519MLKEM768 as &'static dyn SupportedKxGroup),
            NamedGroup::X25519 => Some(&X25519),
            NamedGroup::SECP256R1 => Some(&SECP256R1),
            NamedGroup::SECP384R1 => Some(&SECP384R1),
            _ => None,
        })
        .collect()
}

static X25519MLKEM768: Exchange = Exchange(aws_lc_rs::kx_group::X25519MLKEM768);
static X25519: Exchange = Exchange(aws_lc_rs::kx_group::X25519);
static SECP256R1: Exchange = Exchange(aws_lc_rs::kx_group::SECP256R1);
static SECP384R1: Exchange = Exchange(aws_lc_rs::kx_group::SECP384R1);

/// A key exchange that goes through here.
#[derive(Debug)]
struct Exchange(&'static dyn SupportedKxGroup);

impl SupportedKxGroup for Exchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        part(Part::KeyExchange, || self.0.start())
            .map(|inner| Box::new(Started(inner)) as Box<dyn ActiveKeyExchange>)
    }

    fn start_and_complete(&self, peer: &[u8]) -> Result<CompletedKeyExchange, Error> {
        part(Part::KeyExchange, || self.0.start_and_complete(peer))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> rustls::NamedGroup {
        self.0.name()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.0.usable_for_version(version)
    }
}

/// The first half of a key exchange (TLS 1.2); the second half goes through here as well.
struct Started(Box<dyn ActiveKeyExchange>);

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        part(Part::KeyExchange, || self.0.complete(peer))
    }

    fn complete_for_tls_version(
        self: Box<Self>,
        peer: &[u8],
        version: &SupportedProtocolVersion,
    ) -> Result<SharedSecret, Error> {
        part(Part::KeyExchange, || {
            self.0.complete_for_tls_version(peer, version)
        })
    }

    fn hybrid_component(&self) -> Option<(rustls::NamedGroup, &[u8])> {
        self.0.hybrid_component()
    }

    fn complete_hybrid_component(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        part(Part::KeyExchange, || self.0.complete_hybrid_component(peer))
    }

    fn pub_key(&self) -> &[u8] {
        self.0.pub_key()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> rustls::NamedGroup {
        self.0.group()
    }
}

/// Schemes in the order in which we sign: the shorter hash costs less and is as good for its key.
const SCHEMES: [SignatureScheme; 9] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// The same chain and key, signing through here.
pub(crate) fn signing_through_us(key: &Arc<CertifiedKey>) -> Arc<CertifiedKey> {
    let signers = SCHEMES
        .iter()
        .filter_map(|scheme| key.key.choose_scheme(&[*scheme]))
        .map(|signer| (signer.scheme(), Arc::from(signer)))
        .collect();
    Arc::new(CertifiedKey {
        cert: key.cert.clone(),
        key: Arc::new(Key {
            inner: Arc::clone(&key.key),
            signers,
        }),
        ocsp: key.ocsp.clone(),
    })
}

/// A private key whose signatures go through here.
#[derive(Debug)]
struct Key {
    inner: Arc<dyn SigningKey>,
    /// One per scheme, made once, so that choosing costs one small allocation as it does without us.
    signers: Vec<(SignatureScheme, Arc<dyn Signer>)>,
}

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let (_, signer) = self
            .signers
            .iter()
            .find(|(scheme, _)| offered.contains(scheme))?;
        Some(Box::new(Signature(Arc::clone(signer))))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.inner.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.inner.algorithm()
    }
}

#[derive(Debug)]
struct Signature(Arc<dyn Signer>);

impl Signer for Signature {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        trace::note(|trace| trace.scheme = Some(self.0.scheme()));
        part(Part::Signature, || self.0.sign(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
