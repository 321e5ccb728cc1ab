//! Header fields that speak of one hop only (RFC 9110, section 7.6.1).

use hyper::HeaderMap;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};

use super::present::{Field, Present};

/// Fields that no proxy passes on, whether or not `Connection` names them.
const HOP_BY_HOP: [(Field, HeaderName); 8] = [
    (Field::Connection, CONNECTION),
    (Field::KeepAlive, HeaderName::from_static("keep-alive")),
    (
        Field::ProxyConnection,
        HeaderName::from_static("proxy-connection"),
    ),
    (
        Field::ProxyAuthenticate,
        HeaderName::from_static("proxy-authenticate"),
    ),
    (
        Field::ProxyAuthorization,
        HeaderName::from_static("proxy-authorization"),
    ),
    (Field::TransferEncoding, TRANSFER_ENCODING),
    (Field::Upgrade, UPGRADE),
    (
        Field::Http2Settings,
        HeaderName::from_static("http2-settings"),
    ),
];

/// What the hop-by-hop fields of a message asked for.
#[derive(Debug, Default)]
pub(super) struct Hop {
    /// The protocol to switch to, when one is asked for in full.
    pub(super) upgrade: Option<HeaderValue>,
    /// The sender understands trailers.
    pub(super) takes_trailers: bool,
}

/// Takes the fields out, of those that are `present`, and says what they asked for.
pub(super) fn strip(headers: &mut HeaderMap, present: Present) -> Hop {
    let mut hop = Hop::default();
    let mut upgrade = false;
    if present.has(Field::Connection) {
        upgrade = strip_named(headers);
    }
    if present.has(Field::Te)
        && let Some(te) = headers.remove(TE)
    {
        hop.takes_trailers = tokens(&te).any(|token| token.eq_ignore_ascii_case("trailers"));
    }
    if upgrade {
        hop.upgrade = headers
            .get(UPGRADE)
            .filter(|value| is_switchable(value))
            .cloned();
    }
    for (field, name) in HOP_BY_HOP {
        if present.has(field) {
            headers.remove(name);
        }
    }
    hop
}

/// Removes the fields that `Connection` names; says whether it asks for an upgrade.
///
/// What decides about framing and routing stays, whatever `Connection` says: a client could otherwise
/// make us drop what the backend needs to read the message as we do.
fn strip_named(headers: &mut HeaderMap) -> bool {
    let mut upgrade = false;
    let mut named = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in tokens(value) {
            upgrade |= token.eq_ignore_ascii_case("upgrade");
            let kept = [
                "close",
                "keep-alive",
                "upgrade",
                "te",
                "host",
                "content-length",
                "trailer",
            ];
            if kept.iter().any(|kept| token.eq_ignore_ascii_case(kept)) {
                continue;
            }
            named.extend(HeaderName::from_bytes(token.as_bytes()));
        }
    }
    for name in named {
        headers.remove(name);
    }
    upgrade
}

/// One protocol, and not HTTP/2: that is agreed on by ALPN, and a tunnel of it would pass us by.
fn is_switchable(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|text| {
        let protocol = text.split('/').next().unwrap_or_default().trim();
        !text.contains(',')
            && !protocol.is_empty()
            && !["h2c", "h2", "tls", "http"]
                .iter()
                .any(|refused| protocol.eq_ignore_ascii_case(refused))
    })
}

/// The members of a comma-separated field.
pub(super) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value
        .to_str()
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|token| !token.is_empty())
}
