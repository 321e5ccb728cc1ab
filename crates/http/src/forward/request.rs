//! The head of a request on its way to a backend.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, StatusCode, Uri, Version};

use super::authority::authority;
use super::client_facts::ClientFacts;
use super::present::{Field, Present};
use super::{Refusal, hop};
use crate::server::Protocol;

/// What forwarding needs to know beside the head itself.
#[derive(Clone, Copy, Debug)]
pub struct ForwardContext<'a> {
    /// What backends are told of the client.
    pub client: &'a ClientFacts,
    /// What is spoken to the backend.
    pub backend: Protocol,
    /// Host for a request of HTTP/1.0 that names none, such as the site's name.
    pub default_host: Option<&'a HeaderValue>,
}

/// What came of forwarding a request head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// The client asks to switch protocols, and the backend is asked to.
    pub upgrade: bool,
    /// The method is safe to repeat when its first try got no answer: GET, HEAD, OPTIONS, TRACE,
    /// PUT, DELETE (RFC 9110, section 9.2.2). A body, once begun, cannot be.
    pub repeatable: bool,
}

/// Makes a client's request head into one for the backend.
///
/// Checks it first: framing, target and host must be such that nobody can read them differently.
/// Then drops the fields of this hop and the client's claims about itself, and adds what is known.
///
/// # Errors
/// With the answer for the client; the head is then no use any more.
pub fn request(head: &mut Parts, context: &ForwardContext<'_>) -> Result<Forwarded, Refusal> {
    let present = Present::of(&head.headers);
    check_framing(head, present)?;
    check_target(head)?;
    authority(head)?;
    let host = match head.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => head.headers.get(HOST).or(context.default_host).cloned(),
    };
    let hop = hop::strip(&mut head.headers, present);
    if present.has(Field::Expect) {
        head.headers.remove(EXPECT);
    }
    context.client.apply(&mut head.headers, host.as_ref());
    let upgrade = hop
        .upgrade
        .filter(|_| head.version == Version::HTTP_11 && context.backend == Protocol::Http1);
    let forwarded = Forwarded {
        upgrade: upgrade.is_some(),
        repeatable: head.method.is_idempotent(),
    };
    match context.backend {
        Protocol::Http1 => address_http1(head, host)?,
        Protocol::Http2 => address_http2(head, host)?,
    }
    if let Some(protocol) = upgrade {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, protocol);
    } else if hop.takes_trailers {
        head.headers
            .insert(TE, HeaderValue::from_static("trailers"));
        if context.backend == Protocol::Http1 {
            head.headers
                .insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
    Ok(forwarded)
}

/// What hyper leaves to us: it refuses a `Transfer-Encoding` that does not end in `chunked`, one in
/// HTTP/1.0, and contradicting lengths; it drops `Content-Length` beside `Transfer-Encoding`,
/// reads the chunks, and closes the connection after the response.
fn check_framing(head: &Parts, present: Present) -> Result<(), Refusal> {
    if present.has(Field::TransferEncoding) {
        check_coding(head, present)?;
    }
    if present.has(Field::ContentLength) {
        check_length(head)?;
    }
    if present.has(Field::Expect) {
        check_expectation(head)?;
    }
    Ok(())
}

fn check_coding(head: &Parts, present: Present) -> Result<(), Refusal> {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() || present.has(Field::ContentLength) {
            return Err(Refusal::bad(
                "ambiguous_length",
                "the length of the request body is ambiguous\n",
            ));
        }
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal {
                status: StatusCode::NOT_IMPLEMENTED,
                reason: "unknown_transfer_coding",
                sentence: "no transfer coding is understood but chunked\n",
            });
        }
    }
    Ok(())
}

fn check_length(head: &Parts) -> Result<(), Refusal> {
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next() {
        let digits = !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit);
        if !digits || lengths.any(|other| other != length) {
            return Err(Refusal::bad(
                "ambiguous_length",
                "the length of the request body is ambiguous\n",
            ));
        }
    }
    Ok(())
}

fn check_expectation(head: &Parts) -> Result<(), Refusal> {
    let unmet = head
        .headers
        .get_all(EXPECT)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    if unmet {
        return Err(Refusal {
            status: StatusCode::EXPECTATION_FAILED,
            reason: "unknown_expectation",
            sentence: "no expectation is understood but 100-continue\n",
        });
    }
    Ok(())
}

fn check_target(head: &Parts) -> Result<(), Refusal> {
    const BAD: Refusal = Refusal::bad("bad_target", "the target of the request is not a path\n");
    if head.method == Method::CONNECT {
        return Err(Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            reason: "connect",
            sentence: "CONNECT is not served here\n",
        });
    }
    let scheme = head.uri.scheme();
    if scheme.is_some_and(|scheme| *scheme != Scheme::HTTPS && *scheme != Scheme::HTTP) {
        return Err(BAD);
    }
    let path = head.uri.path();
    let fits = match path {
        "*" => head.method == Method::OPTIONS,
        // Only the form with an authority alone has no path: `GET example.com:80`.
        "" => false,
        path => path.starts_with('/') && (scheme.is_some() || head.uri.authority().is_none()),
    };
    let clean = |b: u8| b > 0x20 && b != 0x7f && b != b'#';
    let clean = path.bytes().all(clean)
        && head
            .uri
            .query()
            .is_none_or(|query| query.bytes().all(clean));
    if fits && clean { Ok(()) } else { Err(BAD) }
}

/// Origin form, and the one host in `Host`.
fn address_http1(head: &mut Parts, host: Option<HeaderValue>) -> Result<(), Refusal> {
    head.version = Version::HTTP_11;
    if head.uri.authority().is_some() {
        let target = head.uri.path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        head.uri = Uri::from(target);
    }
    // HTTP/1.0 may name no host, HTTP/1.1 must name one, if only an empty one.
    head.headers
        .insert(HOST, host.unwrap_or_else(|| HeaderValue::from_static("")));
    Ok(())
}

/// The host in `:authority`, and no `Host` beside it.
fn address_http2(head: &mut Parts, host: Option<HeaderValue>) -> Result<(), Refusal> {
    const BAD: Refusal = Refusal::bad("bad_target", "the target of the request is not a path\n");
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    let target = head
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));
    let host = host
        .as_ref()
        .map_or(Ok(""), HeaderValue::to_str)
        .map_err(|_| BAD)?;
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(host)
        .path_and_query(target);
    head.uri = uri.build().map_err(|_| BAD)?;
    Ok(())
}
