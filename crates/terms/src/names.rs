//! Registered names: TLS versions, cipher suites, named groups, signature schemes,
//! certificate kinds and server names.

use std::fmt;

/// A protocol version that Tollgate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

impl TlsVersion {
    /// `"TLSv1.2"` or `"TLSv1.3"`, as OpenSSL, nginx and HAProxy print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A two-byte registry value with the names of those values that Tollgate knows.
macro_rules! registry {
    ($(#[$doc:meta])* $name:ident { $($value:literal => $text:literal, $constant:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl $name {
            $(#[doc = $text] pub const $constant: Self = Self($value);)*

            /// The registered name; `"unknown"` for a value outside this table.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "unknown",
                }
            }

            /// The value with this registered name, whatever its case.
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($text) {
                    return Some(Self($value));
                })*
                None
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    "unknown" => write!(f, "0x{:04x}", self.0),
                    name => f.write_str(name),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

registry! {
    /// A cipher suite in its IANA spelling.
    CipherSuite {
        0x1301 => "TLS_AES_128_GCM_SHA256", TLS_AES_128_GCM_SHA256;
        0x1302 => "TLS_AES_256_GCM_SHA384", TLS_AES_256_GCM_SHA384;
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256", TLS_CHACHA20_POLY1305_SHA256;
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384;
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256;
    }
}

registry! {
    /// A named group for key exchange.
    NamedGroup {
        0x0017 => "secp256r1", SECP256R1;
        0x0018 => "secp384r1", SECP384R1;
        0x001d => "x25519", X25519;
        0x11ec => "X25519MLKEM768", X25519MLKEM768;
    }
}

registry! {
    /// A signature scheme.
    SignatureScheme {
        0x0401 => "rsa_pkcs1_sha256", RSA_PKCS1_SHA256;
        0x0501 => "rsa_pkcs1_sha384", RSA_PKCS1_SHA384;
        0x0601 => "rsa_pkcs1_sha512", RSA_PKCS1_SHA512;
        0x0403 => "ecdsa_secp256r1_sha256", ECDSA_SECP256R1_SHA256;
        0x0503 => "ecdsa_secp384r1_sha384", ECDSA_SECP384R1_SHA384;
        0x0804 => "rsa_pss_rsae_sha256", RSA_PSS_RSAE_SHA256;
        0x0805 => "rsa_pss_rsae_sha384", RSA_PSS_RSAE_SHA384;
        0x0806 => "rsa_pss_rsae_sha512", RSA_PSS_RSAE_SHA512;
        0x0807 => "ed25519", ED25519;
    }
}

/// The kind of key in an end-entity certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificateKind {
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
    /// RSA with a modulus of this many bits.
    Rsa(u16),
}

impl CertificateKind {
    /// A short name for labels: `ecdsa-p256`, `ecdsa-p384`, `ed25519`, `rsa-2048`, `rsa-3072`,
    /// `rsa-4096`, and `rsa` for any other length.
    pub fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
            Self::Ed25519 => "ed25519",
            Self::Rsa(2048) => "rsa-2048",
            Self::Rsa(3072) => "rsa-3072",
            Self::Rsa(4096) => "rsa-4096",
            Self::Rsa(_) => "rsa",
        }
    }
}

impl fmt::Display for CertificateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A DNS name as sent in `server_name`: lower case, no final dot, at most 253 bytes of
/// letters, digits, hyphen, underscore and dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(Box<str>);

/// Why a text is not a server name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerNameError {
    /// No bytes at all.
    Empty,
    /// Over 253 bytes, or a label over 63.
    TooLong,
    /// A byte that no host name holds, or an empty label.
    NotAHostName,
}

impl ServerName {
    /// Reads a host name, lowering its case and dropping one final dot.
    ///
    /// # Errors
    /// When the text is empty, too long, or holds a byte that no host name holds.
    pub fn new(text: &str) -> Result<Self, ServerNameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(ServerNameError::Empty);
        }
        if text.len() > 253 {
            return Err(ServerNameError::TooLong);
        }
        for label in text.split('.') {
            if label.is_empty() {
                return Err(ServerNameError::NotAHostName);
            }
            if label.len() > 63 {
                return Err(ServerNameError::TooLong);
            }
            if !label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            {
                return Err(ServerNameError::NotAHostName);
            }
        }
        Ok(Self(text.to_ascii_lowercase().into_boxed_str()))
    }

    /// The name in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its first label: `a.b.example` gives `b.example`; used to match `*.b.example`.
    pub fn parent(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, parent)| parent)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_name_is_lowered_and_loses_its_final_dot() {
        assert_eq!(
            ServerName::new("Shop.Example.").map(|n| n.to_string()),
            Ok("shop.example".into())
        );
    }

    #[test]
    fn a_server_name_refuses_what_no_host_is_called() {
        for (text, error) in [
            ("", ServerNameError::Empty),
            (".", ServerNameError::Empty),
            ("a..b", ServerNameError::NotAHostName),
            ("a b", ServerNameError::NotAHostName),
            ("a\0b", ServerNameError::NotAHostName),
        ] {
            assert_eq!(ServerName::new(text), Err(error), "{text:?}");
        }
        assert_eq!(
            ServerName::new(&"a".repeat(64)),
            Err(ServerNameError::TooLong)
        );
    }

    #[test]
    fn registry_names_read_back() {
        assert_eq!(
            CipherSuite::from_name("tls_aes_128_gcm_sha256"),
            Some(CipherSuite(0x1301))
        );
        assert_eq!(CipherSuite(0x0005).to_string(), "0x0005");
    }
}
