//! Trailer fields: which of them may pass.

use hyper::HeaderMap;
use hyper::header::HeaderName;

/// Fields that a sender must not put into trailers, because they decide about framing, routing,
/// authentication or the reading of the content (RFC 9110, section 6.5.1), and those that speak of
/// one hop or of the client and are ours to write.
const FORBIDDEN: [&str; 29] = [
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-real-ip",
];

/// Drops the fields that must not pass.
pub(crate) fn clean(fields: &mut HeaderMap) {
    let dropped: Vec<HeaderName> = fields
        .keys()
        .filter(|name| is_forbidden(name.as_str()))
        .cloned()
        .collect();
    for name in dropped {
        fields.remove(name);
    }
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.binary_search(&name).is_ok()
        || name.starts_with("x-forwarded-")
        || name.starts_with("x-client-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn fields_that_decide_about_framing_or_the_client_do_not_pass_as_trailers() {
        let mut fields = HeaderMap::new();
        for name in [
            "content-length",
            "transfer-encoding",
            "host",
            "x-forwarded-for",
            "x-client-subject",
        ] {
            fields.insert(name, HeaderValue::from_static("1"));
        }
        fields.insert("grpc-status", HeaderValue::from_static("0"));
        clean(&mut fields);
        assert_eq!(
            fields.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["grpc-status"]
        );
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FORBIDDEN.is_sorted());
    }
}
