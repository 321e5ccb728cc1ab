//! Names under which programs log what TLS was, and what their values mean.

use std::borrow::Cow;

use tollgate_terms::CipherSuite;

use super::time::Moment;

/// What a logged value is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// When.
    Time,
    /// Whether the handshake was resumed.
    Resumed,
    /// TLS version.
    Version,
    /// Cipher suite.
    Suite,
    /// The site as the configuration names it.
    Site,
    /// `server_name` as the client sent it.
    ServerName,
    /// `Host` as the client sent it.
    Host,
    /// Name of the frontend or listener.
    Frontend,
    /// Number of the connection.
    Connection,
    /// How many requests the connection has had.
    ConnectionRequests,
    /// Address of the client, perhaps with its port.
    Client,
    /// Port of the client.
    ClientPort,
    /// How long the handshake took: the same on all lines of a connection.
    Handshake,
    /// What happened, in Tollgate's log.
    Event,
    /// The request line.
    Request,
    /// Captured values in braces, in HAProxy's log.
    Captures,
    /// Nothing that matters here.
    Other,
}

impl Field {
    /// The field that nginx, HAProxy, Caddy or Tollgate call this, without `$`, `%` and brackets.
    pub fn named(name: &str) -> Self {
        match name {
            "time" | "ts" | "timestamp" | "@timestamp" | "time_local" | "time_iso8601" | "msec"
            | "t" | "tr" | "T" | "Tl" | "Ts" | "trg" | "trl" | "date" => Self::Time,
            "ssl_session_reused"
            | "session_reused"
            | "ssl_reused"
            | "reused"
            | "resumed"
            | "tls_resumed"
            | "ssl_resumed"
            | "ssl_fc_is_resumed"
            | "is_resumed"
            | "request.tls.resumed"
            | "tls.resumed" => Self::Resumed,
            "ssl_protocol"
            | "protocol_ssl"
            | "tls_version"
            | "ssl_version"
            | "tls_protocol"
            | "sslv"
            | "ssl_fc_protocol"
            | "request.tls.version"
            | "tls.version"
            | "tls" => Self::Version,
            "ssl_cipher"
            | "tls_suite"
            | "tls_cipher"
            | "cipher"
            | "sslc"
            | "ssl_fc_cipher"
            | "request.tls.cipher_suite"
            | "tls.cipher" => Self::Suite,
            "site" => Self::Site,
            "server_name"
            | "ssl_server_name"
            | "ssl_fc_sni"
            | "sni"
            | "tls_server_name"
            | "ssl_preread_server_name"
            | "request.tls.server_name" => Self::ServerName,
            "host" | "http_host" | "request.host" | "vhost" => Self::Host,
            "f" | "ft" | "frontend" | "listener" => Self::Frontend,
            "connection" => Self::Connection,
            "connection_requests" => Self::ConnectionRequests,
            "client" | "remote_addr" | "ci" | "src" | "client_ip" | "request.remote_ip" => {
                Self::Client
            }
            "remote_port" | "cp" | "src_port" | "client_port" | "request.remote_port" => {
                Self::ClientPort
            }
            "handshake_us" => Self::Handshake,
            "event" => Self::Event,
            "request" | "r" => Self::Request,
            "hr" | "hs" => Self::Captures,
            _ => Self::Other,
        }
    }
}

/// What one line told.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    pub time: Option<Moment>,
    pub resumed: Option<bool>,
    pub version: Option<Cow<'a, str>>,
    pub suite: Option<Cow<'a, str>>,
    /// By rank: as configured, `server_name`, `Host`, frontend.
    sites: [Option<Cow<'a, str>>; 4],
    pub connection: Option<u64>,
    pub requests: Option<u64>,
    pub client: Option<Cow<'a, str>>,
    pub port: Option<Cow<'a, str>>,
    pub handshake: Option<Cow<'a, str>>,
    pub event: Option<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    /// Takes a value. The first one that tells something stands; what tells nothing (`-`, an empty text) is passed over.
    pub fn set(&mut self, field: Field, value: Cow<'a, str>) {
        if matches!(value.as_ref(), "" | "-") {
            return;
        }
        match field {
            Field::Time if self.time.is_none() => self.time = Moment::parse(&value),
            Field::Resumed if self.resumed.is_none() => self.resumed = resumed(&value),
            Field::Version if self.version.is_none() => self.version = version(value),
            Field::Suite if self.suite.is_none() => self.suite = suite(value),
            Field::Site => keep(&mut self.sites[0], value),
            Field::ServerName => keep(&mut self.sites[1], value),
            Field::Host => keep(&mut self.sites[2], value),
            Field::Frontend => keep(&mut self.sites[3], value),
            Field::Connection => self.connection = value.parse().ok(),
            Field::ConnectionRequests => self.requests = value.parse().ok(),
            Field::Client => keep(&mut self.client, value),
            Field::ClientPort => keep(&mut self.port, value),
            Field::Handshake => keep(&mut self.handshake, value),
            Field::Event => keep(&mut self.event, value),
            Field::Captures => self.captures(&value),
            Field::Time
            | Field::Resumed
            | Field::Version
            | Field::Suite
            | Field::Request
            | Field::Other => {}
        }
    }

    /// Captured values: one that is `0` or `1` alone can only be a flag.
    pub fn captures(&mut self, text: &str) {
        let inside = text.trim_start_matches('{').trim_end_matches('}');
        for value in inside.split('|') {
            match value.split_once('=') {
                Some((key, value)) if Field::named(key) != Field::Other => {
                    self.set(Field::named(key), Cow::Owned(value.to_owned()));
                }
                _ if self.resumed.is_none() && matches!(value, "0" | "1") => {
                    self.resumed = Some(value == "1");
                }
                _ => {}
            }
        }
    }

    /// The best name for where the client went: as configured, else `server_name`, `Host`, frontend.
    pub fn site(&self) -> Option<&str> {
        self.sites
            .iter()
            .flatten()
            .map(AsRef::as_ref)
            .find(|name| *name != "_")
    }

    /// Whether any field of TLS told something.
    pub fn is_tls(&self) -> bool {
        self.resumed.is_some() || self.version.is_some() || self.suite.is_some()
    }
}

fn keep<'a>(place: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) {
    if place.is_none() {
        *place = Some(value);
    }
}

/// nginx says `r` and `.`, HAProxy `1` and `0`, the others a word.
fn resumed(text: &str) -> Option<bool> {
    match text {
        "r" | "1" | "true" | "resumed" | "Resumed" | "yes" => Some(true),
        "." | "0" | "false" | "full" | "Full" | "no" => Some(false),
        _ => None,
    }
}

/// A version by name, or by number as Caddy logs it; anything else is none.
pub fn version(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let name = match text.as_ref() {
        "772" | "tls1.3" | "TLS1.3" | "TLSv1.3" => "TLSv1.3",
        "771" | "tls1.2" | "TLS1.2" | "TLSv1.2" => "TLSv1.2",
        "770" | "tls1.1" | "TLS1.1" | "TLSv1.1" => "TLSv1.1",
        "769" | "tls1.0" | "TLS1.0" | "TLSv1" | "TLSv1.0" => "TLSv1",
        "SSLv3" => "SSLv3",
        _ => return None,
    };
    Some(Cow::Borrowed(name))
}

/// The IANA name where it is known, by OpenSSL's name or by number; else as logged, if it can be a suite at all.
pub fn suite(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.len() > 64 || text.len() < 4 || !text.bytes().all(plain) {
        return None;
    }
    if let Ok(number) = text.parse::<u16>() {
        return match CipherSuite(number).name() {
            "unknown" => Some(text),
            name => Some(Cow::Borrowed(name)),
        };
    }
    let Some(known) = openssl(&text) else {
        return (!matches!(text.as_ref(), "(NONE)" | "NONE" | "true" | "false")).then_some(text);
    };
    Some(Cow::Borrowed(known))
}

fn openssl(text: &str) -> Option<&'static str> {
    Some(match text {
        "ECDHE-ECDSA-AES128-GCM-SHA256" => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384" => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305" => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256" => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384" => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305" => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-AES128-SHA" => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "ECDHE-RSA-AES256-SHA" => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "AES128-GCM-SHA256" => "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "AES256-GCM-SHA384" => "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "AES128-SHA" => "TLS_RSA_WITH_AES_128_CBC_SHA",
        "AES256-SHA" => "TLS_RSA_WITH_AES_256_CBC_SHA",
        _ => return None,
    })
}
