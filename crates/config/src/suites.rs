//! Cipher suites, groups and versions in every spelling that people have in their files.
//!
//! OpenSSL's names stop here: further in there are only the IANA ones.

use tollgate_terms::{CipherSuite, NamedGroup, TlsVersion};

use crate::value::{Complaint, complain};

/// Every suite that Tollgate speaks, in default order, with OpenSSL's name for it.
const SUITES: &[(CipherSuite, &str)] = &[
    (
        CipherSuite::TLS_AES_128_GCM_SHA256,
        "TLS_AES_128_GCM_SHA256",
    ),
    (
        CipherSuite::TLS_AES_256_GCM_SHA384,
        "TLS_AES_256_GCM_SHA384",
    ),
    (
        CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        "TLS_CHACHA20_POLY1305_SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305",
    ),
];

/// Every group, in default order, with its other names.
const GROUPS: &[(NamedGroup, &[&str])] = &[
    (
        NamedGroup::X25519MLKEM768,
        &["x25519_mlkem768", "mlkem768x25519"],
    ),
    (NamedGroup::X25519, &["curve25519"]),
    (NamedGroup::SECP256R1, &["p-256", "p256", "prime256v1"]),
    (NamedGroup::SECP384R1, &["p-384", "p384"]),
];

/// The default of `suites:`.
pub fn default_suites() -> Vec<CipherSuite> {
    SUITES.iter().map(|(suite, _)| *suite).collect()
}

/// The default of `groups:`.
pub fn default_groups() -> Vec<NamedGroup> {
    GROUPS.iter().map(|(group, _)| *group).collect()
}

/// Whether a suite belongs to TLS 1.3.
pub fn is_tls13(suite: CipherSuite) -> bool {
    suite.0 >> 8 == 0x13
}

/// A suite in its IANA or OpenSSL spelling.
pub fn suite(text: &str) -> Result<CipherSuite, Complaint> {
    if let Some((suite, _)) = SUITES.iter().find(|(suite, open)| {
        open.eq_ignore_ascii_case(text) || suite.name().eq_ignore_ascii_case(text)
    }) {
        return Ok(*suite);
    }
    Err(refused(text))
}

/// Why a suite is not spoken, and what to write in its place.
fn refused(text: &str) -> Complaint {
    let upper = text.to_ascii_uppercase().replace('-', "_");
    let has = |part: &str| upper.contains(part);
    let allowed = "AEAD suites with ephemeral key exchange";
    let replacement = replacement(&upper);
    let use_instead = |complaint: Complaint| complaint.help(format!("write {replacement} instead"));

    if text.contains(':') || text.contains('!') || has("HIGH") || has("MEDIUM") || has("@SECLEVEL")
    {
        return complain("is an OpenSSL cipher string", "one suite for each entry")
            .help("write a list: [TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256]");
    }
    if has("RC4")
        || has("3DES")
        || has("DES_CBC")
        || has("NULL")
        || has("EXPORT")
        || has("_MD5")
        || has("ANON")
        || has("ADH_")
    {
        return use_instead(complain("is a broken cipher suite", allowed));
    }
    if upper.starts_with("TLS_RSA_WITH")
        || upper.starts_with("RSA_")
        || upper.starts_with("AES")
        || upper.starts_with("CAMELLIA")
    {
        return use_instead(complain(
            "uses static RSA key exchange, so a stolen key opens every recorded connection",
            allowed,
        ));
    }
    if has("CCM") {
        return use_instead(complain("is a CCM suite, which no browser offers", allowed));
    }
    if has("_CBC") || ((has("ECDHE") || has("DHE")) && !has("GCM") && !has("CHACHA") && has("SHA"))
    {
        return use_instead(complain(
            "is a CBC suite, open to padding attacks and slower than AES-GCM",
            allowed,
        ));
    }
    if has("DHE_RSA") && !has("ECDHE") {
        return use_instead(complain(
            "uses finite-field Diffie-Hellman, slow and with groups of unknown quality",
            allowed,
        ));
    }
    let names: Vec<&str> = SUITES
        .iter()
        .flat_map(|(suite, open)| [suite.name(), *open])
        .collect();
    let complaint = complain("is not a cipher suite known here", allowed);
    match crate::suggest::nearest(text, &names) {
        Some(near) => complaint.help(format!("did you mean {near}?")),
        None => complaint.help("leave `suites:` out for the default, or copy IANA names such as TLS_AES_128_GCM_SHA256"),
    }
}

/// The suite that serves the same clients.
fn replacement(upper: &str) -> &'static str {
    match (
        upper.contains("ECDSA"),
        upper.contains("256_") && !upper.contains("AES128") && !upper.contains("AES_128"),
    ) {
        (true, true) => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        (true, false) => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        (false, true) => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        (false, false) => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    }
}

/// A named group in any of its spellings.
pub fn group(text: &str) -> Result<NamedGroup, Complaint> {
    let found = GROUPS.iter().find(|(group, names)| {
        group.name().eq_ignore_ascii_case(text)
            || names.iter().any(|name| name.eq_ignore_ascii_case(text))
    });
    if let Some((group, _)) = found {
        return Ok(*group);
    }
    let names: Vec<&str> = GROUPS.iter().map(|(group, _)| group.name()).collect();
    let complaint = complain("is not a group known here", crate::suggest::one_of(&names));
    Err(match text.to_ascii_lowercase().as_str() {
        "p-521" | "p521" | "secp521r1" => {
            complaint.help("use secp384r1; clients that offer secp521r1 offer it as well")
        }
        "x448" => complaint.help("use secp384r1 or x25519; hardly a client offers x448"),
        "x25519kyber768draft00" | "kyber768" => {
            complaint.help("use X25519MLKEM768, the standard that replaced this draft")
        }
        "auto" => complaint.help("leave `groups:` out for the default"),
        name if name.starts_with("ffdhe") || name.starts_with("brainpool") => {
            complaint.help("use secp256r1, which every client offers")
        }
        _ => match crate::suggest::nearest(text, &names) {
            Some(near) => complaint.help(format!("did you mean {near}?")),
            None => complaint.help("leave `groups:` out for the default"),
        },
    })
}

/// A site's `min_version:`.
pub fn version(text: &str) -> Result<TlsVersion, Complaint> {
    let lower = text.to_ascii_lowercase();
    let number = lower
        .trim_start_matches("tls")
        .trim_start_matches(['v', ' ', '_'])
        .replace('_', ".");
    let allowed = "\"1.2\" or \"1.3\"";
    match number.as_str() {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        "1" | "1.0" | "1.1" => Err(complain(
            "is a version that RFC 8996 retired, and no browser since 2020 speaks",
            allowed,
        )
        .help("write \"1.2\"; a device that cannot be updated needs a proxy of its own, not a weaker site")),
        _ if lower.starts_with("ssl") => Err(complain(
            "is SSL, broken since 2014 (RFC 7568)",
            allowed,
        )
        .help("write \"1.2\"")),
        _ => Err(complain("is not a TLS version", allowed).help("write \"1.2\" or \"1.3\"")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use super::*;

    #[test]
    fn a_suite_is_known_by_both_its_names() {
        for (suite_, open) in SUITES {
            assert_eq!(suite(suite_.name()), Ok(*suite_));
            assert_eq!(suite(open), Ok(*suite_));
        }
    }

    #[test]
    fn a_refused_suite_is_told_why() {
        for (text, why) in [
            ("ECDHE-RSA-AES128-SHA", "CBC"),
            ("ECDHE-ECDSA-AES256-SHA384", "CBC"),
            ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "CBC"),
            ("AES128-GCM-SHA256", "static RSA"),
            ("TLS_RSA_WITH_AES_128_CBC_SHA", "static RSA"),
            ("RC4-SHA", "broken"),
            ("DES-CBC3-SHA", "broken"),
            ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", "broken"),
            ("DHE-RSA-AES128-GCM-SHA256", "finite-field"),
            ("TLS_AES_128_CCM_SHA256", "CCM"),
            ("HIGH:!aNULL:!MD5", "cipher string"),
            ("whatever", "not a cipher suite"),
        ] {
            let complaint = suite(text).unwrap_err();
            assert!(complaint.what.contains(why), "{text}: {}", complaint.what);
            assert!(complaint.help.is_some(), "{text}");
        }
    }

    #[test]
    fn groups_have_many_names() {
        for text in ["P-256", "prime256v1", "secp256r1"] {
            assert_eq!(group(text), Ok(NamedGroup::SECP256R1), "{text}");
        }
        assert_eq!(group("X25519"), Ok(NamedGroup::X25519));
        assert!(group("secp521r1").is_err());
    }

    #[test]
    fn versions_have_many_spellings_and_two_values() {
        for text in ["1.2", "TLSv1.2", "TLS1.2", "tls1_2"] {
            assert_eq!(version(text), Ok(TlsVersion::Tls12), "{text}");
        }
        for text in ["1.0", "TLSv1.1", "SSLv3", "TLSv1", "2"] {
            assert!(version(text).is_err(), "{text}");
        }
    }
}
