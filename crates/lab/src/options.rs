//! What a load run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_terms::{CipherSuite, NamedGroup, TlsVersion};

/// What one operation of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A new connection: TCP, handshake, one request, its response, close.
    Tps,
    /// A request on a connection that stays open.
    Requests,
    /// A request for a large body on a connection that stays open; counted in bytes.
    Download,
    /// Connections that are opened, used once and then kept open without a byte.
    Hold,
}

impl Mode {
    /// The word on the command line: `tps`, `requests`, `download` or `hold`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tps => "tps",
            Self::Requests => "requests",
            Self::Download => "download",
            Self::Hold => "hold",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Tps, Self::Requests, Self::Download, Self::Hold]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// One load run. Every field can be set in any order; [`LoadOptions::new`] holds the defaults.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What one operation is.
    pub mode: Mode,
    /// `HOST:PORT` that is connected to.
    pub target: String,
    /// Name sent as `server_name`, checked in the certificate and sent as `Host`. Default: the host of `target`.
    pub server_name: Option<String>,
    /// Take any certificate without a look. Default false.
    pub insecure: bool,
    /// PEM bundle of trusted roots. Default: the system's, `/etc/ssl/certs/ca-certificates.crt`.
    pub ca: Option<PathBuf>,
    /// Share of handshakes that shall resume, 0 to 1. Default 0.
    pub hit_rate: f64,
    /// Length of the measured window, after the warm-up. Default 5 s.
    pub duration: Duration,
    /// Load before the measured window; tickets are gathered in it. Default 500 ms.
    pub warm_up: Duration,
    /// Connections at work at a time. Default 16.
    pub connections: usize,
    /// Operations per second that are started whether or not earlier ones are done (open loop, `tps`
    /// only), with at most `connections` at a time. Default: none, each connection starts the next operation at once.
    pub rate: Option<f64>,
    /// Processes whose CPU time and memory are taken, with their children.
    pub watch: Vec<u32>,
    /// The one version offered. Default: both.
    pub version: Option<TlsVersion>,
    /// The one suite offered. Default: all.
    pub suite: Option<CipherSuite>,
    /// The one group offered. Default: all.
    pub group: Option<NamedGroup>,
    /// Claim to verify RSA signatures only. Default false.
    pub rsa_only: bool,
    /// Application protocols offered. Default `http/1.1`; `h2` is refused, because requests are HTTP/1.1.
    pub alpn: Vec<String>,
    /// Path that is requested. Default `/`; for `download` `/bytes/104857600`.
    pub path: String,
    /// Connections that `hold` opens. Default 1 000.
    pub count: usize,
    /// Core that this run keeps to. Default: none.
    pub pin: Option<usize>,
    /// Longest wait for one operation before it counts as failed. Default 10 s.
    pub timeout: Duration,
}

impl LoadOptions {
    /// A run of `mode` against `target` with every other field at its default.
    pub fn new(mode: Mode, target: impl Into<String>) -> Self {
        Self {
            mode,
            target: target.into(),
            server_name: None,
            insecure: false,
            ca: None,
            hit_rate: 0.0,
            duration: Duration::from_secs(5),
            warm_up: Duration::from_millis(500),
            connections: 16,
            rate: None,
            watch: Vec::new(),
            version: None,
            suite: None,
            group: None,
            rsa_only: false,
            alpn: vec!["http/1.1".into()],
            path: match mode {
                Mode::Download => "/bytes/104857600".into(),
                Mode::Tps | Mode::Requests | Mode::Hold => "/".into(),
            },
            count: 1_000,
            pin: None,
            timeout: Duration::from_secs(10),
        }
    }

    /// Host and port of the target.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        let (host, port) = self.target.rsplit_once(':')?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        let target = |text: &str| {
            LoadOptions::new(Mode::Tps, text)
                .host_and_port()
                .map(|(host, port)| (host.to_owned(), port))
        };
        assert_eq!(
            target("shop.example:443"),
            Some(("shop.example".into(), 443))
        );
        assert_eq!(target("[::1]:8443"), Some(("::1".into(), 8443)));
        assert_eq!(target("shop.example"), None);
        assert_eq!(target(":443"), None);
        assert_eq!(target("shop.example:https"), None);
    }
}
