//! `alarms:` from where on what wakes a person.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use crate::finding::Finding;
use crate::item::Item;
use crate::model::{Alarms, Spanned, Webhook};
use crate::section::{Section, Shape};
use crate::value::{Complaint, complain};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Where Debian, Alpine and most others keep the public authorities.
const PUBLIC_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// `alarms:`; `ledger` says whether CPU is counted at all.
pub fn alarms(top: &mut Section<'_>, ledger: bool) -> Alarms {
    top.section("alarms", "from where on what wakes a person", |section| {
        let alarms = thresholds(section);
        if !ledger {
            without_ledger(section, &alarms);
        }
        alarms
    })
}

fn thresholds(section: &mut Section<'_>) -> Alarms {
    Alarms {
        hit_rate_below: section.threshold(
            "hit_rate_below",
            0.01..=1.0,
            Some(0.7),
            "resumed over all handshakes",
        ),
        fresh_per_second_above: section.threshold(
            "fresh_per_second_above",
            1.0..=10_000_000.0,
            Some(5_000.0),
            "full handshakes per second of this instance",
        ),
        fresh_per_second_per_core_above: section.threshold(
            "fresh_per_second_per_core_above",
            1.0..=1_000_000.0,
            None,
            "the same over the cores there are",
        ),
        tls_cpu_above: section.threshold(
            "tls_cpu_above",
            0.01..=1.0,
            Some(0.25),
            "CPU of TLS over the cores there are",
        ),
        cold_cache: section.switch(
            "cold_cache",
            true,
            "whether the cores needed without any resumption are more than there are",
        ),
        requests_per_handshake_fall: section.threshold(
            "requests_per_handshake_fall",
            1.5..=1_000.0,
            Some(5.0),
            "how many times fewer requests per handshake than five minutes ago",
        ),
        certificate_expires_within: section.duration_or_off(
            "certificate_expires_within",
            HOUR..=365 * DAY,
            14 * DAY,
            "how long before a certificate's end",
        ),
        certificate_dearer: section.switch(
            "certificate_dearer",
            true,
            "whether a reload made a site's certificate dearer, such as ECDSA to RSA",
        ),
        unknown_keys_above: section.threshold(
            "unknown_keys_above",
            0.0001..=1.0,
            Some(0.01),
            "handshakes with a ticket whose key is not held here, over all",
        ),
        worker_imbalance_above: section.threshold(
            "worker_imbalance_above",
            1.05..=1_024.0,
            Some(1.2),
            "new connections of the busiest worker over the mean of all",
        ),
        hold: section.duration(
            "hold",
            Duration::from_secs(1)..=HOUR,
            Duration::from_secs(30),
            "how long a condition must hold, or be gone, before an alarm changes",
        ),
        webhook: webhook(section),
    }
}

/// Thresholds that were written down but that nothing is measured for.
fn without_ledger(section: &Section<'_>, alarms: &Alarms) {
    let judged = [
        ("tls_cpu_above", alarms.tls_cpu_above.is_some()),
        ("cold_cache", alarms.cold_cache),
    ];
    for (field, on) in judged {
        if let (true, Some(at)) = (on, section.place_of(field)) {
            section.desk.report(
                Finding::warning(
                    Some(at),
                    format!("`alarms.{field}` has nothing to go by with `ledger: off`"),
                )
                .label("it stays quiet whatever happens".into())
                .help("write ledger: on, or remove this line"),
            );
        }
    }
}

/// `webhook:`, a URL or a mapping with `url:` and `ca:`.
fn webhook(section: &mut Section<'_>) -> Option<Webhook> {
    let about =
        "told of every alarm that fires or goes quiet, by a POST of JSON; a URL, or a mapping";
    let shape = |fields| Shape::Either(vec![Shape::Text("URL, or off"), Shape::Section(fields)]);
    let item = section.field("webhook", shape(Vec::new()), "off", about);
    if item.as_ref().is_some_and(Item::is_off) {
        return None;
    }
    let mut inner = match &item {
        Some(item) => item.section_or("url"),
        None => Section::absent(section.desk, "alarms.webhook".into()),
    };
    let url = inner
        .field("url", Shape::Text("URL"), "", "http:// or https://")
        .and_then(|item| Some((item.parse(url)?, item.span())));
    if inner.place_of("url").is_none() {
        inner.missing("url", "write url: \"http://127.0.0.1:9000/alarms\"");
    }
    let ca = inner
        .field(
            "ca",
            Shape::Text("path"),
            PUBLIC_AUTHORITIES,
            "PEM file with the authority that signed the receiver's certificate, for https://",
        )
        .and_then(|item| item.path());
    if let Some((Url { tls: false, .. }, _)) = &url {
        inner.refuse(
            "ca",
            "`alarms.webhook.ca` for a URL with http://".into(),
            "http:// says no TLS",
            "write https://, or remove ca:",
        );
    }
    let fields = inner.finish();
    section.reshape("webhook", shape(fields));
    let (url, span) = url?;
    let default = |span| Spanned {
        value: PathBuf::from(PUBLIC_AUTHORITIES),
        span,
    };
    Some(Webhook {
        span,
        tls: url.tls,
        ca: url.tls.then(|| ca.unwrap_or_else(|| default(span))),
        host: url.host,
        port: url.port,
        path: url.path,
    })
}

/// A URL in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    tls: bool,
    host: String,
    port: u16,
    path: String,
}

fn url(text: &str) -> Result<Url, Complaint> {
    const ALLOWED: &str = "http:// or https://, a host, and a path if need be";
    let (tls, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        Some((scheme, _)) => {
            return Err(complain(format!("has the scheme {scheme}://"), ALLOWED)
                .help("write \"http://127.0.0.1:9000/alarms\""));
        }
        None => {
            return Err(complain("has no scheme", ALLOWED).help(format!("write \"http://{text}\"")));
        }
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(complain("has a blank or a letter beyond ASCII", ALLOWED)
            .help("write such bytes as % and two digits"));
    }
    let rest = rest.split('#').next().unwrap_or(rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(complain("has a name or password in it", ALLOWED).help(
            "give the receiver a path that is hard to guess, or a proxy that adds credentials",
        ));
    }
    let (host, port) = host_and_port(authority, if tls { 443 } else { 80 }).ok_or_else(|| {
        complain("has no host", ALLOWED).help("write \"http://127.0.0.1:9000/alarms\"")
    })?;
    Ok(Url {
        tls,
        host,
        port,
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
    })
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(authority: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let at = authority.find(':').unwrap_or(authority.len());
            authority.split_at(at)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => default,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use super::*;

    fn parts(text: &str) -> (bool, String, u16, String) {
        let url = url(text).unwrap();
        (url.tls, url.host, url.port, url.path)
    }

    #[test]
    fn a_url_comes_apart() {
        let of = |tls, host: &str, port, path: &str| (tls, host.to_owned(), port, path.to_owned());
        assert_eq!(
            parts("http://127.0.0.1:9000/a/b?c=d"),
            of(false, "127.0.0.1", 9_000, "/a/b?c=d")
        );
        assert_eq!(
            parts("HTTPS://hooks.example"),
            of(true, "hooks.example", 443, "/")
        );
        assert_eq!(parts("http://[::1]:81?x#y"), of(false, "::1", 81, "/?x"));
    }

    #[test]
    fn what_is_no_url_of_ours_is_refused_with_a_way_out() {
        for text in [
            "hooks.example/x",
            "ftp://hooks.example",
            "http://",
            "http://:80/",
            "http://a:b@hooks.example/",
            "http://host:0/",
            "http://host:99999/",
            "http://[nine]/",
            "http://a b/",
        ] {
            assert!(url(text).unwrap_err().help.is_some(), "{text}");
        }
    }
}
