//! What a load run is asked to do.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_terms::{CipherSuite, NamedGroup, SignatureScheme, TlsVersion};

/// What one operation of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A new connection: TCP, handshake, one request, its response, close.
    Tps,
    /// A request on a connection that stays open.
    Requests,
    /// A request for a large body on a connection that stays open; counted in bytes.
    Download,
    /// A request with a large body on a connection that stays open; counted in bytes that a response
    /// has acknowledged.
    Upload,
    /// Connections that are opened, used once and then kept open without a byte.
    Hold,
    /// Several of the others at the same time, see [`LoadOptions::mix`].
    Mix,
}

impl Mode {
    const ALL: [Self; 6] = [
        Self::Tps,
        Self::Requests,
        Self::Download,
        Self::Upload,
        Self::Hold,
        Self::Mix,
    ];

    /// The word on the command line: `tps`, `requests`, `download`, `upload`, `hold` or `mix`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tps => "tps",
            Self::Requests => "requests",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Hold => "hold",
            Self::Mix => "mix",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// One part of a mix: what it does, how often, and over how many connections.
#[derive(Clone, Debug, PartialEq)]
pub struct MixPart {
    /// What one operation is; not [`Mode::Mix`].
    pub mode: Mode,
    /// Operations started per second; `None` starts each as soon as the one before is done.
    pub rate: Option<f64>,
    /// Connections at work at a time; for [`Mode::Hold`] as many as are held.
    pub connections: usize,
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
    /// Several such names, taken in turn, with sessions kept for each. Default: none, `server_name` alone.
    pub server_names: Vec<String>,
    /// Take any certificate without a look. Default false.
    pub insecure: bool,
    /// PEM bundle of trusted roots. Default: the system's, `/etc/ssl/certs/ca-certificates.crt`.
    pub ca: Option<PathBuf>,
    /// Share of handshakes that shall resume, 0 to 1. Default 0.
    pub hit_rate: f64,
    /// About how many of the latest handshakes that share is over. Default: none, over the whole run, so that
    /// misses are made up for.
    pub hit_rate_over: Option<u64>,
    /// Tickets kept for each name, at least 1. Default: none, four for each connection and 64 to 65 536.
    pub tickets_per_name: Option<usize>,
    /// Share of resumed handshakes whose request is sent as early data, 0 to 1. Default 0.
    pub early_data_rate: f64,
    /// Length of the measured window, after the warm-up; for `hold` the time that connections are
    /// held before memory is taken. Default 5 s.
    pub duration: Duration,
    /// Load before the measured window; tickets are gathered in it. Default 500 ms.
    pub warm_up: Duration,
    /// Operations after which the measured window ends, if it has not before. Default: none.
    pub operations: Option<u64>,
    /// Connections at work at a time, over all threads. Default 16.
    pub connections: usize,
    /// Threads that share the work. Default 1, which is the calling thread.
    pub threads: usize,
    /// Requests at a time on one HTTP/2 connection (`requests`, `download`, `upload`). Default 1.
    pub streams: usize,
    /// Operations per second that are due whether or not earlier ones are done (open loop), with at most
    /// `connections` at a time; their time is counted from when they were due. Default: none, each
    /// connection starts the next operation at once.
    pub rate: Option<f64>,
    /// Processes whose CPU time and memory are taken, with their children.
    pub watch: Vec<u32>,
    /// Console of a Tollgate that is driven, as `HOST:PORT` or `http://HOST:PORT`: its counts are set beside ours.
    pub console: Option<String>,
    /// The one version offered. Default: both.
    pub version: Option<TlsVersion>,
    /// The one suite offered. Default: all.
    pub suite: Option<CipherSuite>,
    /// Suites offered, most wanted first, instead of `suite`. Default: none.
    pub suites: Vec<CipherSuite>,
    /// The one group offered. Default: all, with a key share for X25519MLKEM768 and X25519 alike, as
    /// browsers do; a key share for `x25519` alone is much cheaper to make.
    pub group: Option<NamedGroup>,
    /// Groups offered, most wanted first, instead of `group`. Default: none.
    pub groups: Vec<NamedGroup>,
    /// Signature schemes offered, most wanted first. Default: none, which offers all.
    pub schemes: Vec<SignatureScheme>,
    /// Claim to verify RSA signatures only. Default false.
    pub rsa_only: bool,
    /// Application protocols offered, `http/1.1` or `h2` or both. Default `http/1.1`.
    pub alpn: Vec<String>,
    /// Method of requests. Default `GET`; for `upload` `POST`.
    pub method: String,
    /// Path that is requested. Default `/`; for `download` `/bytes/104857600`.
    pub path: String,
    /// Further fields of the request head, in order. Default: none.
    pub headers: Vec<(String, String)>,
    /// Length of the body of each request, in bytes. Default 0; for `upload` 1 MiB.
    pub body_bytes: u64,
    /// Handshakes alone: `tps` closes without a request. Default false.
    pub no_request: bool,
    /// End connections by a reset, so that no port waits (`SO_LINGER` of 0). Default false.
    pub abort: bool,
    /// Addresses that connections come from, taken in turn. Default: none, the system chooses.
    pub sources: Vec<IpAddr>,
    /// Connections that `hold` opens. Default 1 000.
    pub count: usize,
    /// The parts of a `mix`. Default: none.
    pub mix: Vec<MixPart>,
    /// Also run each part of a `mix` alone first, and compare the sum of their costs with the whole; needs
    /// `watch`. Default false.
    pub apart: bool,
    /// Core that this run keeps to. Default: none.
    pub pin: Option<usize>,
    /// Longest wait for one operation before it counts as failed. Default 10 s.
    pub timeout: Duration,
    /// How long one line of the table over time is. Default 1 s, at least 10 ms.
    pub every: Duration,
}

impl LoadOptions {
    /// A run of `mode` against `target` with every other field at its default.
    pub fn new(mode: Mode, target: impl Into<String>) -> Self {
        Self {
            mode,
            target: target.into(),
            server_name: None,
            server_names: Vec::new(),
            insecure: false,
            ca: None,
            hit_rate: 0.0,
            hit_rate_over: None,
            tickets_per_name: None,
            early_data_rate: 0.0,
            duration: Duration::from_secs(5),
            warm_up: Duration::from_millis(500),
            operations: None,
            connections: 16,
            threads: 1,
            streams: 1,
            rate: None,
            watch: Vec::new(),
            console: None,
            version: None,
            suite: None,
            suites: Vec::new(),
            group: None,
            groups: Vec::new(),
            schemes: Vec::new(),
            rsa_only: false,
            alpn: vec!["http/1.1".into()],
            method: default_method(mode).into(),
            path: default_path(mode).into(),
            headers: Vec::new(),
            body_bytes: default_body_bytes(mode),
            no_request: false,
            abort: false,
            sources: Vec::new(),
            count: 1_000,
            mix: Vec::new(),
            apart: false,
            pin: None,
            timeout: Duration::from_secs(10),
            every: Duration::from_secs(1),
        }
    }

    /// Host and port of the target.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        split(&self.target)
    }

    /// The names that are sent, at least one.
    pub(crate) fn names(&self) -> Vec<String> {
        if !self.server_names.is_empty() {
            return self.server_names.clone();
        }
        let host = self.host_and_port().map(|(host, _)| host.to_owned());
        self.server_name.clone().or(host).into_iter().collect()
    }

    /// The parts of the run: those of the mix, or the one that the run is.
    pub(crate) fn parts(&self) -> Vec<MixPart> {
        match self.mode {
            Mode::Mix => self.mix.clone(),
            Mode::Tps | Mode::Requests | Mode::Download | Mode::Upload | Mode::Hold => {
                vec![MixPart {
                    mode: self.mode,
                    rate: self.rate,
                    connections: self.connections,
                }]
            }
        }
    }

    /// Suites in the order of preference; empty stands for all.
    pub(crate) fn wanted_suites(&self) -> Vec<CipherSuite> {
        match self.suites.is_empty() {
            true => self.suite.into_iter().collect(),
            false => self.suites.clone(),
        }
    }

    /// Groups in the order of preference; empty stands for all.
    pub(crate) fn wanted_groups(&self) -> Vec<NamedGroup> {
        match self.groups.is_empty() {
            true => self.group.into_iter().collect(),
            false => self.groups.clone(),
        }
    }

    /// Whether HTTP/2 may be agreed.
    pub(crate) fn offers_http2(&self) -> bool {
        self.alpn.iter().any(|protocol| protocol == "h2")
    }
}

/// Method of a part when nothing else is asked for.
pub(crate) fn default_method(mode: Mode) -> &'static str {
    match mode {
        Mode::Upload => "POST",
        Mode::Tps | Mode::Requests | Mode::Download | Mode::Hold | Mode::Mix => "GET",
    }
}

/// Path of a part when nothing else is asked for.
pub(crate) fn default_path(mode: Mode) -> &'static str {
    match mode {
        Mode::Download => "/bytes/104857600",
        Mode::Tps | Mode::Requests | Mode::Upload | Mode::Hold | Mode::Mix => "/",
    }
}

/// Body of a part's requests when nothing else is asked for.
pub(crate) fn default_body_bytes(mode: Mode) -> u64 {
    match mode {
        Mode::Upload => 1 << 20,
        Mode::Tps | Mode::Requests | Mode::Download | Mode::Hold | Mode::Mix => 0,
    }
}

/// Host and port of `HOST:PORT`, where an IPv6 address stands in brackets.
pub(crate) fn split(target: &str) -> Option<(&str, u16)> {
    let (host, port) = target.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
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

    #[test]
    fn names_come_from_the_list_then_from_the_name_then_from_the_target() {
        let mut options = LoadOptions::new(Mode::Tps, "shop.example:443");
        assert_eq!(options.names(), ["shop.example"]);
        options.server_name = Some("one.example".into());
        assert_eq!(options.names(), ["one.example"]);
        options.server_names = vec!["a.example".into(), "b.example".into()];
        assert_eq!(options.names(), ["a.example", "b.example"]);
    }

    #[test]
    fn a_run_that_is_no_mix_has_itself_as_its_one_part() {
        let options = LoadOptions::new(Mode::Upload, "shop.example:443");
        let parts = options.parts();
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].mode, parts[0].connections), (Mode::Upload, 16));
    }
}
