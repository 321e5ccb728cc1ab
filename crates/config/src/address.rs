//! Addresses and names: where to listen, where a backend listens, what a site answers to.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use tollgate_terms::{ServerName, ServerNameError};

use crate::model::{BackendAddress, ListenAddress, SiteName};
use crate::value::{Complaint, complain};

/// Longest path or abstract name of a unix socket: `sun_path` less its NUL, unix(7).
const MAX_UNIX_BYTES: usize = 107;

/// What stands before `://` of a backend, or the lack of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `10.0.0.5:8080`, `unix:/run/app.sock`
    Bare,
    /// `http://`
    Http,
    /// `h2c://`: HTTP/2 without TLS, with prior knowledge.
    H2c,
    /// `https://`: HTTP/1.1 inside TLS.
    Https,
    /// `h2://`: HTTP/2 inside TLS.
    H2,
    /// `tcp://`
    Tcp,
    /// `tls://`
    Tls,
}

impl Scheme {
    /// The word before `://`; empty for none.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "",
            Self::Http => "http",
            Self::H2c => "h2c",
            Self::Https => "https",
            Self::H2 => "h2",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// Whether the scheme itself asks for TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::H2 | Self::Tls)
    }

    fn default_port(self) -> Option<u16> {
        match self {
            Self::Http | Self::H2c => Some(80),
            Self::Https | Self::H2 => Some(443),
            Self::Bare | Self::Tcp | Self::Tls => None,
        }
    }
}

/// The text after `unix:`.
enum Unix {
    Path(PathBuf),
    Abstract(String),
}

const UNIX_ALLOWED: &str = "unix:/path/to/socket, or unix:@name for an abstract socket";

fn unix(text: &str) -> Result<Unix, Complaint> {
    let text = text.strip_prefix("//").map_or(text, |rest| rest);
    if text.contains('\0') {
        return Err(complain("holds a NUL byte", UNIX_ALLOWED));
    }
    if text.len() > MAX_UNIX_BYTES {
        return Err(complain(
            format!("is too long for a socket, {} bytes", text.len()),
            format!("at most {MAX_UNIX_BYTES} bytes after unix:"),
        )
        .help("use a shorter folder, such as /run/app"));
    }
    if let Some(name) = text.strip_prefix('@') {
        if name.is_empty() {
            return Err(complain("has no name after @", UNIX_ALLOWED));
        }
        return Ok(Unix::Abstract(name.to_owned()));
    }
    if !text.starts_with('/') {
        let help = if text.is_empty() {
            "write the path of the socket".to_owned()
        } else {
            format!("write unix:/run/{text}, or unix:@{text} for an abstract socket")
        };
        return Err(complain("does not start with /", UNIX_ALLOWED).help(help));
    }
    Ok(Unix::Path(PathBuf::from(text)))
}

/// A listener's `address:`.
pub fn listen(text: &str) -> Result<ListenAddress, Complaint> {
    if let Some(rest) = text.strip_prefix("unix:") {
        return Ok(match unix(rest)? {
            Unix::Path(path) => ListenAddress::UnixPath(path),
            Unix::Abstract(name) => ListenAddress::UnixAbstract(name),
        });
    }
    if text.starts_with('/') || text.starts_with('@') {
        return Err(complain("is not an address", UNIX_ALLOWED).help(format!("write unix:{text}")));
    }
    socket(text).map(ListenAddress::Ip)
}

/// An IP address with a port, as one listens on.
pub fn socket(text: &str) -> Result<SocketAddr, Complaint> {
    const ALLOWED: &str = "an IP address and a port, such as 0.0.0.0:443";
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.trim_end_matches('/');
        return Err(complain(format!("has a scheme, {scheme}://"), ALLOWED)
            .help(format!("write \"{rest}\"")));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Err(complain("has no port", ALLOWED)
            .help(format!("write \"{}\"", SocketAddr::new(ip, 443))));
    }
    if text.parse::<u16>().is_ok() {
        return Err(complain("has no IP address", ALLOWED).help(format!(
            "write \"0.0.0.0:{text}\", or \"[::]:{text}\" for IPv6 as well"
        )));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(complain("is not an address", ALLOWED)
            .help("write \"0.0.0.0:443\", \"[::]:443\" or \"unix:/run/tollgate.sock\""));
    };
    if host.is_empty() || host == "*" {
        return Err(complain("has no IP address", ALLOWED).help(format!(
            "write \"0.0.0.0:{port}\", or \"[::]:{port}\" for IPv6 as well"
        )));
    }
    if port.parse::<u16>().is_err() {
        return Err(bad_port(port, ALLOWED));
    }
    if host == "localhost" {
        return Err(complain("names a host", ALLOWED)
            .help(format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"")));
    }
    if host.contains(':') {
        return Err(complain("is IPv6 without brackets", ALLOWED)
            .help(format!("write \"[{host}]:{port}\"")));
    }
    Err(complain("is not an IP address and port", ALLOWED)
        .help("a listener takes the address of one of this machine's interfaces, no host name"))
}

fn bad_port(port: &str, allowed: &str) -> Complaint {
    let complaint = complain("has no usable port", allowed);
    match port.parse::<u64>() {
        Ok(_) => complaint.help("a port is 65535 or less"),
        Err(_) => complaint.help("end it with a colon and a number"),
    }
}

/// A backend's `address:`.
pub fn backend(text: &str) -> Result<(Scheme, BackendAddress), Complaint> {
    const ALLOWED: &str = "http://, https://, h2c://, h2://, tcp://, tls://, host:port, or unix:";
    if let Some(rest) = text.strip_prefix("unix:") {
        let address = match unix(rest)? {
            Unix::Path(path) => BackendAddress::UnixPath(path),
            Unix::Abstract(name) => BackendAddress::UnixAbstract(name),
        };
        return Ok((Scheme::Bare, address));
    }
    if text.starts_with('/') || text.starts_with('@') {
        return Err(complain("is not an address", UNIX_ALLOWED).help(format!("write unix:{text}")));
    }
    let (scheme, rest) = match text.split_once("://") {
        None => (Scheme::Bare, text),
        Some((scheme, rest)) => (scheme_of(scheme, rest)?, rest),
    };
    let shown = if scheme == Scheme::Bare {
        String::new()
    } else {
        format!("{}://", scheme.name())
    };
    if rest.contains('@') {
        return Err(complain("holds a user name", ALLOWED)
            .help("remove the part up to @; a backend gets the Authorization header that the client sends"));
    }
    if let Some(slash) = rest.find(['/', '?', '#']) {
        let (host, path) = rest.split_at(slash);
        if path != "/" {
            return Err(
                complain("has a path", "scheme, host and port").help(format!(
                    "write {shown}{host}; requests keep the path that the client sent"
                )),
            );
        }
        return host_and_port(scheme, host, ALLOWED).map(|address| (scheme, address));
    }
    host_and_port(scheme, rest, ALLOWED).map(|address| (scheme, address))
}

fn scheme_of(scheme: &str, rest: &str) -> Result<Scheme, Complaint> {
    const ALLOWED: &str = "http, https, h2c, h2, tcp or tls";
    Ok(match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        "h2c" => Scheme::H2c,
        "h2" => Scheme::H2,
        "tcp" => Scheme::Tcp,
        "tls" => Scheme::Tls,
        other => {
            let complaint = complain(format!("has an unknown scheme, {other}://"), ALLOWED);
            return Err(match other {
                "http2" | "grpc" => {
                    complaint.help(format!("write h2c://{rest}, or h2://{rest} over TLS"))
                }
                "grpcs" => complaint.help(format!("write h2://{rest}")),
                "ssl" => complaint.help(format!("write tls://{rest}")),
                "ws" => complaint.help(format!("write http://{rest}; WebSocket upgrades pass")),
                "wss" => complaint.help(format!("write https://{rest}; WebSocket upgrades pass")),
                "fastcgi" | "uwsgi" => complaint
                    .help("Tollgate speaks HTTP; put the application server's HTTP port here"),
                _ => complaint.help(format!("write http://{rest}, or tcp://{rest} in tcp mode")),
            });
        }
    })
}

fn host_and_port(scheme: Scheme, text: &str, allowed: &str) -> Result<BackendAddress, Complaint> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        if address.port() == 0 {
            return Err(bad_port("0", allowed).help("a backend listens on a port from 1 to 65535"));
        }
        return Ok(BackendAddress::Ip(address));
    }
    let bracketed = text.starts_with('[');
    let bare_ip = text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    if let Some(ip) = bare_ip {
        if ip.is_ipv6() && !bracketed {
            return Err(
                complain("is IPv6 without brackets", allowed).help(format!("write [{text}]:8080"))
            );
        }
        return match scheme.default_port() {
            Some(port) => Ok(BackendAddress::Ip(SocketAddr::new(ip, port))),
            None => Err(complain("has no port", allowed).help(format!("write {text}:8080"))),
        };
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => match port.parse::<u16>() {
            Ok(port) if port > 0 => (host, port),
            _ => return Err(bad_port(port, allowed)),
        },
        None => match scheme.default_port() {
            Some(port) => (text, port),
            None if text.is_empty() => return Err(complain("has no host", allowed)),
            None => {
                return Err(complain("has no port", allowed).help(format!(
                    "write {text}:8080, with the port that the backend listens on"
                )));
            }
        },
    };
    if host.is_empty() {
        return Err(complain("has no host", allowed).help(format!("write 127.0.0.1:{port}")));
    }
    match ServerName::new(host) {
        // Digits and dots alone are a mistyped address, not a host.
        Ok(_)
            if host
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.') =>
        {
            Err(complain(
                format!("is not an IP address, {host}"),
                "four numbers from 0 to 255 with dots between",
            )
            .help("correct the address, or write a host name"))
        }
        Ok(name) => Ok(BackendAddress::Host(name.to_string(), port)),
        Err(_) => Err(complain(
            format!("is not a host name, {}", crate::item::shown(host)),
            allowed,
        )
        .help("letters, digits, hyphens and dots; IPv6 in brackets")),
    }
}

/// An entry of a site's `names:`.
pub fn site_name(text: &str) -> Result<SiteName, Complaint> {
    const ALLOWED: &str = "a host name such as shop.example, or a wildcard such as *.shop.example";
    if text == "*" || text == "_" {
        return Err(complain("is not a host name", ALLOWED)
            .help("write `default: true` on the site that takes every other name"));
    }
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return Err(complain("is a URL", ALLOWED).help(format!("write \"{host}\"")));
    }
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Err(complain("is an IP address", ALLOWED).help(
            "clients never send an address as server_name; write `default: true` on the site instead",
        ));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(complain("has a port", ALLOWED).help(format!("write \"{host}\"")));
    }
    if let Some(slash) = text.find('/') {
        return Err(complain("has a path", ALLOWED).help(format!("write \"{}\"", &text[..slash])));
    }
    if !text.is_ascii() {
        return Err(complain("has letters beyond ASCII", ALLOWED)
            .help("write the name as DNS has it, starting with xn-- (idn2 prints it)"));
    }
    if let Some(parent) = text.strip_prefix("*.") {
        if parent.contains('*') {
            return Err(complain("has two stars", ALLOWED).help(
                "a wildcard stands for one label; name the levels below as names of their own",
            ));
        }
        return ServerName::new(parent)
            .map(SiteName::Wildcard)
            .map_err(|error| bad_name(error, ALLOWED));
    }
    if text.contains('*') {
        return Err(complain("has a star inside", ALLOWED)
            .help("a star stands for the whole first label, as in certificates: *.shop.example"));
    }
    if let Some(rest) = text.strip_prefix('.') {
        return Err(complain("starts with a dot", ALLOWED).help(format!(
            "write \"{rest}\" and \"*.{rest}\", whichever are meant"
        )));
    }
    if let Some(rest) = text.strip_prefix('~') {
        return Err(complain("is a pattern", ALLOWED).help(format!(
            "there are no patterns in names; list the names that {rest} stands for"
        )));
    }
    ServerName::new(text)
        .map(SiteName::Exact)
        .map_err(|error| bad_name(error, ALLOWED))
}

/// A host name without a wildcard, such as a backend certificate must carry.
pub fn server_name(text: &str) -> Result<ServerName, Complaint> {
    ServerName::new(text).map_err(|error| bad_name(error, "a host name such as shop.example"))
}

fn bad_name(error: ServerNameError, allowed: &str) -> Complaint {
    match error {
        ServerNameError::Empty => complain("is empty", allowed),
        ServerNameError::TooLong => complain("is too long", allowed)
            .help("a name has at most 253 bytes, each part between dots at most 63"),
        ServerNameError::NotAHostName => {
            complain("is not a host name", allowed).help("letters, digits, hyphens and single dots")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use super::*;

    #[test]
    fn listeners_take_addresses_and_sockets() {
        assert_eq!(
            listen("0.0.0.0:443"),
            Ok(ListenAddress::Ip("0.0.0.0:443".parse().unwrap()))
        );
        assert!(matches!(listen("[::]:443"), Ok(ListenAddress::Ip(_))));
        assert_eq!(
            listen("unix:/run/x.sock"),
            Ok(ListenAddress::UnixPath("/run/x.sock".into()))
        );
        assert_eq!(
            listen("unix:@x"),
            Ok(ListenAddress::UnixAbstract("x".into()))
        );
    }

    #[test]
    fn a_listener_that_is_almost_right_is_shown_the_right_one() {
        for (text, right) in [
            ("443", "0.0.0.0:443"),
            (":443", "0.0.0.0:443"),
            ("*:443", "0.0.0.0:443"),
            ("10.0.0.1", "10.0.0.1:443"),
            ("::1", "[::1]:443"),
            ("https://0.0.0.0:443/", "\"0.0.0.0:443\""),
            ("localhost:443", "127.0.0.1:443"),
            ("/run/x.sock", "unix:/run/x.sock"),
            ("unix:x.sock", "unix:/run/x.sock"),
        ] {
            let help = listen(text).unwrap_err().help.unwrap();
            assert!(help.contains(right), "{text}: {help}");
        }
    }

    #[test]
    fn a_unix_path_ends_at_107_bytes() {
        let fits = format!("unix:/{}", "a".repeat(106));
        assert!(listen(&fits).is_ok());
        assert!(listen(&format!("{fits}a")).is_err());
    }

    #[test]
    fn backends_are_read_in_every_spelling() {
        let ip = |text: &str| BackendAddress::Ip(text.parse().unwrap());
        for (text, scheme, address) in [
            ("http://10.0.0.5:8080", Scheme::Http, ip("10.0.0.5:8080")),
            ("http://10.0.0.5", Scheme::Http, ip("10.0.0.5:80")),
            (
                "http://[2001:db8::1]/",
                Scheme::Http,
                ip("[2001:db8::1]:80"),
            ),
            ("h2c://127.0.0.1:8081", Scheme::H2c, ip("127.0.0.1:8081")),
            (
                "h2://app",
                Scheme::H2,
                BackendAddress::Host("app".into(), 443),
            ),
            (
                "https://app:8443",
                Scheme::Https,
                BackendAddress::Host("app".into(), 8443),
            ),
            ("tcp://10.0.0.5:5432", Scheme::Tcp, ip("10.0.0.5:5432")),
            (
                "tls://db:5432",
                Scheme::Tls,
                BackendAddress::Host("db".into(), 5432),
            ),
            ("10.0.0.5:8080", Scheme::Bare, ip("10.0.0.5:8080")),
            (
                "unix:/run/shop.sock",
                Scheme::Bare,
                BackendAddress::UnixPath("/run/shop.sock".into()),
            ),
            (
                "unix:@shop",
                Scheme::Bare,
                BackendAddress::UnixAbstract("shop".into()),
            ),
        ] {
            assert_eq!(backend(text), Ok((scheme, address)), "{text}");
        }
    }

    #[test]
    fn a_backend_that_is_no_address_is_refused() {
        for text in [
            "http://",
            "http://:80",
            "app",
            "tcp://app",
            "10.0.0.5:0",
            "10.0.0.256:80",
            "http://a:b@h:1",
            "http://app/api",
            "ftp://app:21",
            "app:99999",
            "::1",
            "http://a b:80",
            "",
        ] {
            assert!(backend(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wildcard_is_one_star_before_a_name() {
        assert!(
            matches!(site_name("*.shop.example"), Ok(SiteName::Wildcard(name)) if name.as_str() == "shop.example")
        );
        for text in [
            "*",
            "*.*.example",
            "a*.example",
            "shop.*",
            "*shop.example",
            ".shop.example",
            "~^www",
            "https://shop.example/",
            "shop.example:443",
            "shop.example/x",
            "10.0.0.1",
            "[::1]",
            "b\u{fc}cher.example",
            "a..b",
        ] {
            assert!(site_name(text).is_err(), "{text}");
        }
    }
}
