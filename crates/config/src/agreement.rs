//! What a site agrees on with its clients: versions, suites, groups, protocols, client certificates.

use tollgate_terms::{CipherSuite, TlsVersion};

use crate::finding::Finding;
use crate::model::{ClientCertificates, ClientTrust, TlsPolicy};
use crate::section::{Section, Shape};
use crate::site::Modes;
use crate::suites;
use crate::value::complain;

#[derive(Clone, Copy)]
enum Asking {
    Off,
    Optional,
    Required,
}

/// A site's `client_certificates:`.
pub fn client_certificates(site: &mut Section<'_>) -> ClientCertificates {
    let about = "whether clients show a certificate, and who must have signed it; or the word off";
    let shape = Shape::Either(vec![Shape::Choice(vec!["off"]), Shape::Section(Vec::new())]);
    let item = site.field("client_certificates", shape, "off", about);
    let mut section = match &item {
        Some(item) => item.section_or("mode"),
        None => Section::absent(site.desk, "sites.client_certificates".into()),
    };
    let modes = &[
        ("off", Asking::Off),
        ("optional", Asking::Optional),
        ("required", Asking::Required),
    ];
    let default = if section.is_given() {
        Asking::Required
    } else {
        Asking::Off
    };
    let asking = section.choice(
        "mode",
        modes,
        default,
        "required",
        "off, optional or required",
    );
    let ca = section.path(
        "ca",
        "PEM file with the authorities that sign client certificates",
    );
    let list = Shape::List(Box::new(Shape::Text("path")));
    let crls = section
        .field(
            "crls",
            list,
            "none",
            "revocation lists, PEM or DER; a certificate that no list covers is accepted",
        )
        .iter()
        .flat_map(|item| item.list())
        .filter_map(|entry| entry.path())
        .collect();
    if !matches!(asking, Asking::Off) && section.place_of("ca").is_none() {
        section.missing(
            "ca",
            "write client_certificates: { mode: required, ca: clients-ca.pem }",
        );
    }
    let fields = section.finish();
    site.reshape(
        "client_certificates",
        Shape::Either(vec![Shape::Choice(vec!["off"]), Shape::Section(fields)]),
    );
    match (asking, ca) {
        (Asking::Off, _) | (_, None) => ClientCertificates::Off,
        (Asking::Optional, Some(ca)) => ClientCertificates::Optional(ClientTrust { ca, crls }),
        (Asking::Required, Some(ca)) => ClientCertificates::Required(ClientTrust { ca, crls }),
    }
}

/// A site's `tls:`.
pub fn tls(section: &mut Section<'_>) -> TlsPolicy {
    let min_version = section
        .field(
            "min_version",
            Shape::Choice(vec!["1.2", "1.3"]),
            "1.2",
            "oldest version that a client may speak",
        )
        .and_then(|item| item.parse(suites::version))
        .unwrap_or(TlsVersion::Tls12);
    let groups = chosen(
        section,
        "groups",
        "key exchange groups, best first",
        suites::group,
        suites::default_groups,
    );
    let suites = chosen(
        section,
        "suites",
        "cipher suites, best first, IANA or OpenSSL names",
        suites::suite,
        suites::default_suites,
    );
    versions_and_suites(section, min_version, &suites);
    TlsPolicy {
        min_version,
        groups,
        suites,
    }
}

/// Suites that a version lacks or never uses.
fn versions_and_suites(section: &Section<'_>, min_version: TlsVersion, suites: &[CipherSuite]) {
    let warn = |title: &str, label: &str, help: &str| {
        if let Some(at) = section.place_of("suites") {
            section.desk.report(
                Finding::warning(Some(at), title.into())
                    .label(label.into())
                    .help(help),
            );
        }
    };
    let has13 = suites.iter().any(|suite| suites::is_tls13(*suite));
    let has12 = suites.iter().any(|suite| !suites::is_tls13(*suite));
    match (min_version, has12, has13) {
        (TlsVersion::Tls12, true, false) => warn(
            "`suites` has none of TLS 1.3",
            "so TLS 1.3 is off, and every client speaks 1.2",
            "add TLS_AES_128_GCM_SHA256, or leave `suites:` out for the default",
        ),
        (TlsVersion::Tls13, _, false) => {
            if let Some(at) = section.place_of("suites") {
                section.desk.report(
                    Finding::error(
                        Some(at),
                        "`suites` has none of TLS 1.3, and min_version is 1.3".into(),
                    )
                    .label("no client could connect".into())
                    .help("add TLS_AES_128_GCM_SHA256, or leave `suites:` out for the default"),
                );
            }
        }
        (TlsVersion::Tls12, false, true) => warn(
            "`suites` has none of TLS 1.2",
            "so clients that speak only TLS 1.2 are refused",
            "write min_version: \"1.3\" if that is meant, or add TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        (TlsVersion::Tls13, true, true) => warn(
            "`suites` has some of TLS 1.2, and min_version is 1.3",
            "those of TLS 1.2 are never used",
            "remove them, or write min_version: \"1.2\"",
        ),
        (TlsVersion::Tls12, true, true)
        | (TlsVersion::Tls12, false, false)
        | (TlsVersion::Tls13, false, true) => {}
    }
}

/// A list of names without repetition; an empty list is an error.
fn chosen<T: Copy + PartialEq>(
    section: &mut Section<'_>,
    field: &'static str,
    about: &'static str,
    read: fn(&str) -> Result<T, crate::value::Complaint>,
    default: fn() -> Vec<T>,
) -> Vec<T> {
    let shape = Shape::List(Box::new(Shape::Text("name")));
    let Some(item) = section.field(field, shape, "all of them", about) else {
        return default();
    };
    let mut values: Vec<T> = Vec::new();
    let entries = item.list();
    for entry in &entries {
        match entry.parse(read) {
            Some(value) if values.contains(&value) => entry.warning(
                format!("`{}` names this twice", item.path),
                "the second one has no effect",
                "remove it",
            ),
            Some(value) => values.push(value),
            None => {}
        }
    }
    if entries.is_empty() {
        item.empty_list("add a name; or remove the line to get the default");
    }
    if values.is_empty() { default() } else { values }
}

/// A site's `alpn:`.
pub fn alpn(section: &mut Section<'_>, modes: Modes) -> Vec<String> {
    let shape = Shape::List(Box::new(Shape::Text("protocol")));
    let about = "application protocols offered to clients";
    let default = "[\"h2\", \"http/1.1\"] in http mode, none in tcp mode";
    let Some(item) = section.field("alpn", shape, default, about) else {
        return if modes.http {
            vec!["h2".to_owned(), "http/1.1".to_owned()]
        } else {
            Vec::new()
        };
    };
    let mut protocols = Vec::new();
    for entry in item.list() {
        let Some(protocol) = entry.parse(|text| protocol(text, modes)) else {
            continue;
        };
        if protocol == "h2" && modes.tcp && !modes.http {
            entry.warning(
                "`alpn: h2` in tcp mode".into(),
                "clients will speak HTTP/2 straight to the backends",
                "remove it unless every backend speaks HTTP/2 without TLS, or choose mode: http",
            );
        }
        protocols.push(protocol);
    }
    protocols
}

fn protocol(text: &str, modes: Modes) -> Result<String, crate::value::Complaint> {
    if text.len() > 255 {
        return Err(complain("is too long", "1 to 255 bytes, RFC 7301"));
    }
    if modes.http {
        return match text {
            "h2" | "http/1.1" => Ok(text.to_owned()),
            _ => {
                let complaint = complain("is not spoken in http mode", "h2 or http/1.1");
                Err(match text.to_ascii_lowercase().as_str() {
                    "http2" | "http/2" | "http/2.0" | "h2c" => complaint.help("write h2"),
                    "http" | "http1.1" | "http1" | "http/1" | "h1" => {
                        complaint.help("write http/1.1")
                    }
                    "h3" => {
                        complaint.help("remove it; HTTP/3 runs over UDP, which is not served here")
                    }
                    _ => complaint.help("choose mode: tcp to relay another protocol"),
                })
            }
        };
    }
    Ok(text.to_owned())
}
