//! Certificates made here, for a demonstration without files and for tests.

use std::ops::Range;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair, RsaKeySize};
use tollgate_terms::{CertificateKind, UnixTime};
use zeroize::Zeroizing;

use super::MaterialError;

/// A fresh self-signed certificate and its key, as PEM.
pub struct Made {
    /// One `CERTIFICATE` section.
    pub chain_pem: String,
    /// One `PRIVATE KEY` section.
    pub key_pem: Zeroizing<String>,
}

/// Makes a key of `kind` and a certificate for `names` (host names or addresses), valid for any
/// date that a clock shows. RSA must have 2048, 3072 or 4096 bits.
///
/// # Errors
/// When `kind` is an RSA length that is not made here, or a name is none.
pub fn make_self_signed(kind: CertificateKind, names: &[&str]) -> Result<Made, MaterialError> {
    make(kind, names, None)
}

/// As [`make_self_signed`], valid from one time to another as certificates usually are.
///
/// # Errors
/// As [`make_self_signed`].
pub fn make_self_signed_for(
    kind: CertificateKind,
    names: &[&str],
    validity: Range<UnixTime>,
) -> Result<Made, MaterialError> {
    make(kind, names, Some(validity))
}

fn make(
    kind: CertificateKind,
    names: &[&str],
    validity: Option<Range<UnixTime>>,
) -> Result<Made, MaterialError> {
    let refused = |reason: String| MaterialError::NotMade {
        names: names.join(", "),
        reason,
    };
    let key = key_pair(kind).map_err(&refused)?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let first = names.first().cloned();
    let mut parameters =
        CertificateParams::new(names).map_err(|error| refused(error.to_string()))?;
    if let Some(first) = first {
        parameters
            .distinguished_name
            .push(DnType::CommonName, first);
    }
    if let Some(validity) = validity {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        parameters.not_before = epoch + Duration::from_secs(validity.start.0);
        parameters.not_after = epoch + Duration::from_secs(validity.end.0);
    }
    let certificate = parameters
        .self_signed(&key)
        .map_err(|error| refused(error.to_string()))?;
    Ok(Made {
        chain_pem: certificate.pem(),
        key_pem: Zeroizing::new(key.serialize_pem()),
    })
}

/// A fresh key, RSA of 2048, 3072 or 4096 bits.
pub(crate) fn key_pair(kind: CertificateKind) -> Result<KeyPair, String> {
    let made = match kind {
        CertificateKind::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        CertificateKind::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        CertificateKind::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
        CertificateKind::Rsa(bits) => {
            let size = match bits {
                2048 => RsaKeySize::_2048,
                3072 => RsaKeySize::_3072,
                4096 => RsaKeySize::_4096,
                other => return Err(format!("RSA of {other} bits; 2048, 3072 and 4096 are made")),
            };
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size)
        }
    };
    made.map_err(|error| error.to_string())
}
