//! What backends are told about the client, and the fields by which clients could tell it themselves.

use std::fmt::Write as _;
use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName, HeaderValue};
use tollgate_terms::ClientIdentity;

/// Which forwarding headers are sent to backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardedHeaders {
    /// `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`.
    XForwarded,
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// Both.
    Both,
    /// Neither; those of clients are dropped all the same.
    None,
}

impl ForwardedHeaders {
    fn x(self) -> bool {
        matches!(self, Self::XForwarded | Self::Both)
    }

    fn standard(self) -> bool {
        matches!(self, Self::Forwarded | Self::Both)
    }
}

/// What is known of the client's certificate.
#[derive(Clone, Copy, Debug)]
pub enum Identity<'a> {
    /// The site does not ask for one; nothing is said.
    NotAsked,
    /// It asks, and the client showed none: `X-Client-Verified: NONE`.
    NotShown,
    /// It was verified.
    Verified(&'a ClientIdentity),
}

/// The header values about one client, made once per connection.
#[derive(Clone, Debug)]
pub struct ClientFacts {
    headers: ForwardedHeaders,
    /// The peer may speak for others: its own fields are kept and added to.
    trusted: bool,
    address: HeaderValue,
    node: String,
    port: HeaderValue,
    identity: Vec<(HeaderName, HeaderValue)>,
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

impl ClientFacts {
    /// For a client at `address` (`None` on a unix socket) that connected to `port`.
    pub fn new(
        address: Option<IpAddr>,
        port: u16,
        headers: ForwardedHeaders,
        trusted: bool,
        identity: Identity<'_>,
    ) -> Self {
        let text = address.map_or_else(
            || "unknown".to_owned(),
            |address| address.to_canonical().to_string(),
        );
        let node = if text.contains(':') {
            format!("\"[{text}]\"")
        } else {
            text.clone()
        };
        Self {
            headers,
            trusted,
            address: value(&text),
            node,
            port: HeaderValue::from(port),
            identity: identity_fields(identity),
        }
    }

    /// Drops what the client said about itself and adds what is known.
    pub(super) fn apply(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        drop_claims(headers, self.trusted);
        if self.headers.x() {
            self.add_x_forwarded(headers, host);
        }
        if self.headers.standard() {
            self.add_forwarded(headers, host);
        }
        for (name, value) in &self.identity {
            headers.insert(name.clone(), value.clone());
        }
    }

    fn add_x_forwarded(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        if !self.trusted {
            headers.insert(FORWARDED_FOR, self.address.clone());
            headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
            headers.insert(FORWARDED_PORT, self.port.clone());
            if let Some(host) = host {
                headers.insert(FORWARDED_HOST, host.clone());
            }
            return;
        }
        let chain = joined(headers, &FORWARDED_FOR, &self.address);
        headers.insert(FORWARDED_FOR, chain);
        headers
            .entry(FORWARDED_PROTO)
            .or_insert(HeaderValue::from_static("https"));
        headers
            .entry(FORWARDED_PORT)
            .or_insert_with(|| self.port.clone());
        if let Some(host) = host {
            headers
                .entry(FORWARDED_HOST)
                .or_insert_with(|| host.clone());
        }
    }

    fn add_forwarded(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        let mut element = String::with_capacity(64);
        element.push_str("for=");
        element.push_str(&self.node);
        if let Some(Ok(host)) = host.map(HeaderValue::to_str) {
            // Quoted, since a port's colon is no token character; a checked host holds no quote.
            let _ = write!(element, ";host=\"{host}\"");
        }
        element.push_str(";proto=https");
        let element = joined(headers, &FORWARDED, &value(&element));
        headers.insert(FORWARDED, element);
    }
}

/// All values of a field and one more, as one comma-separated value.
fn joined(headers: &HeaderMap, name: &HeaderName, last: &HeaderValue) -> HeaderValue {
    if !headers.contains_key(name) {
        return last.clone();
    }
    let mut all = Vec::with_capacity(64);
    for value in headers.get_all(name) {
        all.extend_from_slice(value.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(last.as_bytes());
    HeaderValue::from_bytes(&all).unwrap_or_else(|_| last.clone())
}

fn identity_fields(identity: Identity<'_>) -> Vec<(HeaderName, HeaderValue)> {
    const VERIFIED: HeaderName = HeaderName::from_static("x-client-verified");
    let client = match identity {
        Identity::NotAsked => return Vec::new(),
        Identity::NotShown => return vec![(VERIFIED, HeaderValue::from_static("NONE"))],
        Identity::Verified(client) => client,
    };
    vec![
        (VERIFIED, HeaderValue::from_static("SUCCESS")),
        (
            HeaderName::from_static("x-client-subject"),
            value(&client.subject),
        ),
        (
            HeaderName::from_static("x-client-common-name"),
            value(&client.common_name),
        ),
        (
            HeaderName::from_static("x-client-serial"),
            value(&client.serial),
        ),
        (
            HeaderName::from_static("x-client-fingerprint"),
            value(&client.fingerprint_sha256),
        ),
    ]
}

/// A header value; what no header may hold, or would be read as another character set, is
/// percent-encoded, and so is the percent sign.
fn value(text: &str) -> HeaderValue {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f..=0xff => {
                let _ = write!(safe, "%{byte:02X}");
            }
            byte => safe.push(char::from(byte)),
        }
    }
    HeaderValue::try_from(safe).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Drops the fields by which a client could claim an address or an identity; those about the
/// address stay when the peer is trusted, those about the identity never do.
fn drop_claims(headers: &mut HeaderMap, trusted: bool) {
    loop {
        let claim = headers
            .keys()
            .find(|name| is_claim(name.as_str(), trusted))
            .cloned();
        match claim {
            Some(name) => headers.remove(name),
            None => return,
        };
    }
}

/// Whether a field claims something about the client. Servers that speak CGI read `_` like `-`, so
/// `X_Forwarded_For` is one claim more.
fn is_claim(name: &str, trusted: bool) -> bool {
    let bytes = name.as_bytes();
    if !matches!(bytes.first(), Some(b'x' | b'f' | b's' | b't' | b'c')) {
        return false;
    }
    let about_identity = begins(bytes, b"x-client-")
        || begins(bytes, b"x-ssl-client")
        || begins(bytes, b"ssl-client")
        || begins(bytes, b"x-forwarded-client-cert")
        || begins(bytes, b"x-forwarded-tls-client-cert")
        || is(bytes, b"client-cert")
        || is(bytes, b"client-cert-chain");
    if about_identity {
        return true;
    }
    let about_address = is(bytes, b"forwarded")
        || begins(bytes, b"x-forwarded")
        || is(bytes, b"x-real-ip")
        || is(bytes, b"true-client-ip")
        || is(bytes, b"x-cluster-client-ip")
        || is(bytes, b"x-original-host");
    // A spelling with underscores is nobody's honest one.
    about_address && (!trusted || bytes.contains(&b'_'))
}

fn begins(name: &[u8], start: &[u8]) -> bool {
    name.len() >= start.len() && is(&name[..start.len()], start)
}

fn is(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len()
        && name
            .iter()
            .zip(other)
            .all(|(byte, other)| byte == other || (*byte == b'_' && *other == b'-'))
}
