//! Signing as a server does it, and verifying as its client does.

use aws_lc_rs::signature::{
    KeyPair as _, ML_DSA_44, ML_DSA_44_SIGNING, ML_DSA_65, ML_DSA_65_SIGNING, PqdsaKeyPair,
    PqdsaVerificationAlgorithm, UnparsedPublicKey,
};
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::SignatureVerificationAlgorithm;
use rustls::sign::Signer;
use tollgate_terms::CertificateKind;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{PrimitiveError, broken};
use crate::material::Certificate;
use crate::provider::signing_through_us;

/// A signature algorithm with its key length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// A kind that certificates have; RSA signs with PSS and SHA-256, a curve with the hash of its
    /// length.
    Certificate(CertificateKind),
    /// ML-DSA-44 (FIPS 204). The library computes it; no certificate of a site has it yet.
    MlDsa44,
    /// ML-DSA-65 (FIPS 204), as above.
    MlDsa65,
}

impl SignatureKind {
    /// Every kind that is measured, in the order of the sheet.
    pub const ALL: [Self; 8] = [
        Self::Certificate(CertificateKind::Rsa(2048)),
        Self::Certificate(CertificateKind::Rsa(3072)),
        Self::Certificate(CertificateKind::Rsa(4096)),
        Self::Certificate(CertificateKind::EcdsaP256),
        Self::Certificate(CertificateKind::EcdsaP384),
        Self::Certificate(CertificateKind::Ed25519),
        Self::MlDsa44,
        Self::MlDsa65,
    ];

    /// `rsa-2048`, `ecdsa-p256`, `ml-dsa-44` and so on.
    pub fn name(self) -> &'static str {
        match self {
            Self::Certificate(kind) => kind.name(),
            Self::MlDsa44 => "ml-dsa-44",
            Self::MlDsa65 => "ml-dsa-65",
        }
    }

    /// The scheme in the words of the standard.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Certificate(CertificateKind::Rsa(_)) => "rsa_pss_rsae_sha256",
            Self::Certificate(CertificateKind::EcdsaP256) => "ecdsa_secp256r1_sha256",
            Self::Certificate(CertificateKind::EcdsaP384) => "ecdsa_secp384r1_sha384",
            Self::Certificate(CertificateKind::Ed25519) => "ed25519",
            Self::MlDsa44 => "mldsa44",
            Self::MlDsa65 => "mldsa65",
        }
    }

    /// How long the content is that a server signs in TLS 1.3: 64 spaces, a text of 33 bytes, a zero and
    /// the hash of a suite with SHA-256 (RFC 8446, section 4.4.3).
    pub const CONTENT_BYTES: usize = 130;
}

/// A fresh private key with what is needed to check its signatures.
pub struct SignatureKey {
    kind: SignatureKind,
    signing: Signing,
    public: Vec<u8>,
}

enum Signing {
    Certificate {
        signer: Box<dyn Signer>,
        verifier: &'static dyn SignatureVerificationAlgorithm,
    },
    MlDsa {
        pair: Box<PqdsaKeyPair>,
        verifier: &'static PqdsaVerificationAlgorithm,
    },
}

impl SignatureKey {
    /// Makes a key; one of RSA-4096 may take seconds.
    ///
    /// # Errors
    /// When the library makes no key of this kind.
    pub fn generate(kind: SignatureKind) -> Result<Self, PrimitiveError> {
        match kind {
            SignatureKind::Certificate(certificate) => Self::of_certificate(kind, certificate),
            SignatureKind::MlDsa44 => {
                Self::of_ml_dsa(kind, PqdsaKeyPair::generate(&ML_DSA_44_SIGNING), &ML_DSA_44)
            }
            SignatureKind::MlDsa65 => {
                Self::of_ml_dsa(kind, PqdsaKeyPair::generate(&ML_DSA_65_SIGNING), &ML_DSA_65)
            }
        }
    }

    fn of_certificate(
        kind: SignatureKind,
        certificate: CertificateKind,
    ) -> Result<Self, PrimitiveError> {
        let what = || format!("key of kind {}", kind.name());
        let certificate = Certificate::self_signed(certificate, &["localhost"])
            .map_err(|error| broken(what(), error))?;
        let scheme = scheme_of(certificate.kind());
        let signer = signing_through_us(certificate.certified_key())
            .key
            .choose_scheme(&[scheme])
            .ok_or_else(|| broken(what(), "it signs with none of the expected schemes"))?;
        let (_, parsed) = X509Certificate::from_der(&certificate.chain_der()[0])
            .map_err(|error| broken(what(), error))?;
        let verifier = default_provider()
            .signature_verification_algorithms
            .mapping
            .iter()
            .find(|(known, _)| *known == scheme)
            .and_then(|(_, algorithms)| algorithms.first().copied())
            .ok_or_else(|| broken(what(), "the library cannot verify its signatures"))?;
        Ok(Self {
            kind,
            signing: Signing::Certificate { signer, verifier },
            public: parsed.public_key().subject_public_key.data.to_vec(),
        })
    }

    fn of_ml_dsa(
        kind: SignatureKind,
        pair: Result<PqdsaKeyPair, impl std::fmt::Display>,
        verifier: &'static PqdsaVerificationAlgorithm,
    ) -> Result<Self, PrimitiveError> {
        let what = || format!("key of kind {}", kind.name());
        let pair = pair.map_err(|error| broken(what(), error))?;
        Ok(Self {
            kind,
            public: pair.public_key().as_ref().to_vec(),
            signing: Signing::MlDsa {
                pair: Box::new(pair),
                verifier,
            },
        })
    }

    /// What it signs with.
    pub fn kind(&self) -> SignatureKind {
        self.kind
    }

    /// Signs `content`, hashing included, through the wrapper that handshakes use.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn sign(&self, content: &[u8]) -> Result<Vec<u8>, PrimitiveError> {
        let what = || format!("sign with {}", self.kind.name());
        match &self.signing {
            Signing::Certificate { signer, .. } => {
                signer.sign(content).map_err(|error| broken(what(), error))
            }
            Signing::MlDsa { pair, .. } => {
                let mut signature = vec![0; pair.algorithm().signature_len()];
                let length = pair
                    .sign(content, &mut signature)
                    .map_err(|error| broken(what(), error))?;
                signature.truncate(length);
                Ok(signature)
            }
        }
    }

    /// Checks `signature` with the public key, which is read anew each time: to a client the key of a
    /// server is always new.
    ///
    /// # Errors
    /// When it is not a signature of `content` by this key.
    pub fn verify(&self, content: &[u8], signature: &[u8]) -> Result<(), PrimitiveError> {
        let what = || format!("verify with {}", self.kind.name());
        match &self.signing {
            Signing::Certificate { verifier, .. } => verifier
                .verify_signature(&self.public, content, signature)
                .map_err(|_| broken(what(), "the signature does not belong to the content")),
            Signing::MlDsa { verifier, .. } => UnparsedPublicKey::new(*verifier, &self.public)
                .verify(content, signature)
                .map_err(|_| broken(what(), "the signature does not belong to the content")),
        }
    }
}

fn scheme_of(kind: CertificateKind) -> SignatureScheme {
    match kind {
        CertificateKind::EcdsaP256 => SignatureScheme::ECDSA_NISTP256_SHA256,
        CertificateKind::EcdsaP384 => SignatureScheme::ECDSA_NISTP384_SHA384,
        CertificateKind::Ed25519 => SignatureScheme::ED25519,
        CertificateKind::Rsa(_) => SignatureScheme::RSA_PSS_SHA256,
    }
}

impl std::fmt::Debug for SignatureKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureKey")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_verifies_and_a_changed_one_does_not() {
        for kind in SignatureKind::ALL {
            // Longer keys differ in nothing that is tested here, and take seconds to make.
            if matches!(
                kind,
                SignatureKind::Certificate(CertificateKind::Rsa(3072 | 4096))
            ) {
                continue;
            }
            let key = SignatureKey::generate(kind).unwrap();
            let content = [7; SignatureKind::CONTENT_BYTES];
            let mut signature = key.sign(&content).unwrap();
            key.verify(&content, &signature).unwrap();
            assert!(key.verify(&[8; 130], &signature).is_err(), "{key:?}");
            let middle = signature.len() / 2;
            signature[middle] ^= 1;
            assert!(key.verify(&content, &signature).is_err(), "{key:?}");
            let other = SignatureKey::generate(kind).unwrap();
            signature[middle] ^= 1;
            assert!(other.verify(&content, &signature).is_err(), "{key:?}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names = SignatureKind::ALL.map(SignatureKind::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
