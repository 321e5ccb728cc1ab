//! Certificates, private keys, bundles of authorities and revocation lists: read from bytes,
//! checked against each other, described.
//!
//! Opens no file and reads no clock: bytes and `now` are handed in. What is returned can be used;
//! what is merely unwise is a finding.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    pem::SectionKind,
};
use tollgate_terms::{CertificateKind, UnixTime};

mod error;
mod findings;
mod inspect;
mod made;
mod pem;
mod trust;

pub use error::MaterialError;
pub use findings::{EXPIRES_SOON, MaterialFinding, Severity, chain_findings, date};
pub use inspect::{Description, chain_der, client_identity, describe, fingerprint, inspect};
pub(crate) use made::key_pair;
pub use made::{Made, make_self_signed, make_self_signed_for};
pub use trust::ClientTrust;

/// A certificate chain with the key that fits it. Cheap to clone.
#[derive(Clone)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    kind: CertificateKind,
    chain: Arc<[Description]>,
}

impl Certificate {
    /// Reads a PEM chain, end-entity certificate first, and its PEM key. For a combined file
    /// pass the same bytes twice.
    ///
    /// # Errors
    /// When either cannot be read, the key is of no kind served here, is encrypted, or does not
    /// fit the first certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, MaterialError> {
        let certificates = certificates(chain, "certificate chain")?;
        let descriptions = inspect::describe_all(&certificates)?;
        let kind = served_kind(&descriptions[0])?;
        let key = private_key(key)?;
        let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|_| MaterialError::BrokenKey)?;
        let public = signing.public_key().ok_or(MaterialError::BrokenKey)?;
        let fits = certificates
            .iter()
            .position(|der| inspect::public_key_info(der).as_deref() == Some(public.as_ref()));
        if fits != Some(0) {
            return Err(MaterialError::KeyMismatch {
                subject: descriptions[0].subject.clone(),
                fits: fits.map(|index| index + 1),
            });
        }
        Ok(Self {
            certified: Arc::new(CertifiedKey::new(certificates, signing)),
            kind,
            chain: descriptions.into(),
        })
    }

    /// Makes a key and a self-signed certificate for host names or addresses.
    ///
    /// # Errors
    /// When `kind` is an RSA length other than 2048, 3072 or 4096, or a name is none.
    pub fn self_signed(kind: CertificateKind, names: &[&str]) -> Result<Self, MaterialError> {
        let made = make_self_signed(kind, names)?;
        Self::from_pem(made.chain_pem.as_bytes(), made.key_pem.as_bytes())
    }

    /// As [`Certificate::self_signed`], valid from one time to another.
    ///
    /// # Errors
    /// As [`Certificate::self_signed`].
    pub fn self_signed_for(
        kind: CertificateKind,
        names: &[&str],
        validity: Range<UnixTime>,
    ) -> Result<Self, MaterialError> {
        let made = make_self_signed_for(kind, names, validity)?;
        Self::from_pem(made.chain_pem.as_bytes(), made.key_pem.as_bytes())
    }

    /// Chain and key as rustls uses them.
    pub fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Makes one signature as a handshake would and throws it away, for a caller who wants to know
    /// how long that takes. False when the key does not sign.
    pub fn sign_for_nothing(&self) -> bool {
        // As long as what TLS 1.3 signs: 64 spaces, a context string, a hash (RFC 8446, section 4.4.3).
        const CONTENT: [u8; 130] = [0x20; 130];
        let schemes = [
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
        ];
        let signer = self.certified.key.choose_scheme(&schemes);
        signer.is_some_and(|signer| signer.sign(&CONTENT).is_ok())
    }

    /// Kind of the end-entity certificate's key.
    pub fn kind(&self) -> CertificateKind {
        self.kind
    }

    /// DNS names and addresses that the end-entity certificate is for, lower case.
    pub fn names(&self) -> &[String] {
        &self.end_entity().names
    }

    /// Start of validity of the end-entity certificate.
    pub fn not_before(&self) -> UnixTime {
        self.end_entity().not_before
    }

    /// End of validity of the end-entity certificate, inclusive.
    pub fn not_after(&self) -> UnixTime {
        self.end_entity().not_after
    }

    /// Bytes of DER that the chain costs in a full handshake.
    pub fn chain_bytes(&self) -> usize {
        self.certified.cert.iter().map(|der| der.len()).sum()
    }

    /// The chain as PEM, end-entity certificate first.
    pub fn chain_pem(&self) -> String {
        self.certified.cert.iter().map(|der| to_pem(der)).collect()
    }

    /// The DER certificates, end-entity first.
    pub fn chain_der(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// What each certificate of the chain says about itself, end-entity first; never empty.
    pub fn descriptions(&self) -> &[Description] {
        &self.chain
    }

    /// Whether a client that asked for `name` (a host name or an address, any case) accepts this
    /// certificate's names: exact, or `*` for exactly the first label (RFC 9525, section 6.3).
    pub fn covers(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name.parse::<IpAddr>().is_ok() {
            return self.names().contains(&name);
        }
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names().iter().any(|own| match own.strip_prefix("*.") {
            Some(suffix) => parent == Some(suffix),
            None => *own == name,
        })
    }

    /// What an operator should know about this certificate at `now`, worst first.
    pub fn findings(&self, now: UnixTime) -> Vec<MaterialFinding> {
        let mut findings = findings::chain_findings(&self.chain, now);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }

    fn end_entity(&self) -> &Description {
        // `from_pem` refuses an empty chain.
        &self.chain[0]
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("kind", &self.kind)
            .field("names", &self.names())
            .field("not_after", &self.not_after())
            .finish_non_exhaustive()
    }
}

fn served_kind(description: &Description) -> Result<CertificateKind, MaterialError> {
    match description.kind {
        Some(CertificateKind::Rsa(bits)) if bits < 2048 => Err(MaterialError::WeakKey {
            bits: usize::from(bits),
        }),
        Some(CertificateKind::Rsa(bits)) if bits > 8192 => Err(MaterialError::UnsupportedKey {
            key: description.key.clone(),
        }),
        Some(kind) => Ok(kind),
        None => Err(MaterialError::UnsupportedKey {
            key: description.key.clone(),
        }),
    }
}

fn certificates(
    bytes: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    if let Some(form) = pem::binary_form(bytes) {
        let command = match form {
            "DER" => "openssl x509 -inform DER -in FILE -out FILE.pem",
            _ => "openssl pkcs12 -in FILE -out FILE.pem -nodes",
        };
        return Err(MaterialError::NotPem {
            what,
            form,
            command,
        });
    }
    let sections = pem::sections(bytes)?;
    let found: Vec<_> = sections
        .iter()
        .filter(|section| section.is_certificate())
        .map(|section| section.decode().map(|(_, der)| CertificateDer::from(der)))
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(MaterialError::NoCertificate {
            held: pem::held(&sections),
        });
    }
    Ok(found)
}

fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, MaterialError> {
    if let Some(form) = pem::binary_form(bytes) {
        let command = match form {
            "DER" => "openssl pkey -inform DER -in FILE -out FILE.pem",
            _ => "openssl pkcs12 -in FILE -out FILE.pem -nodes",
        };
        return Err(MaterialError::NotPem {
            what: "private key",
            form,
            command,
        });
    }
    let sections = pem::sections(bytes)?;
    let keys: Vec<_> = sections.iter().filter(|s| s.is_key()).collect();
    let [key] = keys.as_slice() else {
        return Err(match keys.len() {
            0 => MaterialError::NoKey {
                held: pem::held(&sections),
            },
            count => MaterialError::SeveralKeys { count },
        });
    };
    if key.is_encrypted() {
        return Err(MaterialError::EncryptedKey);
    }
    let (kind, der) = key.decode()?;
    Ok(match kind {
        SectionKind::RsaPrivateKey => PrivatePkcs1KeyDer::from(der).into(),
        SectionKind::EcPrivateKey => PrivateSec1KeyDer::from(der).into(),
        SectionKind::PrivateKey => PrivatePkcs8KeyDer::from(der).into(),
        _ => return Err(MaterialError::BrokenKey),
    })
}

/// RFC 7468, section 3: base64 in lines of 64.
fn to_pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    // 48 bytes are one line of 64 characters.
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let bits = group
                .iter()
                .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - group.len()));
            for place in 0..4 {
                let index = (bits >> (18 - 6 * place)) & 63;
                text.push(match place <= group.len() {
                    true => char::from(ALPHABET[index as usize]),
                    false => '=',
                });
            }
        }
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests;
