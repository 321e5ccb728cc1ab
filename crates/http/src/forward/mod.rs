//! Heads on their way through: what is refused, what is dropped, what is added.
//!
//! Pure functions on parsed heads. The rule behind all of them: client and backend must not be able
//! to read one message differently (RFC 9112, sections 6 and 11.2).

mod authority;
mod client_facts;
mod hop;
mod present;
mod request;
mod response;

pub use authority::{Authority, authority};
pub use client_facts::{ClientFacts, ForwardedHeaders, Identity};
pub use request::{ForwardContext, Forwarded, request as forward_request};
pub use response::{BadGateway, response as forward_response};

use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::Body;
use crate::page;

/// Why a request is not forwarded: the client's doing, with the answer it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 405, 417, 421 or 501.
    pub status: StatusCode,
    /// A label value in snake case.
    pub reason: &'static str,
    /// One sentence for the client, ending in a line feed.
    pub sentence: &'static str,
}

impl Refusal {
    pub(crate) const fn bad(reason: &'static str, sentence: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            reason,
            sentence,
        }
    }

    /// The answer to the client. It ends an HTTP/1.1 connection: after a head that is not understood
    /// nothing that follows can be trusted.
    pub fn response(&self) -> Response<Body> {
        let mut response = page::plain(self.status, self.sentence);
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sentence.trim_end())
    }
}

impl std::error::Error for Refusal {}
