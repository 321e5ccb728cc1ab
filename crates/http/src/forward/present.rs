//! Which of the fields that forwarding has rules for are in a head.
//!
//! Most heads have none of them, and one look at each name that is there costs less than a search for
//! each name that could be: some 3,000 instructions of a request and its response.

use hyper::HeaderMap;

/// A field that forwarding has a rule for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Connection,
    ContentLength,
    Expect,
    Http2Settings,
    KeepAlive,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Te,
    TransferEncoding,
    Upgrade,
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "connection" => Self::Connection,
            "content-length" => Self::ContentLength,
            "expect" => Self::Expect,
            "http2-settings" => Self::Http2Settings,
            "keep-alive" => Self::KeepAlive,
            "proxy-authenticate" => Self::ProxyAuthenticate,
            "proxy-authorization" => Self::ProxyAuthorization,
            "proxy-connection" => Self::ProxyConnection,
            "te" => Self::Te,
            "transfer-encoding" => Self::TransferEncoding,
            "upgrade" => Self::Upgrade,
            _ => return None,
        })
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Present(u16);

impl Present {
    /// Those that `headers` has at least once.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut present = Self::default();
        for name in headers.keys() {
            if let Some(field) = Field::named(name.as_str()) {
                present.0 |= 1 << field as u16;
            }
        }
        present
    }

    /// Whether `field` is one of them.
    pub(super) fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u16) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn every_field_is_found_under_its_name_and_no_other() {
        let names = [
            ("connection", Field::Connection),
            ("content-length", Field::ContentLength),
            ("expect", Field::Expect),
            ("http2-settings", Field::Http2Settings),
            ("keep-alive", Field::KeepAlive),
            ("proxy-authenticate", Field::ProxyAuthenticate),
            ("proxy-authorization", Field::ProxyAuthorization),
            ("proxy-connection", Field::ProxyConnection),
            ("te", Field::Te),
            ("transfer-encoding", Field::TransferEncoding),
            ("upgrade", Field::Upgrade),
        ];
        for (name, field) in names {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static("shop.example"));
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("2"));
            let present = Present::of(&headers);
            for (_, other) in names {
                assert_eq!(present.has(other), other == field, "{other:?} in {name}");
            }
        }
    }
}
