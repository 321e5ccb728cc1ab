//! Routing, identity of sites and backends, and the price of certificates, from configuration text.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_tls::{Clock, Resumption, ResumptionSettings};

use super::*;
use crate::{dearer_certificates, still_dearer};

const NOW: UnixTime = UnixTime(1_800_000_000);

/// Builds from the `sites:` of a configuration; certificates are called `ecdsa`, `rsa2048` and `rsa3072`.
fn live(sites: &str) -> Live {
    let listeners = "listeners: [{ address: \"127.0.0.1:0\" }]";
    built(&format!("{listeners}\nsites:\n{sites}\n")).1
}

/// Builds from a whole configuration.
pub(crate) fn built(text: &str) -> (Config, Live) {
    let text = format!("{text}console: off\n");
    let read = match tollgate_config::read("tls.yaml", &text, Path::new("/")) {
        Ok(read) => read,
        Err(findings) => panic!(
            "{}",
            tollgate_config::render("tls.yaml", &text, &findings, false)
        ),
    };
    match Live::build(&read.config, &sources(), "hash".to_owned()) {
        Loaded::Ready(live, _) => (read.config, live),
        Loaded::Refused(findings) => panic!("{findings:?}"),
    }
}

fn sources() -> Sources {
    let lifetimes = Lifetimes::new(Duration::from_secs(86_400), Duration::from_secs(21_600));
    let material = KeyMaterial {
        name: [1; 16],
        secret: [2; 32].into(),
    };
    let ring = Ring::new(lifetimes.unwrap(), NOW, material);
    let settings = ResumptionSettings {
        tickets: true,
        lifetime: Duration::from_secs(3600),
        session_cache_entries: 10,
    };
    let mut sources = Sources::files(Resumption::new(Clock::new(NOW), settings, &ring), NOW);
    sources.memory = certificates().clone();
    sources
}

/// Made once: an RSA key takes its time.
fn certificates() -> &'static HashMap<PathBuf, Arc<Certificate>> {
    static MADE: OnceLock<HashMap<PathBuf, Arc<Certificate>>> = OnceLock::new();
    MADE.get_or_init(|| {
        let kinds = [
            ("/ecdsa", CertificateKind::EcdsaP256),
            ("/rsa2048", CertificateKind::Rsa(2048)),
            ("/rsa3072", CertificateKind::Rsa(3072)),
        ];
        kinds
            .map(|(path, kind)| {
                let certificate = Certificate::self_signed(kind, &["shop.example"]).unwrap();
                (path.into(), Arc::new(certificate))
            })
            .into()
    })
}

fn site(names: &str, certificates: &[&str], more: &str) -> String {
    let certificates: Vec<String> = certificates
        .iter()
        .map(|path| format!("{{ combined: /{path} }}"))
        .collect();
    format!(
        "  - names: [{names}]\n    certificates: [{}]\n    backends: [\"10.0.0.1:80\"]\n{more}",
        certificates.join(", ")
    )
}

fn found(live: &Live, name: &str) -> Found {
    live.find(&ServerName::new(name).unwrap())
}

#[test]
fn an_exact_name_goes_before_a_wildcard_and_a_wildcard_before_the_default() {
    let sites = [
        site("\"*.shop.example\"", &["ecdsa"], ""),
        site("www.shop.example", &["ecdsa"], ""),
        site("other.example", &["ecdsa"], "    default: true\n"),
    ];
    let live = live(&sites.concat());
    for (name, number) in [
        ("www.shop.example", 1),
        ("WWW.Shop.Example.", 1),
        ("static.shop.example", 0),
        ("a.b.shop.example", 2),
        ("shop.example", 2),
        ("other.example", 2),
        ("nobody.example", 2),
    ] {
        assert_eq!(found(&live, name), Found::Site(number), "{name}");
    }
    assert_eq!(live.nameless(), 2);
    assert!(live.takes_every_name(Some(2)));
    assert!(!live.takes_every_name(Some(0)));
}

#[test]
fn without_a_default_an_unknown_name_is_nobodys_and_no_name_is_the_first_sites() {
    let sites = [
        site("a.example", &["ecdsa"], ""),
        site("b.example", &["ecdsa"], ""),
    ];
    let live = live(&sites.concat());
    assert_eq!(found(&live, "c.example"), Found::Nobody);
    assert_eq!(live.nameless(), 0);
    assert!(!live.takes_every_name(Some(0)));
}

#[test]
fn a_site_keeps_its_identity_whatever_else_changes() {
    let id =
        |names: &str, more: &str| site_id(&live(&site(names, &["ecdsa"], more)).sites[0].config);
    let known = id("a.example, b.example", "");
    assert_eq!(id("b.example, a.example", ""), known);
    assert_eq!(id("a.example, b.example", "    retries: 3\n"), known);
    assert_ne!(id("a.example", ""), known);
    assert_ne!(id("a.example, \"*.b.example\"", ""), known);
}

#[test]
fn connections_to_a_backend_survive_a_change_of_everything_but_the_backend() {
    let key = |more: &str, backend: &str| {
        let text = format!(
            "  - names: [shop.example]\n    certificates: [{{ combined: /ecdsa }}]\n{more}    backends: [{backend}]\n"
        );
        live(&text).sites[0].backends[0].key
    };
    let tls = "{ address: \"https://10.0.0.1:443\", tls: { verify: false } }";
    let known = key("", tls);
    assert_eq!(
        key("    retries: 3\n    balance: least_connections\n", tls),
        known
    );
    assert_ne!(key("", "\"http://10.0.0.1:443\""), known);
    let renamed =
        "{ address: \"https://10.0.0.1:443\", tls: { verify: false, name: app.example } }";
    assert_ne!(key("", renamed), known);
}

#[test]
fn checks_of_backends_that_stay_are_remembered_and_forgotten_without_checks() {
    let checked = "    health: { interval: 1s }\n";
    let before = live(&site("shop.example", &["ecdsa"], checked));
    before.sites[0].backends[0]
        .checked_up
        .store(false, Ordering::Relaxed);
    for (more, up) in [(checked, false), ("", true)] {
        let after = live(&site("shop.example", &["ecdsa"], more));
        after.inherit_checks(&before);
        assert_eq!(
            after.sites[0].backends[0]
                .checked_up
                .load(Ordering::Relaxed),
            up
        );
    }
}

#[test]
fn a_dearer_certificate_is_named_with_its_price() {
    let of = |certificates: &[&str]| live(&site("shop.example", certificates, ""));
    let warnings = dearer_certificates(&of(&["ecdsa", "rsa2048"]), &of(&["rsa2048"]));
    let [dearer] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    let warning = dearer.to_string();
    assert!(warning.starts_with("site shop.example: "), "{warning}");
    let prices: Vec<u64> = warning
        .split(" µs")
        .filter_map(|part| part.rsplit(' ').next()?.parse().ok())
        .collect();
    let [before, after] = prices.as_slice() else {
        panic!("{warning}")
    };
    // The ratio is about fourteen; twice leaves room for a busy machine.
    assert!(*after > 2 * *before, "{warning}");
    assert!(dearer.before_micros < dearer.after_micros, "{dearer:?}");
}

#[test]
fn a_dearer_certificate_stays_dearer_until_the_former_kind_is_back() {
    let of = |certificates: &[&str]| live(&site("shop.example", certificates, ""));
    let found = dearer_certificates(&of(&["ecdsa"]), &of(&["rsa2048"]));
    assert!(still_dearer(&found[0], &of(&["rsa2048"])));
    assert!(still_dearer(&found[0], &of(&["rsa3072"])));
    assert!(!still_dearer(&found[0], &of(&["rsa2048", "ecdsa"])));
    let other = live(&site("other.example", &["rsa2048"], ""));
    assert!(!still_dearer(&found[0], &other), "the site is gone");
}

#[test]
fn a_cheaper_or_equal_certificate_is_not_worth_a_word() {
    let of = |certificates: &[&str]| live(&site("shop.example", certificates, ""));
    for (before, after) in [
        (&["rsa2048"][..], &["ecdsa"][..]),
        (&["ecdsa"], &["ecdsa", "rsa3072"]),
        (&["rsa3072"], &["rsa2048"]),
    ] {
        let warnings = dearer_certificates(&of(before), &of(after));
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    assert_eq!(
        dearer_certificates(&of(&["rsa2048"]), &of(&["rsa3072"])).len(),
        1
    );
}
