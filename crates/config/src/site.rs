//! `sites:`, and what each mode allows in one.

use std::collections::HashMap;
use std::time::Duration;

use crate::address;
use crate::agreement;
use crate::backend;
use crate::finding::Finding;
use crate::model::{
    Balance, CertificateFiles, Forwarded, ForwardedHeaders, HealthCheck, Listener, Mode,
    PassiveHealth, Site, SiteName, Span, Spanned,
};
use crate::process::{self, MODES};
use crate::section::{Section, Shape};
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
    let (names, default) = names_or_default(section);
    let mode = mode(section);
    let modes = mode.map_or(listener_modes, |mode| Modes::of([mode].into_iter()));
    let certificates = certificates(section, modes);
    let client_certificates = agreement::client_certificates(section);
    let tls = section.section("tls", "versions, groups and suites", agreement::tls);
    let alpn = agreement::alpn(section, modes);
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

fn names_or_default(section: &mut Section<'_>) -> (Vec<Spanned<SiteName>>, bool) {
    let names = names(section);
    let about = "takes clients without server_name, and names of no site";
    let default = section.flag("default", false, about);
    if !default && section.place_of("names").is_none() {
        section.missing(
            "names",
            "write names: [\"shop.example\"], or default: true for the site that takes every other name",
        );
    }
    (names, default)
}

fn mode(section: &mut Section<'_>) -> Option<Mode> {
    let words = Shape::Choice(MODES.iter().map(|(word, _)| *word).collect());
    section
        .field("mode", words, "the listener's", "http, tcp or passthrough")
        .and_then(|item| item.parse(|text| crate::section::choose(text, MODES)))
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

fn certificates(section: &mut Section<'_>, modes: Modes) -> Vec<CertificateFiles> {
    if section.place_of("certificates").is_none() && modes.terminates() {
        section.missing(
            "certificates",
            "add certificates: [{ chain: shop.pem, key: shop.key }], or mode: passthrough if the backend has them",
        );
    }
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
