//! `sites:`, and what each mode allows in one.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_terms::TlsVersion;

use crate::address;
use crate::backend;
use crate::finding::Finding;
use crate::model::{
    Balance, CertificateFiles, ClientCertificates, ClientTrust, Forwarded, ForwardedHeaders,
    HealthCheck, Listener, Mode, PassiveHealth, Site, SiteName, Span, Spanned, TlsPolicy,
};
use crate::process::{self, MODES};
use crate::section::{Section, Shape};
use crate::suites;
use crate::value::complain;

/// The modes that a site can be served in: its own, or those of all listeners.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modes {
    /// Some connection is served as HTTP.
    pub http: bool,
    /// Some connection is relayed after TLS ended here.
    pub tcp: bool,
    /// Some connection is relayed as it is.
    pub passthrough: bool,
}

impl Modes {
    fn of(modes: impl Iterator<Item = Mode>) -> Self {
        let mut all = Self::default();
        for mode in modes {
            match mode {
                Mode::Http => all.http = true,
                Mode::Tcp => all.tcp = true,
                Mode::Passthrough => all.passthrough = true,
            }
        }
        all
    }

    /// Whether TLS ends here for some connection.
    pub fn terminates(self) -> bool {
        self.http || self.tcp
    }

    /// For sentences: "tcp mode".
    pub fn text(self) -> &'static str {
        match self {
            Self { http: true, .. } => "http mode",
            Self { tcp: true, .. } => "tcp mode",
            _ => "passthrough mode",
        }
    }
}

/// `sites:`
pub fn sites(top: &mut Section<'_>, listeners: &[Listener]) -> Vec<Site> {
    let mut listener_modes = Modes::of(listeners.iter().map(|listener| listener.mode));
    if listeners.is_empty() {
        listener_modes.http = true;
    }
    let sites = top.sections("sites", "what is served; at least one", None, |section| {
        Some(site(section, listener_modes))
    });
    if top.place_of("sites").is_none() {
        top.missing(
            "sites",
            "add\nsites:\n  - names: [\"shop.example\"]\n    certificates: [{ chain: shop.pem, key: shop.key }]\n    backends: [\"http://127.0.0.1:8080\"]",
        );
    }
    let sites: Vec<Site> = sites.into_iter().map(|site| site.value).collect();
    unique_names(top, &sites);
    one_default(top, &sites);
    sites
}

fn unique_names(top: &Section<'_>, sites: &[Site]) {
    let mut seen: HashMap<&SiteName, Span> = HashMap::new();
    for name in sites.iter().flat_map(|site| &site.names) {
        if top.desk.is_full() {
            return;
        }
        match seen.get(&name.value) {
            // One place twice is a list that an alias repeats: still two sites with one name.
            Some(first) => top.desk.report(
                Finding::error(
                    Some(name.span),
                    format!("the name {} is given twice", text_of(&name.value)),
                )
                .label(if *first == name.span {
                    "an alias or << repeats this list".into()
                } else {
                    format!("the first one is on line {}", top.desk.line(*first))
                })
                .help("a name belongs to one site; give the other site names of its own"),
            ),
            None => {
                seen.insert(&name.value, name.span);
            }
        }
    }
}

fn text_of(name: &SiteName) -> String {
    match name {
        SiteName::Exact(name) => name.to_string(),
        SiteName::Wildcard(parent) => format!("*.{parent}"),
    }
}

fn one_default(top: &Section<'_>, sites: &[Site]) {
    let mut defaults = sites.iter().filter(|site| site.default);
    let Some(first) = defaults.next() else {
        return;
    };
    for site in defaults {
        let line = top.desk.line(first.span);
        top.desk.report(
            Finding::error(Some(site.span), "a second site says `default: true`".into())
                .label(format!("the first one is on line {line}"))
                .help(
                    "one site takes the names that no other has; remove `default:` from the rest",
                ),
        );
    }
}

fn site(section: &mut Section<'_>, listener_modes: Modes) -> Site {
    let span = section.span();
    let names = names(section);
    let default = section.flag(
        "default",
        false,
        "takes clients without server_name, and names of no site",
    );
    if names.is_empty() && !default && section.place_of("names").is_none() {
        section.missing("names", "write names: [\"shop.example\"], or default: true for the site that takes every other name");
    }
    let mode = section
        .field(
            "mode",
            Shape::Choice(MODES.iter().map(|(word, _)| *word).collect()),
            "the listener's",
            "http, tcp or passthrough",
        )
        .and_then(|item| item.parse(|text| crate::section::choose(text, MODES)));
    let modes = match mode {
        Some(mode) => Modes::of([mode].into_iter()),
        None => listener_modes,
    };
    let certificates = certificates(section);
    if certificates.is_empty() && section.place_of("certificates").is_none() && modes.terminates() {
        section.missing(
            "certificates",
            "add certificates: [{ chain: shop.pem, key: shop.key }], or mode: passthrough if the backend has them",
        );
    }
    let client_certificates = client_certificates(section);
    let tls = section.section("tls", "versions, groups and suites", tls);
    let alpn = alpn(section, modes);
    let backends = backend::backends(section, modes);
    let balances = &[
        ("round_robin", Balance::RoundRobin),
        ("least_connections", Balance::LeastConnections),
    ];
    let balance = section.choice(
        "balance",
        balances,
        Balance::RoundRobin,
        "round_robin",
        "how backends are chosen",
    );
    let health = section.optional_section("health", "active checks of the backends", |health| {
        health_check(health, modes)
    });
    let passive_health = section.section(
        "passive_health",
        "what live traffic says about a backend",
        passive_health,
    );
    let retries = section.count(
        "retries",
        0..=5,
        1,
        "further backends tried for a request that is safe to repeat",
    );
    let forwarded = section.section(
        "forwarded",
        "headers that tell backends about the client",
        forwarded,
    );
    refuse_by_mode(section, modes);
    Site {
        names,
        default,
        mode,
        certificates,
        client_certificates,
        tls,
        alpn,
        backends,
        balance,
        health,
        passive_health,
        retries: u32::try_from(retries).unwrap_or(1),
        forwarded,
        span,
    }
}

/// Fields that mean nothing in the mode of the site are errors: they were meant to do something.
fn refuse_by_mode(section: &Section<'_>, modes: Modes) {
    if !modes.terminates() {
        for field in ["certificates", "client_certificates", "tls", "alpn"] {
            section.refuse(
                field,
                format!("`{field}` has no meaning in passthrough mode"),
                "TLS does not end here",
                "remove the field: the backend's own TLS decides; or choose mode: tcp to end TLS here",
            );
        }
    }
    if !modes.http {
        for field in ["forwarded", "retries"] {
            section.refuse(
                field,
                format!("`{field}` has no meaning in {}", modes.text()),
                "this is about HTTP requests",
                if field == "forwarded" {
                    "remove the field; a backend learns the client's address by proxy_protocol: v2"
                } else {
                    "remove the field, or choose mode: http"
                },
            );
        }
    }
}

fn names(section: &mut Section<'_>) -> Vec<Spanned<SiteName>> {
    let shape = Shape::List(Box::new(Shape::Text("host name or wildcard")));
    let about = "host names that clients ask for; *.shop.example stands for one label more";
    let Some(item) = section.field("names", shape, "none", about) else {
        return Vec::new();
    };
    let entries = item.list();
    let names: Vec<Spanned<SiteName>> = entries
        .iter()
        .filter_map(|entry| {
            entry.parse(address::site_name).map(|value| Spanned {
                value,
                span: entry.span(),
            })
        })
        .collect();
    if entries.is_empty() {
        item.empty_list("add a host name; or remove the line and write default: true");
    }
    names
}

fn certificates(section: &mut Section<'_>) -> Vec<CertificateFiles> {
    let about = "certificates and keys, several for several kinds";
    let certificates = section.sections("certificates", about, Some("combined"), |entry| {
        certificate_files(entry)
    });
    let mut seen: Vec<&CertificateFiles> = Vec::new();
    // Bounds the search; a longer list is not searched for repetition.
    for certificate in certificates.iter().take(1_000) {
        let twice = seen.iter().any(|other| {
            other.chain.value == certificate.value.chain.value
                && other.key.value == certificate.value.key.value
        });
        if twice {
            section.desk.report(
                Finding::warning(
                    Some(certificate.span),
                    "this certificate is listed twice".into(),
                )
                .label("the second one is never used".into())
                .help("remove one of the two"),
            );
        }
        seen.push(&certificate.value);
    }
    certificates.into_iter().map(|files| files.value).collect()
}

/// `{ chain: ..., key: ... }` or `{ combined: ... }`.
pub fn certificate_files(section: &mut Section<'_>) -> Option<CertificateFiles> {
    let chain = section.path(
        "chain",
        "PEM file, certificate first, then the ones that signed it",
    );
    let key = section.path("key", "PEM file with the private key, unencrypted");
    let combined = section.path(
        "combined",
        "one PEM file with key and chain, in place of the two",
    );
    let given = |name: &str| section.place_of(name).is_some();
    match (given("chain"), given("key"), given("combined")) {
        (false, false, true) => combined.map(|file| CertificateFiles {
            chain: file.clone(),
            key: file,
        }),
        (_, _, true) => {
            section.refuse(
                "combined",
                "`combined` stands beside `chain` or `key`".into(),
                "this file would hold both",
                "keep combined, or chain and key",
            );
            None
        }
        (true, true, false) => Some(CertificateFiles {
            chain: chain?,
            key: key?,
        }),
        (true, false, false) => {
            section.missing(
                "key",
                "add key: with the private key's file; write combined: if one file holds both",
            );
            None
        }
        (false, true, false) => {
            section.missing(
                "chain",
                "add chain: with the certificate's file; write combined: if one file holds both",
            );
            None
        }
        (false, false, false) => {
            section.missing(
                "chain",
                "write { chain: shop.pem, key: shop.key }, or { combined: shop.pem }",
            );
            None
        }
    }
}

#[derive(Clone, Copy)]
enum Asking {
    Off,
    Optional,
    Required,
}

fn client_certificates(site: &mut Section<'_>) -> ClientCertificates {
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

fn tls(section: &mut Section<'_>) -> TlsPolicy {
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
    TlsPolicy {
        min_version,
        groups,
        suites,
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

fn alpn(section: &mut Section<'_>, modes: Modes) -> Vec<String> {
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

fn health_check(section: &mut Section<'_>, modes: Modes) -> HealthCheck {
    let second = Duration::from_secs(1);
    let milli = Duration::from_millis(10);
    let path = section
        .field(
            "path",
            Shape::Text("path"),
            "none: a connection is enough",
            "requested from the backend; 2xx and 3xx are good",
        )
        .and_then(|item| {
            item.parse(|text| {
                if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Ok(text.to_owned());
                }
                let complaint =
                    complain("is not a path", "a path that starts with /, without blanks");
                Err(if text.contains("://") {
                    complaint.help("write only the path; it is asked of every backend in turn")
                } else {
                    complaint.help("write /healthz, or whatever the backend answers")
                })
            })
        });
    if !modes.http {
        section.refuse(
            "path",
            format!("`health.path` has no meaning in {}", modes.text()),
            "HTTP is not spoken to these backends",
            "remove the line; a connection is the check",
        );
    }
    let interval = section.duration(
        "interval",
        milli..=3_600 * second,
        2 * second,
        "between checks",
    );
    let timeout = section.duration("timeout", milli..=600 * second, second, "for one check");
    if let (true, Some(at)) = (timeout > interval, section.place_of("timeout")) {
        section.desk.report(
            Finding::warning(Some(at), "a check may outlast the interval".into())
                .label("a check that times out takes longer than the time between two".into())
                .help("write a timeout shorter than the interval"),
        );
    }
    HealthCheck {
        path,
        interval,
        timeout,
        rise: u32::try_from(section.count(
            "rise",
            1..=100,
            2,
            "good checks until a backend is up again",
        ))
        .unwrap_or(2),
        fall: u32::try_from(section.count("fall", 1..=100, 3, "bad checks until it is down"))
            .unwrap_or(3),
    }
}

fn passive_health(section: &mut Section<'_>) -> PassiveHealth {
    let failures = section.count(
        "failures",
        0..=1_000,
        3,
        "failures in a row until a backend is left alone; 0 never",
    );
    let second = Duration::from_secs(1);
    PassiveHealth {
        failures: u32::try_from(failures).unwrap_or(3),
        cooldown: section.duration(
            "cooldown",
            Duration::from_millis(10)..=3_600 * second,
            5 * second,
            "how long it is left alone before one try",
        ),
    }
}

fn forwarded(section: &mut Section<'_>) -> Forwarded {
    let trust = process::trusted_peers(
        section,
        "trust",
        "peers whose own headers are kept and added to; unix for peers of a unix socket",
    );
    let kinds = &[
        ("x-forwarded", ForwardedHeaders::XForwarded),
        ("forwarded", ForwardedHeaders::Forwarded),
        ("both", ForwardedHeaders::Both),
        ("none", ForwardedHeaders::None),
    ];
    Forwarded {
        trust: trust.unwrap_or_default(),
        headers: section.choice(
            "headers",
            kinds,
            ForwardedHeaders::XForwarded,
            "x-forwarded",
            "which headers are sent",
        ),
    }
}
