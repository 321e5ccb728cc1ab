//! PEM text cut into its labelled sections, before anything is decoded.
//!
//! Cutting first is what lets a combined file be read twice, and an encrypted key be named as
//! such instead of as broken base64.

use rustls_pki_types::pem::{self, SectionKind};

use super::MaterialError;

/// One section, still in base64.
pub(super) struct Section<'a> {
    pub(super) label: String,
    text: &'a [u8],
}

const BEGIN: &[u8] = b"-----BEGIN ";

/// All sections of `bytes` in file order; text between them is ignored (RFC 7468, section 2).
pub(super) fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, MaterialError> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(start) = position(rest, BEGIN) {
        rest = &rest[start..];
        let line_end = position(rest, b"\n").unwrap_or(rest.len());
        let line = String::from_utf8_lossy(&rest[BEGIN.len()..line_end]);
        let label = line.trim_end().trim_end_matches('-').to_owned();
        let end_marker = format!("-----END {label}-----");
        let Some(end) = position(rest, end_marker.as_bytes()) else {
            return Err(MaterialError::BrokenPem {
                reason: "it has no END line",
                label: shown(&label),
            });
        };
        let (text, after) = rest.split_at(end + end_marker.len());
        found.push(Section { label, text });
        rest = after;
    }
    Ok(found)
}

impl Section<'_> {
    pub(super) fn is_certificate(&self) -> bool {
        // `X509 CERTIFICATE` is the old spelling (RFC 7468, section 5.1); pki-types knows only the new.
        self.label == "CERTIFICATE"
    }

    pub(super) fn is_revocation_list(&self) -> bool {
        self.label == "X509 CRL"
    }

    pub(super) fn is_key(&self) -> bool {
        self.label.ends_with("PRIVATE KEY")
    }

    /// PKCS #8 encryption by label, the older OpenSSL encryption by header line.
    pub(super) fn is_encrypted(&self) -> bool {
        self.label == "ENCRYPTED PRIVATE KEY"
            || position(self.text, b"Proc-Type: 4,ENCRYPTED").is_some()
    }

    /// The DER inside.
    pub(super) fn decode(&self) -> Result<(SectionKind, Vec<u8>), MaterialError> {
        let mut text = self.text;
        match pem::from_buf(&mut text) {
            Ok(Some(section)) => Ok(section),
            Ok(None) => Err(self.broken("this label is not known here")),
            Err(_) => Err(self.broken("it is not base64")),
        }
    }

    fn broken(&self, reason: &'static str) -> MaterialError {
        MaterialError::BrokenPem {
            label: shown(&self.label),
            reason,
        }
    }
}

/// The labels present, for a message: `1 CERTIFICATE, 2 X509 CRL`, or `nothing in PEM form`.
pub(super) fn held(sections: &[Section<'_>]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for section in sections {
        match counts.iter_mut().find(|(label, _)| *label == section.label) {
            Some((_, count)) => *count += 1,
            None => counts.push((&section.label, 1)),
        }
    }
    if counts.is_empty() {
        return "nothing in PEM form".to_owned();
    }
    let listed: Vec<String> = counts
        .iter()
        .map(|(label, count)| format!("{count} {}", shown(label)))
        .collect();
    listed.join(", ")
}

/// A label as a message may hold it: on one line, and no longer than any real one.
fn shown(label: &str) -> String {
    label.escape_debug().take(64).collect()
}

/// Binary instead of PEM: `DER` or `PKCS #12`. Both open with an ASN.1 SEQUENCE of long form.
pub(super) fn binary_form(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() < 8 || bytes[0] != 0x30 || position(bytes, BEGIN).is_some() {
        return None;
    }
    // RFC 7292, section 4: PFX opens with INTEGER 3.
    if bytes[1] & 0x80 != 0 && bytes.get(4..7) == Some(&[0x02, 0x01, 0x03]) {
        return Some("PKCS #12");
    }
    Some("DER")
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
