//! The head of a response on its way to the client.

use std::fmt;

use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode, Version};

use super::hop;
use super::present::{Field, Present};

/// Why a backend's response is not passed on: a 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadGateway {
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndCoding,
    /// Several lengths, or one that is no number.
    Lengths,
    /// A transfer coding other than `chunked`.
    Coding,
    /// A status that no final response has.
    Status,
}

impl BadGateway {
    /// A label value in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::LengthAndCoding => "length_and_coding",
            Self::Lengths => "conflicting_lengths",
            Self::Coding => "unknown_transfer_coding",
            Self::Status => "unexpected_status",
        }
    }
}

impl fmt::Display for BadGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LengthAndCoding => {
                "the backend's response has a content-length and a transfer-encoding"
            }
            Self::Lengths => "the backend's response has contradicting lengths",
            Self::Coding => "the backend's response has a transfer coding other than chunked",
            Self::Status => "the backend's response has a status that ends no request",
        })
    }
}

impl std::error::Error for BadGateway {}

/// Makes a backend's response head into one for the client: checks its framing, drops the fields of
/// that hop, keeps everything else, `Date` and `Trailer` included.
///
/// # Errors
/// When its length can be read in two ways; answer 502 and drop its body, which ends the connection.
pub fn response(head: &mut Parts, method: &Method) -> Result<(), BadGateway> {
    let present = Present::of(&head.headers);
    let lengths = check_framing(head, present)?;
    let switching = head.status == StatusCode::SWITCHING_PROTOCOLS;
    if head.status.is_informational() && !switching {
        return Err(BadGateway::Status);
    }
    let hop = hop::strip(&mut head.headers, present);
    if lengths > 1
        && let Some(length) = head.headers.get(CONTENT_LENGTH).cloned()
    {
        // The same length twice becomes one.
        head.headers.insert(CONTENT_LENGTH, length);
    }
    if let (true, Some(protocol)) = (switching, hop.upgrade) {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, protocol);
    }
    // A length that is not the body's own: allowed for HEAD and 304 only (RFC 9110, section 8.6).
    if head.status == StatusCode::NO_CONTENT || (switching && *method != Method::HEAD) {
        head.headers.remove(CONTENT_LENGTH);
    }
    // hyper answers in the client's version; what the backend speaks stops here.
    head.version = Version::HTTP_11;
    Ok(())
}

/// How many lengths the head states; they are all the same.
fn check_framing(head: &Parts, present: Present) -> Result<usize, BadGateway> {
    if present.has(Field::TransferEncoding) {
        if present.has(Field::ContentLength) {
            return Err(BadGateway::LengthAndCoding);
        }
        let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
        let coding = codings.next().map_or(&b""[..], HeaderValue::as_bytes);
        if codings.next().is_some() || !coding.eq_ignore_ascii_case(b"chunked") {
            return Err(BadGateway::Coding);
        }
    }
    if !present.has(Field::ContentLength) {
        return Ok(0);
    }
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else {
        return Ok(0);
    };
    if !length.as_bytes().iter().all(u8::is_ascii_digit) || length.is_empty() {
        return Err(BadGateway::Lengths);
    }
    let mut count = 1;
    for other in lengths {
        if other != length {
            return Err(BadGateway::Lengths);
        }
        count += 1;
    }
    Ok(count)
}
