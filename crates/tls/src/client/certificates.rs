//! What the certificates of a chain weigh, and with what.

use x509_parser::prelude::{FromDer, X509Certificate};

/// Where the bytes of a certificate go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateSize {
    /// All of it, DER.
    pub bytes: usize,
    /// The public key in it: 65 for ECDSA P-256, 270 for RSA-2048.
    pub key_bytes: usize,
    /// The signature on it.
    pub signature_bytes: usize,
}

/// Weighs a DER certificate; `None` when it cannot be read.
pub fn weigh(der: &[u8]) -> Option<CertificateSize> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(CertificateSize {
        bytes: der.len(),
        key_bytes: certificate.public_key().subject_public_key.data.len(),
        signature_bytes: certificate.signature_value.data.len(),
    })
}
