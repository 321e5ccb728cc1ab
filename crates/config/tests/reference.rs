//! What the file means once it is read, and that the reference says the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate_config::{
    BackendAddress, BackendProtocol, Config, LogTarget, Mode, SiteName, read, reference,
};

fn config(text: &str) -> Config {
    read("tls.yaml", text, Path::new("/etc/tollgate"))
        .unwrap()
        .config
}

#[test]
fn the_reference_lists_every_field_with_its_default() {
    const START: &str =
        "<!-- fields: written by UPDATE_EXPECTED=1 cargo test -p tollgate-config -->\n";
    const END: &str = "<!-- end of fields -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let fields = reference();
    let expected = format!(
        "{before}{START}| field | takes | default | |\n|---|---|---|---|\n{fields}{END}{after}"
    );
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            document == expected,
            "docs/configuration.md is behind the reader"
        );
    }
}

#[test]
fn a_short_file_gets_every_default() {
    let config = config(include_str!("../../../examples/good.yaml"));
    let site = &config.sites[0];
    assert_eq!(config.listeners.len(), 2);
    assert_eq!(config.listeners[0].mode, Mode::Http);
    assert!(
        matches!(&site.names[1].value, SiteName::Wildcard(parent) if parent.as_str() == "shop.example")
    );
    assert_eq!(site.alpn, ["h2", "http/1.1"]);
    assert_eq!(
        site.certificates[1].key.value,
        Path::new("/etc/tollgate/shop-rsa.key")
    );
    assert_eq!(
        site.backends[2].address.value,
        BackendAddress::UnixPath("/run/shop.sock".into())
    );
    assert_eq!(site.backends[2].protocol, BackendProtocol::Http1);
    assert_eq!(site.tls.suites[0].to_string(), "TLS_AES_128_GCM_SHA256");
    assert_eq!(site.tls.groups[0].to_string(), "X25519MLKEM768");
    assert_eq!(
        site.health.as_ref().unwrap().interval,
        Duration::from_secs(2)
    );
    assert_eq!((site.retries, site.passive_health.failures), (1, 3));
    assert_eq!(config.resumption.lifetime, Duration::from_secs(6 * 3_600));
    assert_eq!(config.resumption.session_cache_entries, 20_000);
    assert_eq!(
        config.console.unwrap().address.value.to_string(),
        "127.0.0.1:9180"
    );
    assert!(matches!(config.log.target, LogTarget::File(_)));
    assert_eq!(
        (config.limits.header_bytes, config.limits.body_bytes),
        (32_768, 0)
    );
    assert_eq!(config.timeouts.idle, Duration::from_secs(75));
    assert_eq!(config.workers.count, None);
}

#[test]
fn a_merged_section_gives_way_to_the_fields_beside_it() {
    let config = config(include_str!("../../../examples/re-encrypt.yaml"));
    let tls = |n: usize| config.sites[0].backends[n].tls.clone().unwrap();
    assert_eq!(tls(0).ca, tls(1).ca);
    assert_eq!(tls(0).name, None);
    assert_eq!(tls(1).name.unwrap().as_str(), "app2.internal");
}

#[test]
fn a_bare_backend_is_bytes_in_tcp_mode() {
    let config = config(
        "listeners: [{ address: \"127.0.0.1:0\", mode: tcp }]\nsites: [{ default: true, certificates: [all.pem], backends: [\"127.0.0.1:5432\"] }]\n",
    );
    assert_eq!(config.sites[0].backends[0].protocol, BackendProtocol::Bytes);
    assert_eq!(
        config.sites[0].certificates[0].chain,
        config.sites[0].certificates[0].key
    );
    assert!(config.sites[0].alpn.is_empty());
}

#[test]
fn the_shape_of_the_design_is_read() {
    let text = r#"
listeners:
  - address: "0.0.0.0:443"
    mode: http                     # or tcp
sites:
  - names: ["shop.example", "*.shop.example"]
    certificates:
      - { chain: shop-ecdsa.pem, key: shop-ecdsa.key }
      - { chain: shop-rsa.pem,   key: shop-rsa.key }     # for clients without ECDSA
    backends: ["http://10.0.0.5:8080", "unix:/run/shop.sock"]
resumption:
  ticket_keys: { store: "redis://10.0.0.9/", issue: 24h, accept: 6h }
console: "127.0.0.1:9180"
"#;
    let read = read("tls.yaml", text, Path::new("/etc/tollgate")).unwrap();
    assert_eq!(read.warnings.len(), 1, "the store is not used yet");
}
