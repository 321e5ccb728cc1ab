//! What a probe is asked to do, checked where it is written down.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_terms::TlsVersion;

use super::{Endpoint, ProbeError, Profile, StartTls};

/// The longest file of early data that is read; no server takes more than this.
pub const MOST_EARLY_BYTES: usize = 64 * 1024;

/// The server that is asked for, as a person writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address, without brackets.
    pub host: String,
    /// The port, if it was written.
    pub port: Option<u16>,
}

impl Target {
    /// Reads `HOST`, `HOST:PORT`, `[::1]`, `[::1]:443` or `::1`; also `https://HOST:PORT/…`.
    ///
    /// # Errors
    /// When there is no host, or the port is none.
    pub fn parse(text: &str) -> Result<Self, ProbeError> {
        let bare = text.strip_prefix("https://").unwrap_or(text);
        let bare = bare.split_once('/').map_or(bare, |(host, _)| host);
        let (host, port) = match bare.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => {
                let port = match rest.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if rest.is_empty() => None,
                    None => return Err(no_target(text)),
                };
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(no_target(text));
                }
                (host, port)
            }
            Some(None) => return Err(no_target(text)),
            // More than one colon outside of brackets is an address without a port.
            None if bare.parse::<IpAddr>().is_ok() => (bare, None),
            None => match bare.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (bare, None),
            },
        };
        let port = match port.map(str::parse) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(no_target(text)),
        };
        let host = host.trim_end_matches('.');
        if host.is_empty() || host.contains([' ', ':', '@']) && host.parse::<IpAddr>().is_err() {
            return Err(no_target(text));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

fn no_target(text: &str) -> ProbeError {
    ProbeError::Input(format!(
        "{text:?} is no target; write HOST, HOST:PORT, ADDRESS or [IPV6]:PORT, with a port from 1 to 65535"
    ))
}

/// An HTTP request without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// Path with query, beginning with `/`.
    pub path: String,
}

impl Request {
    /// A request; `path` may lack its first slash.
    ///
    /// # Errors
    /// When the path has a space or a control character in it.
    pub fn new(method: &str, path: &str) -> Result<Self, ProbeError> {
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(ProbeError::Input(format!(
                "{path:?} is no path: spaces and control characters are written as %20 and the like"
            )));
        }
        let slash = match path.starts_with('/') {
            true => "",
            false => "/",
        };
        Ok(Self {
            method: method.to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Whether the method changes nothing and may be repeated (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        is_safe(&self.method)
    }
}

/// Methods that may be sent as early data, which anyone can send again (RFC 8470, section 3).
fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// What is sent as early data in resumed connections whose ticket allows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// Nothing.
    Off,
    /// The request, if its method is safe.
    #[default]
    Request,
    /// These bytes, which are then also the request of every other connection.
    Bytes(Vec<u8>),
}

impl EarlyData {
    /// Bytes from a file.
    ///
    /// # Errors
    /// When they do not begin with a request whose method is safe to repeat, or are too many.
    pub fn bytes(bytes: Vec<u8>) -> Result<Self, ProbeError> {
        if bytes.len() > MOST_EARLY_BYTES {
            return Err(ProbeError::Input(format!(
                "{} bytes of early data: {MOST_EARLY_BYTES} is the most, and most servers take 16384",
                bytes.len()
            )));
        }
        let end = bytes.iter().position(|byte| *byte == b' ').unwrap_or(0);
        match std::str::from_utf8(&bytes[..end]) {
            Ok(method) if is_safe(method) => Ok(Self::Bytes(bytes)),
            _ => Err(ProbeError::Input(
                "the early data does not begin with GET, HEAD or OPTIONS: anyone who sees early data \
                 on its way can send it to the server again, so only a request that changes nothing may go there"
                    .into(),
            )),
        }
    }
}

/// Which PROXY header goes in front of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// One probe. Every field can be set in any order; [`ProbeOptions::new`] holds the defaults.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// What is probed, as the user wrote it.
    pub target: Target,
    /// Port of the target when it names none. Default 443, or that of `start_tls`.
    pub port: Option<u16>,
    /// Name that the certificate must carry, sent as `server_name` and as `Host`. Default: the target's host.
    pub server_name: Option<String>,
    /// Where to connect to. Default: all addresses of the target, in the resolver's order.
    pub endpoints: Vec<Endpoint>,
    /// The one version offered. Default: that of the profile, or both.
    pub version: Option<TlsVersion>,
    /// Application protocols offered. Default: those of the profile, or none; with a request and no
    /// profile `http/1.1`.
    pub alpn: Option<Vec<String>>,
    /// The client that is imitated. Default: everything, X25519MLKEM768 and AES-128 first.
    pub profile: Option<&'static Profile>,
    /// Take any certificate without a look. Default false.
    pub insecure: bool,
    /// PEM bundle of trusted roots. Default: the system's.
    pub ca: Option<PathBuf>,
    /// PEM chain and key shown to a server that asks for a certificate.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// What is asked for on each connection. Default: nothing.
    pub request: Option<Request>,
    /// Early data in resumed connections. Default: the request.
    pub early_data: EarlyData,
    /// The dialogue in front of TLS. Default: none.
    pub start_tls: Option<StartTls>,
    /// The PROXY header in front of everything. Default: none.
    pub proxy_header: Option<ProxyHeader>,
    /// How long a connection without a ticket waits for one, so that the next can resume. Default 200 ms.
    pub ticket_wait: Duration,
    /// Longest time for each of: connecting, the handshake, the request. Default 10 s.
    pub timeout: Duration,
    /// Keep the response, up to 1 MB of it. Default false.
    pub contents: bool,
    /// Added to each TCP connect and counted in it: the way to a server whose distance is imitated. Default zero.
    pub connect_added: Duration,
}

impl ProbeOptions {
    /// A probe of `target` with every other field at its default.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            port: None,
            server_name: None,
            endpoints: Vec::new(),
            version: None,
            alpn: None,
            profile: None,
            insecure: false,
            ca: None,
            client_certificate: None,
            request: None,
            early_data: EarlyData::Request,
            start_tls: None,
            proxy_header: None,
            ticket_wait: Duration::from_millis(200),
            timeout: Duration::from_secs(10),
            contents: false,
            connect_added: Duration::ZERO,
        }
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        let default = self.start_tls.map_or(443, StartTls::port);
        self.target.port.or(self.port).unwrap_or(default)
    }

    /// The name that the certificate must carry.
    pub fn name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.target.host)
    }

    /// Application protocols that are offered.
    pub(crate) fn offered_alpn(&self) -> Vec<String> {
        let mut alpn = match (&self.alpn, self.profile) {
            (Some(alpn), _) => alpn.clone(),
            (None, Some(profile)) if self.start_tls.is_none() => {
                profile.alpn.iter().map(|name| (*name).into()).collect()
            }
            (None, _) => Vec::new(),
        };
        // Early data has to be written before the protocol is agreed, so it is HTTP/1.1 for sure.
        if matches!(self.early_data, EarlyData::Bytes(_)) && self.alpn.is_none() {
            alpn.retain(|name| name == "http/1.1");
        }
        if alpn.is_empty() && self.alpn.is_none() && self.request.is_some() {
            alpn.push("http/1.1".into());
        }
        alpn
    }

    /// Refuses what cannot go together.
    ///
    /// # Errors
    /// With what is wrong and what to do.
    pub(crate) fn check(&self) -> Result<(), ProbeError> {
        let http2 = self.offered_alpn().iter().any(|name| name == "h2");
        if http2 && matches!(self.early_data, EarlyData::Bytes(_)) {
            return Err(ProbeError::Input(
                "the bytes of --early-data are sent as they are, which HTTP/2 does not allow: \
                 leave h2 out of --alpn"
                    .into(),
            ));
        }
        let unsafe_early = match (&self.request, &self.early_data) {
            (Some(request), EarlyData::Request) if !request.is_safe() => Some(&request.method),
            _ => None,
        };
        match unsafe_early {
            None => Ok(()),
            Some(method) => Err(ProbeError::Input(format!(
                "{method} is not sent as early data: anyone who sees early data on its way can send it \
                 to the server again, and a repeated {method} may act twice; switch early data off \
                 with --no-early-data, or ask with --get"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Option<u16>)> {
        let target = Target::parse(text).ok()?;
        Some((target.host, target.port))
    }

    #[test]
    fn a_target_is_a_name_or_an_address_with_or_without_a_port() {
        let cases = [
            ("shop.example", "shop.example", None),
            ("shop.example.", "shop.example", None),
            ("shop.example:8443", "shop.example", Some(8443)),
            ("192.0.2.1:443", "192.0.2.1", Some(443)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[2001:db8::7]:8443", "2001:db8::7", Some(8443)),
            ("https://shop.example/basket", "shop.example", None),
        ];
        for (text, host, port) in cases {
            assert_eq!(parsed(text), Some((host.into(), port)), "{text}");
        }
        for text in [
            "", ":443", "a:0", "a:70000", "a:b", "[::1", "[::1]x", "[a]:4", "a b", "me@a",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn only_methods_that_change_nothing_go_as_early_data() {
        for good in ["GET / HTTP/1.1\r\n", "HEAD /", "OPTIONS * HTTP/1.1"] {
            EarlyData::bytes(good.into()).unwrap();
        }
        for bad in [
            "",
            "GET",
            "POST / HTTP/1.1",
            "get / ",
            "\0\x01 ",
            "DELETE /",
        ] {
            let error = EarlyData::bytes(bad.into()).unwrap_err();
            assert!(error.to_string().contains("again"), "{error}");
        }
        assert!(EarlyData::bytes(vec![b'G'; MOST_EARLY_BYTES + 1]).is_err());
        let mut options = ProbeOptions::new(Target::parse("a").unwrap());
        options.request = Some(Request::new("POST", "/buy").unwrap());
        assert!(options.check().unwrap_err().is_wrong_input());
        options.early_data = EarlyData::Off;
        options.check().unwrap();
        options.early_data = EarlyData::bytes("GET / ".into()).unwrap();
        options.check().unwrap();
        options.alpn = Some(vec!["h2".into()]);
        assert!(options.check().unwrap_err().is_wrong_input());
    }

    #[test]
    fn a_request_offers_http_1_1_and_a_profile_what_it_speaks() {
        let mut options = ProbeOptions::new(Target::parse("a").unwrap());
        assert!(options.offered_alpn().is_empty());
        options.request = Some(Request::new("GET", "x").unwrap());
        assert_eq!(options.offered_alpn(), ["http/1.1"]);
        options.profile = Profile::by_name("browser");
        assert_eq!(options.offered_alpn(), ["h2", "http/1.1"]);
        options.alpn = Some(vec!["imap".into()]);
        assert_eq!(options.offered_alpn(), ["imap"]);
        assert!(Request::new("GET", "/a b").is_err());
    }
}
