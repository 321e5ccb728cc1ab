//! `console:` where the page and the metrics are, and who may see them.

use std::net::SocketAddr;

use crate::address;
use crate::finding::Finding;
use crate::item::Item;
use crate::model::{Console, ListenAddress, Listener, Span, Spanned};
use crate::section::{Section, Shape};
use crate::site;

/// `console:`
pub fn console(top: &mut Section<'_>, listeners: &[Listener]) -> Option<Console> {
    let about = "page and metrics: an address, or a mapping with more fields; off for none";
    let shape =
        |fields| Shape::Either(vec![Shape::Text("address, or off"), Shape::Section(fields)]);
    let item = top.field("console", shape(Vec::new()), "127.0.0.1:9180", about);
    if item.as_ref().is_some_and(Item::is_off) {
        return None;
    }
    let mut section = match &item {
        Some(item) => item.section_or("address"),
        None => Section::absent(top.desk, "console".into()),
    };
    let address = address_of(&mut section, listeners);
    let token_file = section.path(
        "token_file",
        "file with the token that a visitor must show, 16 characters or more",
    );
    let certificate = section
        .optional_section("certificate", "the console speaks TLS with it", |files| {
            site::certificate_files(files)
        })
        .flatten();
    let client_ca = section.path(
        "client_ca",
        "PEM file with the authorities that sign visitors' certificates; needs certificate:",
    );
    guarded(&section, address.value);
    let fields = section.finish();
    top.reshape("console", shape(fields));
    Some(Console {
        address,
        token_file,
        certificate,
        client_ca,
    })
}

fn address_of(section: &mut Section<'_>, listeners: &[Listener]) -> Spanned<SocketAddr> {
    let default = Spanned {
        value: SocketAddr::from(([127, 0, 0, 1], 9_180)),
        span: Span::default(),
    };
    let item = section.field(
        "address",
        Shape::Text("address"),
        "127.0.0.1:9180",
        "IP address and port; not loopback only with token_file: or client_ca:",
    );
    let Some(item) = item else {
        return default;
    };
    let Some(address) = item.parse(address::socket) else {
        return default;
    };
    if let Some(listener) = listeners.iter().find(|listener| {
        address.port() != 0 && listener.address.value == ListenAddress::Ip(address)
    }) {
        let line = section.desk.line(listener.address.span);
        item.error(
            format!("`{}: {address}` is the address of a listener", item.path),
            format!("the listener is on line {line}"),
            "give the console a port of its own, such as 127.0.0.1:9180",
        );
    }
    Spanned {
        value: address,
        span: item.span(),
    }
}

/// Whether those who may not see the console are kept away from it.
fn guarded(section: &Section<'_>, address: SocketAddr) {
    let given = |name: &str| section.place_of(name);
    if let (Some(at), None) = (given("client_ca"), given("certificate")) {
        section.desk.report(
            Finding::error(
                Some(at),
                "`console.client_ca` needs a certificate of its own".into(),
            )
            .label("a visitor can show a certificate only over TLS".into())
            .help("add certificate: { chain: console.pem, key: console.key }"),
        );
    }
    if address.ip().is_loopback() {
        return;
    }
    let at = given("address").unwrap_or_else(|| section.span());
    match (given("token_file"), given("client_ca"), given("certificate")) {
        (None, None, _) => section.desk.report(
            Finding::error(
                Some(at),
                format!("the console at {address} would be open to the network"),
            )
            .label("anybody who reaches it sees names, backends and traffic".into())
            .help(format!(
                "write \"127.0.0.1:{}\", or console: {{ address: \"{address}\", token_file: console.token }}; \
                 make a token with: openssl rand -hex 24 > console.token",
                address.port()
            )),
        ),
        (Some(token), _, None) => section.desk.report(
            Finding::warning(Some(token), "the token goes over the network in the clear".into())
                .label(format!("{address} speaks plain HTTP"))
                .help("add certificate: { chain: console.pem, key: console.key }"),
        ),
        (Some(_), _, Some(_)) | (None, Some(_), _) => {}
    }
}
