//! The typed configuration: what `tls.yaml` says, checked, with every default filled in.
//!
//! Fields are public and plain: a value of these types has been checked at the door (`read`).
//! `Spanned` marks what only another room can check (a key that must fit a certificate, an address
//! that must be free), so that its findings point into the file as well.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tollgate_terms::{CipherSuite, NamedGroup, ServerName, TlsVersion};

/// A value with its place in the configuration text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Byte range in the text.
    pub span: Span,
}

/// A byte range in the configuration text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// The whole of `tls.yaml`.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listeners:`, at least one.
    pub listeners: Vec<Listener>,
    /// `sites:`, at least one.
    pub sites: Vec<Site>,
    /// `resumption:`
    pub resumption: Resumption,
    /// `ledger:` whether the CPU of each phase is counted while serving. Default on.
    pub ledger: bool,
    /// `console:` page and metrics; `None` when `console: off`. Default: `127.0.0.1:9180` without a token.
    pub console: Option<Console>,
    /// `alarms:`
    pub alarms: Alarms,
    /// `control:` path of the unix socket that `tollgate reload` speaks to. Default:
    /// `/run/tollgate/control.sock` for root, else `$XDG_RUNTIME_DIR/tollgate/control.sock`,
    /// else `/tmp/tollgate-<uid>/control.sock`; `None` when `control: off`.
    pub control: Option<Spanned<PathBuf>>,
    /// `log:`
    pub log: AccessLog,
    /// `workers:`
    pub workers: Workers,
    /// `limits:`
    pub limits: Limits,
    /// `timeouts:`
    pub timeouts: Timeouts,
}

/// One entry of `listeners:`.
#[derive(Clone, Debug)]
pub struct Listener {
    /// `address:` `"0.0.0.0:443"`, `"[::]:443"`, `"unix:/run/x.sock"` or `"unix:@abstract"`.
    pub address: Spanned<ListenAddress>,
    /// `mode:` for sites that name none. Default `http`.
    pub mode: Mode,
    /// `proxy_protocol:` addresses that may send (and then must send) a PROXY header, such as
    /// `["10.0.0.0/8"]`; the word `unix` trusts every peer of a unix-socket listener. Default: nobody.
    pub proxy_protocol: Option<TrustedPeers>,
    /// `socket_mode:`, `socket_owner:`, `socket_group:` for a unix listener.
    pub socket: SocketFile,
}

/// Who may speak for another address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedPeers {
    /// Networks that are trusted.
    pub networks: Vec<IpNet>,
    /// Whether peers on a unix socket are trusted.
    pub unix: bool,
}

impl TrustedPeers {
    /// Whether `peer` is trusted; `None` stands for a peer on a unix socket.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            None => self.unix,
            Some(address) => {
                let address = address.to_canonical();
                self.networks
                    .iter()
                    .any(|network| network.contains(&address))
            }
        }
    }
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A unix socket in the file system.
    UnixPath(PathBuf),
    /// A unix socket in the abstract namespace, without the leading NUL.
    UnixAbstract(String),
}

/// Permissions of a unix socket file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketFile {
    /// Permission bits, octal in the file (`"0660"`). Default: what the umask leaves.
    pub mode: Option<u32>,
    /// User name or number that shall own the file.
    pub owner: Option<Spanned<String>>,
    /// Group name or number that shall own the file.
    pub group: Option<Spanned<String>>,
}

/// What happens with the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// TLS ends here, HTTP is understood.
    Http,
    /// TLS ends here, the bytes inside are relayed.
    Tcp,
    /// TLS does not end here; the connection is relayed by its `server_name`.
    Passthrough,
}

/// One entry of `sites:`.
#[derive(Clone, Debug)]
pub struct Site {
    /// `names:` exact names and wildcards (`*.shop.example`); empty only for the default site.
    pub names: Vec<Spanned<SiteName>>,
    /// `default: true` takes clients without `server_name` and with a name of no site. When no site
    /// says so, the first site takes clients without `server_name`, and an unknown name is refused
    /// with the `unrecognized_name` alert.
    pub default: bool,
    /// `mode:`; absent: the listener's.
    pub mode: Option<Mode>,
    /// `certificates:`, in order of preference within one kind; empty only for `passthrough`.
    pub certificates: Vec<CertificateFiles>,
    /// `client_certificates:`
    pub client_certificates: ClientCertificates,
    /// `tls:`
    pub tls: TlsPolicy,
    /// `alpn:` offered to clients. Default: `["h2", "http/1.1"]` in http mode, none in tcp mode.
    pub alpn: Vec<String>,
    /// `backends:`, at least one.
    pub backends: Vec<Backend>,
    /// `balance:` Default `round_robin`.
    pub balance: Balance,
    /// `health:` active checks; absent: passive only.
    pub health: Option<HealthCheck>,
    /// `passive_health:`
    pub passive_health: PassiveHealth,
    /// `retries:` how many further backends are tried for a request that is safe to repeat. Default 1, 0 to 5.
    pub retries: u32,
    /// `forwarded:`
    pub forwarded: Forwarded,
    /// Place of the entry, for findings about the whole site.
    pub span: Span,
}

/// A name that a site answers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteName {
    /// Exactly this name.
    Exact(ServerName),
    /// `*.parent`: one label before this parent, as certificates mean it.
    Wildcard(ServerName),
}

/// One entry of a site's `certificates:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// `chain:` PEM, end-entity first. With `combined:` the one file that holds key and chain.
    pub chain: Spanned<PathBuf>,
    /// `key:` PEM, unencrypted. The same path as `chain` for `combined:`.
    pub key: Spanned<PathBuf>,
}

/// A site's `client_certificates:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not asked for.
    Off,
    /// Asked for; a client without one is served.
    Optional(ClientTrust),
    /// Asked for; a client without one is refused.
    Required(ClientTrust),
}

/// What a client certificate is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTrust {
    /// `ca:` PEM bundle.
    pub ca: Spanned<PathBuf>,
    /// `crls:` PEM or DER files; a certificate that no list covers is accepted.
    pub crls: Vec<Spanned<PathBuf>>,
}

/// A site's `tls:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPolicy {
    /// `min_version:` `"1.2"` (default) or `"1.3"`.
    pub min_version: TlsVersion,
    /// `groups:` in order of preference. Default X25519MLKEM768, x25519, secp256r1, secp384r1.
    pub groups: Vec<NamedGroup>,
    /// `suites:` in order of preference. Default: TLS_AES_128_GCM_SHA256 first, then AES-256, then
    /// ChaCha20, for TLS 1.3 and likewise for 1.2. A client that lists ChaCha20 first gets it first.
    pub suites: Vec<CipherSuite>,
}

/// One entry of a site's `backends:`: a text (`"http://10.0.0.5:8080"`, `"h2c://127.0.0.1:8081"`,
/// `"https://app:8443"`, `"tcp://10.0.0.5:5432"`, `"tls://10.0.0.5:5432"`, `"10.0.0.5:8080"`,
/// `"unix:/run/shop.sock"`, `"unix:@shop"`) or a mapping with `address:` and the fields below.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Where it listens.
    pub address: Spanned<BackendAddress>,
    /// What is spoken to it. `unix:` and a bare address mean HTTP/1.1 in http mode and bytes in tcp mode.
    pub protocol: BackendProtocol,
    /// TLS towards the backend (`https://`, `tls://`, or `tls:` in the mapping).
    pub tls: Option<BackendTls>,
    /// `weight:` 1 (default) to 256.
    pub weight: u32,
    /// `proxy_protocol:` `v1` or `v2`; absent: none.
    pub proxy_protocol: Option<ProxyVersion>,
    /// `max_idle:` pooled idle connections kept per worker, http mode. Default 64.
    pub max_idle: usize,
}

/// Where a backend listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A host name and port, resolved when the configuration is loaded and again every 30 s.
    Host(String, u16),
    /// A unix socket in the file system.
    UnixPath(PathBuf),
    /// A unix socket in the abstract namespace, without the leading NUL.
    UnixAbstract(String),
}

/// What is spoken to a backend, inside TLS if there is TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendProtocol {
    /// Whatever the client sends (tcp mode).
    Bytes,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A backend's `tls:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// `verify:` Default true. False is for a test bench only, and `check` says so.
    pub verify: bool,
    /// `name:` that the certificate must carry and that is sent as `server_name`. Default: the host of the address.
    pub name: Option<ServerName>,
    /// `ca:` PEM bundle; must be given when `verify` is true.
    pub ca: Option<Spanned<PathBuf>>,
    /// `certificate:` chain and key that Tollgate shows to the backend.
    pub certificate: Option<CertificateFiles>,
}

/// Version of the PROXY header sent to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyVersion {
    /// The text line.
    V1,
    /// The binary header, with TLVs for ALPN, authority, TLS version, suite and client certificate.
    V2,
}

/// How a site chooses among its backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Balance {
    /// Weighted round robin.
    RoundRobin,
    /// Fewest open requests or connections per weight.
    LeastConnections,
}

/// A site's `health:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `path:` for an HTTP check that wants a 2xx or 3xx; absent: a connection is enough.
    pub path: Option<String>,
    /// `interval:` Default 2 s.
    pub interval: Duration,
    /// `timeout:` Default 1 s.
    pub timeout: Duration,
    /// `rise:` successes until it is up again. Default 2.
    pub rise: u32,
    /// `fall:` failures until it is down. Default 3.
    pub fall: u32,
}

/// A site's `passive_health:`: what live traffic says about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveHealth {
    /// `failures:` in a row until the backend is left alone. Default 3; 0 turns it off.
    pub failures: u32,
    /// `cooldown:` how long it is left alone before one try. Default 5 s.
    pub cooldown: Duration,
}

/// A site's `forwarded:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// `trust:` peers whose own `Forwarded` and `X-Forwarded-*` are kept and added to. Default: nobody.
    pub trust: TrustedPeers,
    /// `headers:` which are sent: `x-forwarded` (default), `forwarded`, `both` or `none`.
    pub headers: ForwardedHeaders,
}

/// Which forwarding headers are sent to backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardedHeaders {
    /// `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`.
    XForwarded,
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// Both.
    Both,
    /// Neither; those of clients are dropped all the same.
    None,
}

/// `resumption:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// `tickets:` self-contained tickets for TLS 1.2 and 1.3. Default true; false keeps state in the
    /// session cache for both versions.
    pub tickets: bool,
    /// `lifetime:` of a session or ticket. Default 6 h, at most 7 days (RFC 8446, section 4.6.1).
    pub lifetime: Duration,
    /// `ticket_keys: issue:` how long a key issues. Default 24 h.
    pub key_issue: Duration,
    /// `ticket_keys: accept:` how much longer it accepts. Default 6 h.
    pub key_accept: Duration,
    /// `session_cache: entries:` of the TLS 1.2 session cache, 0 turns it off. Default 20 000.
    pub session_cache_entries: usize,
}

/// `log:`
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// `access:` `stdout`, `off` (default) or a path.
    pub target: LogTarget,
    /// `format:` `json` (default) or `logfmt`.
    pub format: LogFormat,
    /// `sample:` share of lines written, 0 to 1. Default 1. Lines about errors are always written.
    pub sample: f64,
}

/// Where access log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// A file, appended to, reopened at each reload.
    File(Spanned<PathBuf>),
}

/// Shape of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// `key=value` pairs.
    Logfmt,
}

/// `workers:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// `count:` Default: one per core that this process may use.
    pub count: Option<usize>,
    /// `pin:` each worker to a core of its own. Default false.
    pub pin: bool,
    /// `accept:` `reuseport` (default: a listening socket per worker) or `dispatch` (one worker accepts
    /// and hands connections round).
    pub accept: AcceptMode,
}

/// How connections reach workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptMode {
    /// A listening socket per worker; the kernel spreads connections by hash.
    ReusePort,
    /// The first worker accepts and deals connections out in turn.
    Dispatch,
}

/// `console:`, an address or a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// `address:` Default `127.0.0.1:9180`. Not loopback only with a token or a client authority.
    pub address: Spanned<SocketAddr>,
    /// `token_file:` a file with the token that a visitor must show, 16 characters or more.
    pub token_file: Option<Spanned<PathBuf>>,
    /// `certificate:` the console speaks TLS with it; absent: plain HTTP.
    pub certificate: Option<CertificateFiles>,
    /// `client_ca:` PEM bundle; a visitor must show a certificate that it signed. Needs `certificate`.
    pub client_ca: Option<Spanned<PathBuf>>,
}

/// `alarms:` from where on each fires; `None` or false for one that is `off`.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarms {
    /// `hit_rate_below:` resumed over all handshakes, 0.01 to 1. Default 0.7.
    pub hit_rate_below: Option<f64>,
    /// `fresh_per_second_above:` full handshakes per second of this instance, 1 to 10 000 000. Default 5000.
    pub fresh_per_second_above: Option<f64>,
    /// `fresh_per_second_per_core_above:` the same over the cores there are, 1 to 1 000 000. Default off.
    pub fresh_per_second_per_core_above: Option<f64>,
    /// `tls_cpu_above:` CPU of phases 1 to 3 over the cores there are, 0.01 to 1. Default 0.25.
    pub tls_cpu_above: Option<f64>,
    /// `cold_cache:` whether the cores needed at 0 % hits are set against the cores there are. Default on.
    pub cold_cache: bool,
    /// `requests_per_handshake_fall:` how many times fewer than five minutes ago, 1.5 to 1000. Default 5.
    pub requests_per_handshake_fall: Option<f64>,
    /// `certificate_expires_within:` 1 h to 365 days. Default 14 days.
    pub certificate_expires_within: Option<Duration>,
    /// `certificate_dearer:` whether a reload onto a dearer kind of certificate raises an alarm. Default on.
    pub certificate_dearer: bool,
    /// `unknown_keys_above:` handshakes with a ticket of an unknown key, over all, 0.0001 to 1. Default 0.01.
    pub unknown_keys_above: Option<f64>,
    /// `worker_imbalance_above:` connections of the busiest worker over the mean, 1.05 to 1024. Default 1.2.
    pub worker_imbalance_above: Option<f64>,
    /// `hold:` how long a condition must hold, and must be gone, before an alarm changes; 1 s to 1 h. Default 30 s.
    pub hold: Duration,
    /// `webhook:` told of every alarm that fires or goes quiet. Default: nobody.
    pub webhook: Option<Webhook>,
}

/// `alarms: webhook:`, a URL or a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Place of `url:`, for findings.
    pub span: Span,
    /// Whether the URL starts with `https://`.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port; 80 or 443 when the URL has none.
    pub port: u16,
    /// Path and query, starting with `/`. May hold a secret of the receiver.
    pub path: String,
    /// `ca:` PEM bundle that the receiver's certificate is checked against. Default for `https://`:
    /// `/etc/ssl/certs/ca-certificates.crt`; `None` for `http://`.
    pub ca: Option<Spanned<PathBuf>>,
}

/// `limits:` everything that a client can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `connections:` open at a time, all listeners. Default 100 000.
    pub connections: usize,
    /// `connections_per_client:` address. Default 0: no limit.
    pub connections_per_client: usize,
    /// `handshakes:` in flight at a time. Default 10 000.
    pub handshakes: usize,
    /// `header_bytes:` of one request head. Default 32 768.
    pub header_bytes: usize,
    /// `header_count:` Default 100.
    pub header_count: usize,
    /// `http2_streams:` open per connection. Default 128.
    pub http2_streams: u32,
    /// `http2_resets:` streams that a client may reset while they are unanswered. Default 20.
    pub http2_resets: usize,
    /// `body_bytes:` of one request, 0 for no limit (default).
    pub body_bytes: u64,
}

/// `timeouts:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// `handshake:` from accept to the end of the handshake. Default 10 s.
    pub handshake: Duration,
    /// `header:` for a whole request head. Default 10 s.
    pub header: Duration,
    /// `idle:` without a request (http) or without a byte (tcp). Default 75 s in http mode; tcp mode uses `tcp_idle`.
    pub idle: Duration,
    /// `tcp_idle:` without a byte either way. Default 1 h.
    pub tcp_idle: Duration,
    /// `stall:` how long a client that is awaited may stay under `min_rate`. Default 20 s.
    pub stall: Duration,
    /// `min_rate:` bytes per second that an awaited client must send or take. Default 240.
    pub min_rate: u64,
    /// `connect:` to a backend. Default 2 s.
    pub connect: Duration,
    /// `response:` from the end of the request to the head of the response. Default 60 s.
    pub response: Duration,
    /// `drain:` how long running connections may take to end after SIGTERM or an upgrade. Default 30 s.
    pub drain: Duration,
}
