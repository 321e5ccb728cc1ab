//! Answers of our own: one short sentence each, and no word about who we are.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::Body;

/// A plain-text answer that no cache keeps.
pub fn plain(status: StatusCode, sentence: &'static str) -> Response<Body> {
    text(status, sentence)
}

/// The same for a text made at run time.
pub fn text(status: StatusCode, text: impl Into<hyper::body::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What a client gets whose request head does not arrive in time; sent by hand, as no request exists yet.
pub(crate) const TIMEOUT_BYTES: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\nconnection: close\r\n\
content-length: 40\r\n\r\nthe request head did not arrive in time\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_page_is_as_long_as_it_says() {
        let text = std::str::from_utf8(TIMEOUT_BYTES).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
    }
}
