//! A site's `backends:`.

use crate::address::{self, Scheme};
use crate::finding::Finding;
use crate::item::Item;
use crate::model::{Backend, BackendAddress, BackendProtocol, BackendTls, ProxyVersion, Spanned};
use crate::section::{Section, Shape};
use crate::site::{self, Modes};

/// `backends:`, at least one.
pub fn backends(site: &mut Section<'_>, modes: Modes) -> Vec<Backend> {
    let about = "where requests or bytes go; a text, or a mapping with more fields; at least one";
    let backends = site.sections("backends", about, Some("address"), |section| {
        backend(section, modes)
    });
    if site.place_of("backends").is_none() {
        site.missing(
            "backends",
            if modes.http {
                "write backends: [\"http://127.0.0.1:8080\"]"
            } else {
                "write backends: [\"tcp://127.0.0.1:5432\"]"
            },
        );
    }
    let mut seen: Vec<&BackendAddress> = Vec::new();
    for Spanned { value, span } in &backends {
        if seen.contains(&&value.address.value) {
            site.desk.report(
                Finding::warning(Some(*span), "this backend is listed twice".into())
                    .label("it gets two shares, and is checked twice".into())
                    .help("give one entry a `weight:` of 2 instead"),
            );
        }
        // Bounds the search; a longer list is not searched for repetition.
        if seen.len() < 1_000 {
            seen.push(&value.address.value);
        }
    }
    backends.into_iter().map(|backend| backend.value).collect()
}

fn backend(section: &mut Section<'_>, modes: Modes) -> Option<Backend> {
    let about =
        "http://, https://, h2c://, h2://, tcp://, tls://, host:port, unix:/path or unix:@name";
    let item = section.field("address", Shape::Text("backend address"), "", about);
    if section.place_of("address").is_none() {
        section.missing("address", "write { address: \"http://127.0.0.1:8080\" }");
    }
    let parsed = item.and_then(|item| {
        let (scheme, address) = item.parse(address::backend)?;
        let fits = fits(&item, scheme, modes);
        Some((item, scheme, address, fits))
    });
    let tls_given = section.place_of("tls").is_some();
    let tls = section.optional_section("tls", "TLS to the backend", backend_tls);
    let weight = section.count(
        "weight",
        1..=256,
        1,
        "share of the work, next to the other weights",
    );
    let versions = &[("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)];
    let proxy_protocol = section
        .field(
            "proxy_protocol",
            Shape::Choice(vec!["v1", "v2"]),
            "none",
            "PROXY header sent to the backend",
        )
        .filter(|item| !matches!(item.scalar(), Some("none" | "off")))
        .and_then(|item| item.parse(|text| crate::section::choose(text, versions)));
    let max_idle = section.count(
        "max_idle",
        0..=100_000,
        64,
        "idle connections kept by each worker, http mode",
    );
    if !modes.http {
        section.refuse(
            "max_idle",
            format!("`max_idle` has no meaning in {}", modes.text()),
            "connections to these backends are not kept",
            "remove the line",
        );
    }
    let (item, scheme, address, fits) = parsed?;
    if !fits {
        return None;
    }
    let wants_tls = scheme.is_tls() || tls_given;
    if wants_tls && !tls_fits(section, &item, scheme, modes) {
        return None;
    }
    let tls = if wants_tls {
        Some(checked_tls(&item, &address, tls)?)
    } else {
        None
    };
    Some(Backend {
        address: Spanned {
            value: address,
            span: item.span(),
        },
        protocol: protocol(scheme, modes),
        tls,
        weight: u32::try_from(weight).unwrap_or(1),
        proxy_protocol,
        max_idle: usize::try_from(max_idle).unwrap_or(64),
    })
}

fn protocol(scheme: Scheme, modes: Modes) -> BackendProtocol {
    match scheme {
        Scheme::Http | Scheme::Https => BackendProtocol::Http1,
        Scheme::H2c | Scheme::H2 => BackendProtocol::Http2,
        Scheme::Tcp | Scheme::Tls => BackendProtocol::Bytes,
        Scheme::Bare if modes.http => BackendProtocol::Http1,
        Scheme::Bare => BackendProtocol::Bytes,
    }
}

/// Whether a scheme can be used in every mode that the site is served in.
fn fits(item: &Item<'_>, scheme: Scheme, modes: Modes) -> bool {
    let text = item.scalar().unwrap_or_default();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.trim_end_matches('/');
    let say = |instead: &str, why: &str| {
        item.error(
            format!("a backend with {}:// in {}", scheme.name(), modes.text()),
            why,
            format!("write {instead}"),
        );
        false
    };
    match scheme {
        Scheme::Bare => true,
        Scheme::Http | Scheme::H2c if !modes.http => say(
            &format!("tcp://{rest}, or choose mode: http"),
            "bytes are relayed as they are, HTTP is not understood",
        ),
        Scheme::Https | Scheme::H2 if !modes.http && modes.terminates() => say(
            &format!("tls://{rest}, or choose mode: http"),
            "bytes are relayed as they are, HTTP is not understood",
        ),
        Scheme::Https | Scheme::H2 | Scheme::Tls if !modes.terminates() => say(
            &format!("tcp://{rest}"),
            "the client's own TLS goes through to the backend",
        ),
        Scheme::Tcp if modes.http => say(
            &format!("http://{rest}, or choose mode: tcp"),
            "requests need a backend that speaks HTTP",
        ),
        Scheme::Tls if modes.http => say(
            &format!("https://{rest}, or choose mode: tcp"),
            "requests need a backend that speaks HTTP",
        ),
        Scheme::Http | Scheme::H2c | Scheme::Https | Scheme::H2 | Scheme::Tcp | Scheme::Tls => true,
    }
}

/// Whether `tls:` goes with the scheme.
fn tls_fits(section: &Section<'_>, item: &Item<'_>, scheme: Scheme, modes: Modes) -> bool {
    if !modes.terminates() {
        section.refuse(
            "tls",
            "`backends.tls` has no meaning in passthrough mode".into(),
            "the client's own TLS goes through to the backend",
            "remove it, or choose mode: tcp to end TLS here",
        );
        return false;
    }
    let better = match scheme {
        Scheme::Http => "https",
        Scheme::H2c => "h2",
        Scheme::Tcp => "tls",
        Scheme::Bare | Scheme::Https | Scheme::H2 | Scheme::Tls => return true,
    };
    let text = item.scalar().unwrap_or_default();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    section.refuse(
        "tls",
        format!("`tls:` for a backend with {}://", scheme.name()),
        &format!("{}:// says no TLS", scheme.name()),
        &format!("write {better}://{rest}, or remove tls:"),
    );
    false
}

fn backend_tls(section: &mut Section<'_>) -> BackendTls {
    let verify = section.flag(
        "verify",
        true,
        "whether the backend's certificate is checked",
    );
    if let (false, Some(at)) = (verify, section.place_of("verify")) {
        section.desk.report(
            Finding::warning(
                Some(at),
                "`verify: false`: the backend's certificate is not checked".into(),
            )
            .label("anybody between here and the backend can read and change everything".into())
            .help("give ca: with the authority, or with the backend's own self-signed certificate"),
        );
    }
    let name = section
        .field(
            "name",
            Shape::Text("host name"),
            "the host of the address",
            "name that the certificate must carry, sent as server_name",
        )
        .and_then(|item| item.parse(address::server_name));
    let ca = section.path(
        "ca",
        "PEM file with the authority that signed the backend's certificate",
    );
    let certificate =
        section.optional_section("certificate", "certificate shown to the backend", |files| {
            site::certificate_files(files)
        });
    BackendTls {
        verify,
        name,
        ca,
        certificate: certificate.flatten(),
    }
}

/// TLS with all that checking the backend needs; reports what lacks.
fn checked_tls(
    item: &Item<'_>,
    address: &BackendAddress,
    tls: Option<BackendTls>,
) -> Option<BackendTls> {
    let text = item.scalar().unwrap_or_default();
    let tls = tls.unwrap_or(BackendTls {
        verify: true,
        name: None,
        ca: None,
        certificate: None,
    });
    if !tls.verify {
        return Some(tls);
    }
    if tls.ca.is_none() {
        item.error(
            "nothing says who signs this backend's certificate".into(),
            "TLS to a backend needs tls: { ca: file }",
            format!(
                "write {{ address: \"{text}\", tls: {{ ca: backend-ca.pem }} }}; for a public authority: ca: /etc/ssl/certs/ca-certificates.crt"
            ),
        );
        return None;
    }
    let unix = matches!(
        address,
        BackendAddress::UnixPath(_) | BackendAddress::UnixAbstract(_)
    );
    if unix && tls.name.is_none() {
        item.error(
            "nothing says which name this backend's certificate carries".into(),
            "a socket has no host name",
            "add tls: { name: app.internal, ca: ... }",
        );
        return None;
    }
    Some(tls)
}
