//! X.509 certificates described in words, for findings, `check` and client identity.

use aws_lc_rs::digest;
use rustls_pki_types::CertificateDer;
use tollgate_terms::{CertificateKind, ClientIdentity, UnixTime};
use x509_parser::prelude::{
    FromDer, GeneralName, ParsedExtension, SubjectPublicKeyInfo, X509Certificate, X509Name,
};
use x509_parser::public_key::PublicKey;

use super::MaterialError;

/// What one certificate says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Kind of its key; `None` for a kind that Tollgate does not serve.
    pub kind: Option<CertificateKind>,
    /// Its key in words, such as `RSA 2048` or `ECDSA P-521`.
    pub key: String,
    /// Subject, RFC 4514 text.
    pub subject: String,
    /// First common name of the subject; empty when there is none.
    pub common_name: String,
    /// Issuer, RFC 4514 text.
    pub issuer: String,
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// DNS names, then addresses of the subject alternative name, in certificate order, lower case.
    pub names: Vec<String>,
    /// Start of validity.
    pub not_before: UnixTime,
    /// End of validity, inclusive.
    pub not_after: UnixTime,
    /// SHA-256 of the DER, lower-case hexadecimal.
    pub sha256: String,
    /// Whether basic constraints make it a certificate authority.
    pub is_authority: bool,
    /// Whether issuer and subject are the same name.
    pub is_self_issued: bool,
    /// Where its OCSP responder lives, when it names one.
    pub has_ocsp_responder: bool,
    /// False when an extended key usage is present that leaves out server authentication.
    pub may_serve: bool,
    /// Name of a signature hash that clients no longer accept, such as `SHA-1`.
    pub weak_signature: Option<&'static str>,
}

/// Describes one DER certificate.
///
/// # Errors
/// The reader's words when `der` is not an X.509 certificate, or has bytes after it.
pub fn describe(der: &[u8]) -> Result<Description, String> {
    let certificate = parse(der)?;
    let (kind, key) = key_kind(certificate.public_key());
    Ok(Description {
        kind,
        key,
        subject: distinguished_name(certificate.subject()),
        common_name: common_name(certificate.subject()),
        issuer: distinguished_name(certificate.issuer()),
        serial: serial(&certificate),
        names: host_names(&certificate),
        not_before: time(certificate.validity().not_before.timestamp()),
        not_after: time(certificate.validity().not_after.timestamp()),
        sha256: hexadecimal(sha256(der).as_ref()),
        is_authority: certificate.is_ca(),
        is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
        has_ocsp_responder: has_ocsp_responder(&certificate),
        may_serve: may_serve(&certificate),
        weak_signature: weak_signature(&certificate),
    })
}

/// Describes every certificate of a PEM chain or one DER certificate, in file order.
///
/// # Errors
/// When a section is damaged, a certificate cannot be read, or there is none.
pub fn inspect(chain: &[u8]) -> Result<Vec<Description>, MaterialError> {
    describe_all(&chain_der(chain)?)
}

/// The DER of every certificate of a PEM chain, a combined file, or one DER certificate, in file order.
///
/// # Errors
/// When a section is damaged or there is no certificate.
pub fn chain_der(chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    match super::pem::binary_form(chain) {
        Some("DER") => Ok(vec![CertificateDer::from(chain.to_vec())]),
        _ => super::certificates(chain, "certificate chain"),
    }
}

pub(super) fn describe_all(
    certificates: &[CertificateDer<'_>],
) -> Result<Vec<Description>, MaterialError> {
    certificates
        .iter()
        .zip(1..)
        .map(|(der, position)| {
            describe(der).map_err(|reason| MaterialError::BrokenCertificate { position, reason })
        })
        .collect()
}

/// The identity that a verified client certificate carries; `None` when it cannot be read.
pub fn client_identity(der: &[u8]) -> Option<ClientIdentity> {
    let certificate = parse(der).ok()?;
    Some(ClientIdentity {
        subject: distinguished_name(certificate.subject()),
        common_name: common_name(certificate.subject()),
        serial: serial(&certificate),
        fingerprint_sha256: hexadecimal(sha256(der).as_ref()),
        alternative_names: general_names(&certificate)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) | GeneralName::URI(name) => Some(printable(name)),
                _ => None,
            })
            .collect(),
    })
}

/// SHA-256 of `bytes`, lower-case hexadecimal.
pub fn fingerprint(bytes: &[u8]) -> String {
    hexadecimal(sha256(bytes).as_ref())
}

pub(super) fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The raw `SubjectPublicKeyInfo`, to compare with a private key's.
pub(super) fn public_key_info(der: &[u8]) -> Option<Vec<u8>> {
    Some(parse(der).ok()?.public_key().raw.to_vec())
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok((rest, _)) => Err(format!("{} bytes follow it", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

// Object identifiers of public keys: RFC 8017 appendix C, RFC 5480 section 2.1.1, RFC 8410 section 3.
const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const P521: &str = "1.3.132.0.35";

fn key_kind(info: &SubjectPublicKeyInfo<'_>) -> (Option<CertificateKind>, String) {
    let algorithm = info.algorithm.algorithm.to_id_string();
    match algorithm.as_str() {
        RSA => match info.parsed() {
            Ok(PublicKey::RSA(key)) => {
                let bits = modulus_bits(key.modulus);
                let kind = u16::try_from(bits).ok().map(CertificateKind::Rsa);
                (kind, format!("RSA {bits}"))
            }
            _ => (None, "RSA that cannot be read".to_owned()),
        },
        EC => {
            let parameters = info.algorithm.parameters.as_ref();
            let curve = parameters.and_then(|p| p.as_oid().ok());
            match curve.map(|oid| oid.to_id_string()).as_deref() {
                Some(P256) => (Some(CertificateKind::EcdsaP256), "ECDSA P-256".to_owned()),
                Some(P384) => (Some(CertificateKind::EcdsaP384), "ECDSA P-384".to_owned()),
                Some(P521) => (None, "ECDSA P-521".to_owned()),
                Some(other) => (None, format!("ECDSA on curve {other}")),
                None => (None, "ECDSA on an unnamed curve".to_owned()),
            }
        }
        ED25519 => (Some(CertificateKind::Ed25519), "Ed25519".to_owned()),
        other => (None, format!("of algorithm {other}")),
    }
}

fn modulus_bits(modulus: &[u8]) -> usize {
    let start = modulus.iter().position(|byte| *byte != 0);
    match start.map(|start| &modulus[start..]) {
        Some(significant) => significant.len() * 8 - significant[0].leading_zeros() as usize,
        None => 0,
    }
}

fn time(timestamp: i64) -> UnixTime {
    UnixTime(u64::try_from(timestamp).unwrap_or(0))
}

fn serial(certificate: &X509Certificate<'_>) -> String {
    let raw = certificate.raw_serial();
    // A leading zero only keeps the DER integer positive (X.690, section 8.3).
    hexadecimal(match raw {
        [0, rest @ ..] if !rest.is_empty() => rest,
        _ => raw,
    })
}

fn general_names<'a>(
    certificate: &'a X509Certificate<'_>,
) -> impl Iterator<Item = &'a GeneralName<'a>> {
    certificate
        .iter_extensions()
        .filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        })
        .flatten()
}

fn host_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    general_names(certificate)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(printable(&name.to_ascii_lowercase())),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        })
        .collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(std::net::Ipv6Addr::from(sixteen).to_string())
}

fn has_ocsp_responder(certificate: &X509Certificate<'_>) -> bool {
    // RFC 5280, section 4.2.2.1: id-ad-ocsp.
    const OCSP: &str = "1.3.6.1.5.5.7.48.1";
    certificate
        .iter_extensions()
        .any(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(access) => access
                .accessdescs
                .iter()
                .any(|description| description.access_method.to_id_string() == OCSP),
            _ => false,
        })
}

fn may_serve(certificate: &X509Certificate<'_>) -> bool {
    certificate
        .iter_extensions()
        .all(|extension| match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usage) => usage.any || usage.server_auth,
            _ => true,
        })
}

fn weak_signature(certificate: &X509Certificate<'_>) -> Option<&'static str> {
    // RFC 3279, section 2.2: the signature algorithms that hash with SHA-1 or MD5.
    match certificate
        .signature_algorithm
        .algorithm
        .to_id_string()
        .as_str()
    {
        "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" => Some("SHA-1"),
        "1.2.840.113549.1.1.4" => Some("MD5"),
        _ => None,
    }
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name()
        .next()
        .and_then(|attribute| attribute.as_str().ok())
        .map(printable)
        .unwrap_or_default()
}

/// RFC 4514, section 2: the last relative name first, `,` between them, `+` inside one.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let relative: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for (index, relative) in relative.iter().rev().enumerate() {
        if index > 0 {
            text.push(',');
        }
        for (index, attribute) in relative.iter().enumerate() {
            if index > 0 {
                text.push('+');
            }
            let identifier = attribute.attr_type().to_id_string();
            text.push_str(short_name(&identifier).unwrap_or(&identifier));
            text.push('=');
            match attribute.as_str() {
                Ok(value) => push_escaped(&mut text, value),
                Err(_) => {
                    text.push('#');
                    text.push_str(&hexadecimal(attribute.as_slice()));
                }
            }
        }
    }
    text
}

/// RFC 4514, section 3, and the two that certificates hold most beyond it.
fn short_name(identifier: &str) -> Option<&'static str> {
    Some(match identifier {
        "2.5.4.3" => "CN",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.6" => "C",
        "2.5.4.9" => "STREET",
        "0.9.2342.19200300.100.1.25" => "DC",
        "0.9.2342.19200300.100.1.1" => "UID",
        "2.5.4.5" => "serialNumber",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

/// RFC 4514, section 2.4; a control character becomes `\XX`, so a name never breaks a log line.
fn push_escaped(text: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let escape = matches!(character, '"' | '+' | ',' | ';' | '<' | '>' | '\\')
            || (index == 0 && matches!(character, ' ' | '#'))
            || (index == last && character == ' ');
        if character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                text.push('\\');
                text.push_str(&hexadecimal(&[byte]));
            }
            continue;
        }
        if escape {
            text.push('\\');
        }
        text.push(character);
    }
}

/// A name whose control characters became U+FFFD.
fn printable(value: &str) -> String {
    if !value.contains(char::is_control) {
        return value.to_owned();
    }
    value
        .chars()
        .map(|character| match character {
            control if control.is_control() => '\u{fffd}',
            other => other,
        })
        .collect()
}
