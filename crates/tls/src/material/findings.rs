//! What an operator should know about certificates that can be used.

use std::time::Duration;

use tollgate_terms::{CertificateKind, UnixTime};

use super::inspect::Description;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Works, yet somebody should look.
    Warning,
    /// Clients will refuse it.
    Error,
}

/// One thing to know about a certificate, bundle or revocation list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterialFinding {
    /// How bad it is.
    pub severity: Severity,
    /// A short name for programs, such as `expired`.
    pub code: &'static str,
    /// What, how much, and what to do; lower case, no full stop.
    pub message: String,
}

/// From this long before the end of a certificate on there is a warning.
pub const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 3600);

fn error(code: &'static str, message: String) -> MaterialFinding {
    MaterialFinding {
        severity: Severity::Error,
        code,
        message,
    }
}

fn warning(code: &'static str, message: String) -> MaterialFinding {
    MaterialFinding {
        severity: Severity::Warning,
        code,
        message,
    }
}

/// Findings about a server's chain, end-entity certificate first.
pub fn chain_findings(chain: &[Description], now: UnixTime) -> Vec<MaterialFinding> {
    let mut findings = Vec::new();
    for (certificate, position) in chain.iter().zip(1..) {
        validity(certificate, &place(position), now, &mut findings);
        if let Some(hash) = certificate.weak_signature
            && !certificate.is_self_issued
        {
            findings.push(error(
                "weak_signature",
                format!(
                    "{} ({}) is signed with {hash}, which clients refuse; have it issued again",
                    place(position),
                    certificate.subject
                ),
            ));
        }
    }
    if let Some(end_entity) = chain.first() {
        end_entity_findings(end_entity, chain.len(), &mut findings);
    }
    order_findings(chain, &mut findings);
    findings
}

/// Findings about the authorities that vouch for clients.
pub(super) fn authority_findings(
    authorities: &[Description],
    now: UnixTime,
) -> Vec<MaterialFinding> {
    let mut findings = Vec::new();
    for (authority, position) in authorities.iter().zip(1..) {
        let place = format!("authority {position}");
        validity(authority, &place, now, &mut findings);
        if !authority.is_authority {
            findings.push(warning(
                "not_an_authority",
                format!(
                    "{place} ({}) is no certificate authority by its basic constraints; it vouches \
                     for nobody, put the certificate that issues to your clients here",
                    authority.subject
                ),
            ));
        }
    }
    findings
}

/// Findings about revocation lists, by the time of their next update.
pub(super) fn revocation_list_findings(
    next_updates: &[Option<UnixTime>],
    now: UnixTime,
) -> Vec<MaterialFinding> {
    next_updates
        .iter()
        .zip(1..)
        .filter_map(|(next, position)| {
            let next = (*next)?;
            (next < now).then(|| {
                warning(
                    "revocation_list_stale",
                    format!(
                        "revocation list {position} should have been replaced on {}; it still counts, \
                         fetch the current one",
                        date(next)
                    ),
                )
            })
        })
        .collect()
}

fn place(position: usize) -> String {
    match position {
        1 => "the certificate".to_owned(),
        other => format!("certificate {other} of the chain"),
    }
}

fn validity(
    certificate: &Description,
    place: &str,
    now: UnixTime,
    findings: &mut Vec<MaterialFinding>,
) {
    let subject = &certificate.subject;
    if certificate.not_after < certificate.not_before {
        findings.push(error(
            "never_valid",
            format!("{place} ({subject}) ends before it begins; have it issued again"),
        ));
    } else if now > certificate.not_after {
        findings.push(error(
            "expired",
            format!(
                "{place} ({subject}) expired on {}, {} ago; renew it",
                date(certificate.not_after),
                days(now.since(certificate.not_after))
            ),
        ));
    } else if now < certificate.not_before {
        findings.push(error(
            "not_yet_valid",
            format!(
                "{place} ({subject}) is valid from {}, {} from now; check the clock of this machine",
                date(certificate.not_before),
                days(certificate.not_before.since(now))
            ),
        ));
    } else if certificate.not_after.since(now) < EXPIRES_SOON {
        findings.push(warning(
            "expires_soon",
            format!(
                "{place} ({subject}) expires on {}, in {}; renew it",
                date(certificate.not_after),
                days(certificate.not_after.since(now))
            ),
        ));
    }
}

fn end_entity_findings(
    certificate: &Description,
    chain_length: usize,
    findings: &mut Vec<MaterialFinding>,
) {
    if certificate.names.is_empty() {
        findings.push(error(
            "no_names",
            format!(
                "the certificate ({}) has no subject alternative name; clients ignore the common \
                 name, have it issued again with its host names",
                certificate.subject
            ),
        ));
    }
    if !certificate.may_serve {
        findings.push(error(
            "not_for_servers",
            "the certificate's extended key usage leaves out server authentication; have it issued \
             again with serverAuth"
                .to_owned(),
        ));
    }
    if certificate.kind == Some(CertificateKind::Ed25519) {
        findings.push(warning(
            "ed25519",
            "the certificate is Ed25519, which browsers cannot verify; add an ECDSA P-256 \
             certificate for the same names beside it"
                .to_owned(),
        ));
    }
    if let Some(CertificateKind::Rsa(bits)) = certificate.kind
        && bits > 4096
    {
        findings.push(warning(
            "slow_key",
            format!(
                "the certificate is RSA {bits}: each full handshake signs with it, several times the \
                 work of RSA 2048; ECDSA P-256 is stronger and far cheaper"
            ),
        ));
    }
    if chain_length == 1 && !certificate.is_self_issued {
        findings.push(warning(
            "no_intermediates",
            format!(
                "the chain holds only the end-entity certificate, issued by {}; clients that lack \
                 that issuer refuse it, append the issuer's certificate",
                certificate.issuer
            ),
        ));
    }
    if chain_length == 1 && certificate.is_self_issued {
        findings.push(warning(
            "self_signed",
            "the certificate is self-signed; only clients that were given it trust it".to_owned(),
        ));
    }
}

/// Each certificate must be issued by the one after it (RFC 5246, section 7.4.2; RFC 8446 lets
/// clients be lenient, old ones are not).
fn order_findings(chain: &[Description], findings: &mut Vec<MaterialFinding>) {
    for (index, certificate) in chain.iter().enumerate() {
        if let Some(first) = chain[..index]
            .iter()
            .position(|earlier| earlier.sha256 == certificate.sha256)
        {
            findings.push(warning(
                "duplicate",
                format!(
                    "certificate {} of the chain ({}) is certificate {} once more; remove it, it \
                     costs its bytes in every full handshake",
                    index + 1,
                    certificate.subject,
                    first + 1
                ),
            ));
            continue;
        }
        if index == 0 {
            continue;
        }
        if certificate.is_self_issued {
            findings.push(warning(
                "root_included",
                format!(
                    "certificate {} of the chain ({}) is a root; clients have it or refuse it, remove \
                     it and save its bytes in every full handshake",
                    index + 1,
                    certificate.subject
                ),
            ));
        }
        if chain[index - 1].issuer != certificate.subject {
            findings.push(warning(
                "chain_order",
                format!(
                    "certificate {index} of the chain is issued by {}, but certificate {} is {}; order \
                     the chain so that each is issued by the next",
                    chain[index - 1].issuer,
                    index + 1,
                    certificate.subject
                ),
            ));
        }
    }
}

fn days(span: Duration) -> String {
    match span.as_secs() / 86_400 {
        0 => format!("{} h", span.as_secs() / 3600),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// The UTC date of `time`, such as `2026-02-28`.
pub fn date(time: UnixTime) -> String {
    let mut days = time.0 / 86_400;
    // 400 Gregorian years are 146,097 days; the loops below stay short.
    let mut year = 1970 + 400 * (days / 146_097);
    days %= 146_097;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_gregorian_one() {
        for (time, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_772_236_800, "2026-02-28"),
            (4_107_542_400, "2100-03-01"),
            (1_798_675_200, "2026-12-31"),
        ] {
            assert_eq!(date(UnixTime(time)), text);
        }
    }
}
