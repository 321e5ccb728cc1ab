//! What can be wrong with a certificate, key, bundle or revocation list, and the way out.

use tollgate_terms::Culprit;

/// Why bytes cannot be used as certificate, key, bundle or revocation list.
///
/// A message names the thing, what is allowed and the next step; it never holds key bytes. The
/// caller knows the file and puts its name in front.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MaterialError {
    /// The chain holds no certificate; the field lists the sections that it does hold.
    #[error(
        "no certificate found, the chain holds {held}; it needs the end-entity certificate first, \
         then its issuers, each between BEGIN CERTIFICATE and END CERTIFICATE"
    )]
    NoCertificate {
        /// Labels of the PEM sections present.
        held: String,
    },
    /// The key file holds no private key.
    #[error(
        "no private key found, the key file holds {held}; it needs one section BEGIN PRIVATE KEY, \
         BEGIN EC PRIVATE KEY or BEGIN RSA PRIVATE KEY"
    )]
    NoKey {
        /// Labels of the PEM sections present.
        held: String,
    },
    /// The key file holds more than one private key.
    #[error("{count} private keys found; leave only the one that fits the certificate")]
    SeveralKeys {
        /// How many.
        count: usize,
    },
    /// The key needs a passphrase.
    #[error(
        "the private key is encrypted and nobody is there to type its passphrase; decrypt it with \
         `openssl pkey -in KEY -out KEY.plain`, then chmod 600 KEY.plain"
    )]
    EncryptedKey,
    /// DER or PKCS #12 where PEM is needed.
    #[error("the {what} is {form}, not PEM; convert it with `{command}`")]
    NotPem {
        /// What was being read: `certificate chain`, `private key`.
        what: &'static str,
        /// `DER` or `PKCS #12`.
        form: &'static str,
        /// An openssl command that converts.
        command: &'static str,
    },
    /// A PEM section that does not end or is not base64.
    #[error("section {label} of the PEM text is damaged ({reason}); copy the file again, whole")]
    BrokenPem {
        /// Its label, such as `CERTIFICATE`.
        label: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A certificate that is not X.509 DER inside.
    #[error(
        "certificate {position} is not a readable X.509 certificate ({reason}); look at it with \
         `openssl x509 -in FILE -noout -text`"
    )]
    BrokenCertificate {
        /// Place in the file, from 1.
        position: usize,
        /// The reader's words.
        reason: String,
    },
    /// The private key's bytes are no private key of a kind that we use.
    #[error(
        "the private key cannot be read as ECDSA P-256 or P-384, Ed25519 or RSA of 2048 to 8192 bits; \
         look at it with `openssl pkey -in KEY -noout -text`"
    )]
    BrokenKey,
    /// The certificate's key is of a kind that we do not serve.
    #[error(
        "the certificate's key is {key}; use ECDSA P-256, ECDSA P-384, Ed25519 or RSA of 2048 to \
         8192 bits"
    )]
    UnsupportedKey {
        /// Kind of key, such as `ECDSA P-521`.
        key: String,
    },
    /// An RSA key of fewer than 2048 bits.
    #[error(
        "the certificate's RSA key has {bits} bits; clients refuse fewer than 2048, issue a new one"
    )]
    WeakKey {
        /// Length of the modulus.
        bits: usize,
    },
    /// Key and end-entity certificate are not a pair.
    #[error(
        "the private key does not fit the first certificate ({subject}); {}",
        mismatch_help(*.fits)
    )]
    KeyMismatch {
        /// Subject of the first certificate.
        subject: String,
        /// Place from 1 of another certificate in the chain that the key does fit.
        fits: Option<usize>,
    },
    /// A bundle of certificate authorities without a certificate.
    #[error(
        "no certificate authority found, the bundle holds {held}; it needs at least one section \
         BEGIN CERTIFICATE"
    )]
    NoAuthority {
        /// Labels of the PEM sections present.
        held: String,
    },
    /// A certificate in the bundle that cannot anchor a chain.
    #[error("certificate {position} of the bundle cannot be trusted as an authority ({reason})")]
    BrokenAuthority {
        /// Place in the file, from 1.
        position: usize,
        /// Why not.
        reason: String,
    },
    /// A revocation list that cannot be read.
    #[error(
        "revocation list {position} is not readable ({reason}); it may be PEM (BEGIN X509 CRL) or DER, \
         look at it with `openssl crl -in FILE -noout -text`"
    )]
    BrokenRevocationList {
        /// Place among the lists, from 1.
        position: usize,
        /// The reader's words.
        reason: String,
    },
    /// A certificate could not be made.
    #[error(
        "a certificate for {names} could not be made ({reason}); check that each is a host name or an address"
    )]
    NotMade {
        /// The names asked for.
        names: String,
        /// The maker's words.
        reason: String,
    },
    /// The TLS library refuses a combination that reads well by itself.
    #[error("the TLS settings cannot be used together ({reason})")]
    Unusable {
        /// The library's words.
        reason: String,
    },
}

impl MaterialError {
    /// Who can act: always the operator, whose files these are.
    pub fn culprit(&self) -> Culprit {
        Culprit::Operator
    }
}

fn mismatch_help(fits: Option<usize>) -> String {
    match fits {
        Some(position) => format!(
            "it fits certificate {position} of the chain, and the end-entity certificate must come first"
        ),
        None => {
            "compare `openssl x509 -in CHAIN -noout -pubkey` with `openssl pkey -in KEY -pubout`"
                .to_owned()
        }
    }
}
