//! Heads on their way through, as pure functions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;
use tollgate_http::{
    ClientFacts, ForwardContext, ForwardedHeaders, HeaderName, HeaderValue, Identity, Method,
    Protocol, Request, Response, Version, authority, forward_request, forward_response, request,
};

fn head(fields: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::get("/x").header("host", "shop.example:8443");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn forwarded(facts: &ClientFacts, backend: Protocol, fields: &[(&str, &str)]) -> Vec<String> {
    let mut head = head(fields);
    let context = ForwardContext {
        client: facts,
        backend,
        default_host: None,
    };
    forward_request(&mut head, &context).unwrap();
    let mut lines: Vec<String> = head
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines
}

fn facts(headers: ForwardedHeaders, trusted: bool, identity: Identity<'_>) -> ClientFacts {
    let address = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    ClientFacts::new(Some(address), 443, headers, trusted, identity)
}

#[test]
fn the_standard_header_quotes_what_must_be_quoted() {
    let facts = facts(ForwardedHeaders::Forwarded, false, Identity::NotAsked);
    assert_eq!(
        forwarded(&facts, Protocol::Http1, &[("forwarded", "for=1.2.3.4")]),
        [
            "forwarded: for=\"[2001:db8::1]\";host=\"shop.example:8443\";proto=https",
            "host: shop.example:8443"
        ]
    );
}

#[test]
fn a_trusted_peer_is_added_to_and_not_replaced() {
    let facts = facts(ForwardedHeaders::Both, true, Identity::NotAsked);
    let lines = forwarded(
        &facts,
        Protocol::Http2,
        &[
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-for", "198.51.100.2"),
            ("x-forwarded-proto", "http"),
            ("x_forwarded_for", "6.6.6.6"),
            ("forwarded", "for=198.51.100.1"),
            ("x-client-verified", "SUCCESS"),
        ],
    );
    assert_eq!(
        lines,
        [
            "forwarded: for=198.51.100.1, for=\"[2001:db8::1]\";host=\"shop.example:8443\";proto=https",
            "x-forwarded-for: 198.51.100.1, 198.51.100.2, 2001:db8::1",
            "x-forwarded-host: shop.example:8443",
            "x-forwarded-port: 443",
            "x-forwarded-proto: http",
        ]
    );
}

#[test]
fn a_verified_identity_is_told_and_cannot_break_out_of_its_header() {
    let client = tollgate_terms::ClientIdentity {
        subject: "CN=J\u{f6}rg\r\nX-Evil: 1,O=100%".into(),
        common_name: "J\u{f6}rg".into(),
        serial: "0a".into(),
        fingerprint_sha256: "ff".into(),
        alternative_names: Vec::new(),
    };
    let facts = facts(ForwardedHeaders::None, true, Identity::Verified(&client));
    let lines = forwarded(
        &facts,
        Protocol::Http1,
        &[("x-client-subject", "CN=root"), ("X_Client_Serial", "1")],
    );
    assert_eq!(
        lines,
        [
            "host: shop.example:8443",
            "x-client-common-name: J%C3%B6rg",
            "x-client-fingerprint: ff",
            "x-client-serial: 0a",
            "x-client-subject: CN=J%C3%B6rg%0D%0AX-Evil: 1,O=100%25",
            "x-client-verified: SUCCESS",
        ]
    );
}

#[test]
fn a_client_without_a_certificate_is_said_to_have_none() {
    let facts = facts(ForwardedHeaders::None, false, Identity::NotShown);
    let lines = forwarded(&facts, Protocol::Http1, &[("x-client-verified", "SUCCESS")]);
    assert_eq!(
        lines,
        ["host: shop.example:8443", "x-client-verified: NONE"]
    );
}

#[test]
fn an_http2_request_may_name_its_host_twice_only_if_both_agree() {
    for (host, fits) in [
        ("shop.example", true),
        ("SHOP.example", true),
        ("other.example", false),
    ] {
        let request = Request::get("https://shop.example/")
            .version(Version::HTTP_2)
            .header("host", host);
        let head = request.body(()).unwrap().into_parts().0;
        assert_eq!(authority(&head).is_ok(), fits, "{host}");
    }
}

#[test]
fn a_response_loses_the_fields_of_its_hop_and_keeps_the_rest() {
    let response = Response::builder()
        .status(204)
        .header("connection", "close, x-private")
        .header("x-private", "1")
        .header("keep-alive", "1")
        .header("proxy-authenticate", "Basic")
        .header("upgrade", "h2c")
        .header("content-length", "0")
        .header("date", "today")
        .header("server", "x");
    let mut head = response.body(()).unwrap().into_parts().0;
    forward_response(&mut head, &Method::GET).unwrap();
    let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["date", "server"]);
}

proptest! {
    #[test]
    fn whatever_passes_names_one_host_and_has_no_field_of_another_hop(
        names in proptest::collection::vec(
            prop_oneof![
                Just("connection"), Just("transfer-encoding"), Just("content-length"), Just("host"), Just("te"),
                Just("upgrade"), Just("x-forwarded-for"), Just("x_forwarded-for"), Just("forwarded"), Just("expect"),
                Just("keep-alive"), Just("x-client-serial"),
            ],
            0..8,
        ),
        values in proptest::collection::vec("[ -~]{0,20}|chunked|5|host|upgrade|websocket|a.example", 8),
        target in "/[!-~]{0,12}|\\*|https?://[a-z.:@\\[\\]]{0,10}/?",
        to_http2: bool,
    ) {
        let Ok(mut request) = Request::get(target.as_str()).body(()) else { return Ok(()) };
        for (name, value) in names.iter().zip(&values) {
            if let Ok(value) = HeaderValue::from_str(value) {
                request.headers_mut().append(*name, value);
            }
        }
        let mut head = request.into_parts().0;
        let facts = facts(ForwardedHeaders::XForwarded, false, Identity::NotAsked);
        let backend = if to_http2 { Protocol::Http2 } else { Protocol::Http1 };
        let context = ForwardContext { client: &facts, backend, default_host: None };
        if let Ok(forwarded) = forward_request(&mut head, &context) {
            prop_assert_eq!(head.headers.get_all("host").iter().count(), usize::from(!to_http2));
            prop_assert_eq!(head.headers.contains_key("upgrade"), forwarded.upgrade);
            for name in ["transfer-encoding", "keep-alive", "x_forwarded-for", "forwarded", "x-client-serial"] {
                prop_assert!(!head.headers.contains_key(name), "{}", name);
            }
            prop_assert_eq!(head.headers.get_all("x-forwarded-for").iter().count(), 1);
            prop_assert_eq!(head.uri.authority().is_some(), to_http2);
        }
    }
}
