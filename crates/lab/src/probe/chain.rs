//! What the server sent to prove who it is, and whether it fits where it has to fit.

use serde::Serialize;
use tollgate_terms::UnixTime;
use tollgate_tls::client::{Staple, StapleStatus, weigh};
use tollgate_tls::material::describe;

/// What a server may send before it has to wait for the client: ten segments of 1,460 bytes (RFC 6928).
pub const INITIAL_WINDOW_BYTES: usize = 10 * 1460;

/// One certificate of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateReport {
    /// Subject, RFC 4514 text.
    pub subject: String,
    /// Issuer, RFC 4514 text.
    pub issuer: String,
    /// Kind of its key in words, such as `ECDSA P-256`.
    pub key: String,
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// All of it, DER.
    pub bytes: usize,
    /// The public key in it.
    pub key_bytes: usize,
    /// The signature on it.
    pub signature_bytes: usize,
    /// Start of validity, Unix time.
    pub not_before_seconds: u64,
    /// End of validity, Unix time.
    pub not_after_seconds: u64,
    /// Whether issuer and subject are the same: a root, which no client needs to be sent.
    pub self_issued: bool,
    /// Whether it may sign certificates.
    pub authority: bool,
}

/// The chain as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// The server's own certificate first.
    pub certificates: Vec<CertificateReport>,
    /// All of them together, DER.
    pub bytes: usize,
}

impl Chain {
    /// Describes DER certificates; one that cannot be read is described as that.
    pub fn of<D: AsRef<[u8]>>(chain: &[D]) -> Self {
        Self {
            certificates: chain.iter().map(|der| certificate(der.as_ref())).collect(),
            bytes: chain.iter().map(|der| der.as_ref().len()).sum(),
        }
    }

    /// What to take out of a first flight of `flight` bytes that does not fit the initial window, the largest
    /// gain first; `None` when it fits.
    pub fn advice(&self, flight: usize) -> Option<String> {
        trim(flight, self, 0)
    }
}

fn certificate(der: &[u8]) -> CertificateReport {
    let size = weigh(der);
    match describe(der) {
        Ok(description) => CertificateReport {
            subject: description.subject,
            issuer: description.issuer,
            key: description.key,
            serial: description.serial,
            names: description.names,
            bytes: der.len(),
            key_bytes: size.map_or(0, |size| size.key_bytes),
            signature_bytes: size.map_or(0, |size| size.signature_bytes),
            not_before_seconds: description.not_before.0,
            not_after_seconds: description.not_after.0,
            self_issued: description.is_self_issued,
            authority: description.is_authority,
        },
        Err(reason) => CertificateReport {
            subject: format!("cannot be read: {reason}"),
            issuer: String::new(),
            key: String::new(),
            serial: String::new(),
            names: Vec::new(),
            bytes: der.len(),
            key_bytes: 0,
            signature_bytes: 0,
            not_before_seconds: 0,
            not_after_seconds: 0,
            self_issued: false,
            authority: false,
        },
    }
}

/// The stapled response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StapleReport {
    /// Its length.
    pub bytes: usize,
    /// `good`, `revoked`, `unknown` or `unreadable`.
    pub status: &'static str,
    /// Since when it is revoked, Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_seconds: Option<u64>,
    /// When that was known, Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub this_update_seconds: Option<u64>,
    /// When there will be news, Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_update_seconds: Option<u64>,
    /// What is wrong with it: past its next update, for another certificate, unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl StapleReport {
    /// Reads a response that should be about the first certificate of `chain`.
    pub(super) fn of(der: &[u8], chain: &Chain, now: UnixTime) -> Self {
        let staple = match Staple::read(der) {
            Ok(staple) => staple,
            Err(error) => {
                return Self {
                    bytes: der.len(),
                    status: "unreadable",
                    revoked_seconds: None,
                    this_update_seconds: None,
                    next_update_seconds: None,
                    problem: Some(error.to_string()),
                };
            }
        };
        let expected = chain.certificates.first().map(|first| &first.serial);
        let stale = staple.next_update.is_some_and(|next| next < now);
        let problem = if expected.is_some_and(|serial| *serial != staple.serial) {
            Some(format!(
                "it is about the certificate {}, not this one",
                staple.serial
            ))
        } else if stale {
            Some("it is past its next update: clients ignore it, and refuse the certificate if it says must-staple".into())
        } else {
            None
        };
        Self {
            bytes: der.len(),
            status: staple.status.name(),
            revoked_seconds: match staple.status {
                StapleStatus::Revoked(at) => Some(at.0),
                StapleStatus::Good | StapleStatus::Unknown => None,
            },
            this_update_seconds: Some(staple.this_update.0),
            next_update_seconds: staple.next_update.map(|next| next.0),
            problem,
        }
    }
}

/// What to take out of a first flight that does not fit the initial window, the largest gain first;
/// `None` when it fits.
pub(super) fn trim(flight: usize, chain: &Chain, staple: usize) -> Option<String> {
    let over = flight.checked_sub(INITIAL_WINDOW_BYTES + 1)? + 1;
    let mut ways: Vec<(usize, String)> = Vec::new();
    let behind = chain.certificates.get(1..).unwrap_or_default();
    let roots = behind.iter().filter(|one| one.self_issued);
    let root_bytes: usize = roots.map(|one| one.bytes).sum();
    if root_bytes > 0 {
        ways.push((
            root_bytes,
            format!("leave out the root, which clients have ({root_bytes} B)"),
        ));
    }
    // One intermediate is what a leaf usually needs.
    let extra: usize = behind
        .iter()
        .filter(|one| !one.self_issued)
        .skip(1)
        .map(|one| one.bytes)
        .sum();
    if extra > 0 {
        ways.push((extra, format!("leave out cross-signed intermediates that your clients do not need (up to {extra} B)")));
    }
    let names: usize = chain
        .certificates
        .first()
        .map_or(0, |leaf| leaf.names.iter().map(|name| name.len() + 2).sum());
    if names > 500 {
        ways.push((
            names,
            format!("split the certificate: its names alone take {names} B"),
        ));
    }
    let rsa = |one: &CertificateReport| one.key.starts_with("RSA");
    let gain: usize = chain
        .certificates
        .iter()
        .filter(|one| rsa(one))
        .map(|one| {
            // An ECDSA P-256 key takes 65 bytes and a signature 72.
            one.key_bytes.saturating_sub(65) + one.signature_bytes.saturating_sub(72)
        })
        .sum();
    if gain > 0 {
        ways.push((
            gain,
            format!("use an ECDSA chain ({gain} B less, and cheaper to sign with)"),
        ));
    }
    if staple > 0 {
        ways.push((staple, format!("do without the staple ({staple} B)")));
    }
    ways.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let ways: Vec<String> = ways.into_iter().map(|(_, way)| way).collect();
    let ways = match ways.is_empty() {
        true => "raise the initial window of the server's route".into(),
        false => ways.join("; or "),
    };
    Some(format!(
        "{over} B over: a new client waits one more round trip; {ways}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, bytes: usize, self_issued: bool) -> CertificateReport {
        CertificateReport {
            key: key.into(),
            bytes,
            key_bytes: 270,
            signature_bytes: 256,
            self_issued,
            ..certificate(b"none")
        }
    }

    #[test]
    fn a_flight_that_fits_needs_no_advice_and_one_byte_more_does() {
        let chain = Chain::default();
        assert_eq!(trim(INITIAL_WINDOW_BYTES, &chain, 0), None);
        let advice = trim(INITIAL_WINDOW_BYTES + 1, &chain, 500).unwrap();
        assert!(
            advice.starts_with("1 B over") && advice.contains("staple (500 B)"),
            "{advice}"
        );
    }

    #[test]
    fn the_largest_gain_is_named_first() {
        let chain = Chain {
            certificates: vec![
                one("RSA 2048", 1500, false),
                one("RSA 4096", 1700, false),
                one("RSA 4096", 1400, true),
            ],
            bytes: 4600,
        };
        let advice = trim(20_000, &chain, 600).unwrap();
        let place = |what: &str| advice.find(what).unwrap();
        assert!(
            place("root") < place("ECDSA") && place("ECDSA") < place("staple"),
            "{advice}"
        );
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_said_to_be() {
        let chain = Chain::of(&[b"none".to_vec()]);
        assert_eq!(chain.bytes, 4);
        assert!(chain.certificates[0].subject.starts_with("cannot be read"));
        let staple = StapleReport::of(b"none", &chain, UnixTime(0));
        assert_eq!((staple.status, staple.bytes), ("unreadable", 4));
    }
}
