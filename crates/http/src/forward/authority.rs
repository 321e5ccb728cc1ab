//! Whom a request is for.

use hyper::Version;
use hyper::header::HOST;
use hyper::http::request::Parts;

use super::Refusal;

/// Host and port that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// All of it, as the client spelled it.
    pub text: &'a str,
    /// Host name or address, as spelled; an IPv6 address keeps its brackets.
    pub host: &'a str,
    /// Port, when one is given.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host[:port]`.
    ///
    /// # Errors
    /// When it is empty, holds user information, or a byte that neither host names nor addresses hold.
    pub fn read(text: &'a str) -> Result<Self, Refusal> {
        const GARBAGE: Refusal =
            Refusal::bad("bad_host", "the Host of the request is not a host name\n");
        let (host, port) = match text.rfind(':') {
            Some(colon) if !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
            _ => (text, None),
        };
        let port = match port {
            None | Some("") => None,
            Some(digits) if digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| GARBAGE)?)
            }
            Some(_) => return Err(GARBAGE),
        };
        let fits = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host_name(host),
        };
        if fits {
            Ok(Self { text, host, port })
        } else {
            Err(GARBAGE)
        }
    }

    fn same_as(&self, other: &Self) -> bool {
        let port = |authority: &Self| authority.port.unwrap_or(443);
        self.host.eq_ignore_ascii_case(other.host) && port(self) == port(other)
    }
}

/// Letters, digits, hyphens, underscores and dots; at most 253 bytes without a final dot.
fn is_host_name(host: &str) -> bool {
    let labels = host.strip_suffix('.').unwrap_or(host);
    !labels.is_empty()
        && labels.len() <= 253
        && labels
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && !labels.starts_with('.')
        && !labels.contains("..")
}

/// Whom a request is for, when everything in its head agrees on it; `None` when nothing says so,
/// which only HTTP/1.0 may do.
///
/// The caller compares it with `server_name` and answers 421 where they belong to different sites.
///
/// # Errors
/// 400 when the host is missing, doubled, garbage, or contradicted by the request target.
pub fn authority(head: &Parts) -> Result<Option<Authority<'_>>, Refusal> {
    let from_target = head
        .uri
        .authority()
        .map(|authority| Authority::read(authority.as_str()))
        .transpose()?;
    let from_host = host(head)?;
    match (from_target, from_host) {
        (Some(target), Some(host)) if !target.same_as(&host) => Err(Refusal::bad(
            "host_contradicted",
            "the Host of the request contradicts its target\n",
        )),
        (Some(target), _) if head.version >= Version::HTTP_2 => Ok(Some(target)),
        (Some(_), None) if head.version == Version::HTTP_11 => Err(MISSING),
        (Some(target), _) => Ok(Some(target)),
        (None, Some(host)) => Ok(Some(host)),
        (None, None) if head.version <= Version::HTTP_10 => Ok(None),
        (None, None) => Err(MISSING),
    }
}

const MISSING: Refusal = Refusal::bad("no_host", "the request names no host\n");

fn host(head: &Parts) -> Result<Option<Authority<'_>>, Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let Some(host) = hosts.next() else {
        return Ok(None);
    };
    if hosts.next().is_some() {
        return Err(Refusal::bad(
            "several_hosts",
            "the request names its host more than once\n",
        ));
    }
    match host.to_str() {
        Ok(host) => Authority::read(host).map(Some),
        Err(_) => Err(Refusal::bad(
            "bad_host",
            "the Host of the request is not a host name\n",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, host, port) in [
            ("shop.example", "shop.example", None),
            ("shop.example:8443", "shop.example", Some(8443)),
            ("shop.example:", "shop.example", None),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("[2001:db8::1]", "[2001:db8::1]", None),
            ("[2001:db8::1]:443", "[2001:db8::1]", Some(443)),
        ] {
            assert_eq!(
                Authority::read(text),
                Ok(Authority { text, host, port }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ":443",
            "user@shop.example",
            "shop.example:99999",
            "shop.example:+1",
            "a b",
            "a/b",
            "a,b",
            "a..b",
            ".a",
            "[::1",
            "::1",
            "[v1.x]",
            "a:b:1",
            "shop.example\\evil",
            "xn--\u{e4}",
        ] {
            assert!(Authority::read(text).is_err(), "{text}");
        }
    }
}
