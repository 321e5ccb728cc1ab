//! The configuration made ready to serve: certificates read, names indexed, backends prepared.
//!
//! Built whole or not at all; a reload builds a second one beside the first and swaps.
//! `check` builds one too and throws it away, so that it sees all that `serve` would.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tollgate_config::{
    Backend, BackendAddress, BackendProtocol, Config, Finding, Limits, ListenAddress, Mode,
    ProxyVersion, Site, SiteName, Timeouts, TrustedPeers,
};
use tollgate_terms::{CertificateKind, ServerName, UnixTime};
use tollgate_tls::client::ClientSite;
use tollgate_tls::{Certificate, ServerSite, SitePolicy};

use crate::listen::address_name;
use crate::sources::{Loaded, Sources};

/// Everything that a connection needs to know, immutable.
pub struct Live {
    /// Sites in the order of the file.
    pub sites: Vec<Arc<LiveSite>>,
    /// Listeners in the order of the file.
    pub listeners: Vec<LiveListener>,
    /// `limits:`
    pub limits: Limits,
    /// `timeouts:`
    pub timeouts: Timeouts,
    /// Share of access log lines that are written, 0 to 1.
    pub log_sample: f64,
    /// `ledger:` whether CPU, records and memory of TLS are counted.
    pub ledger: bool,
    /// Short fingerprint of the configuration text.
    pub hash: String,
    names: HashMap<Box<str>, usize>,
    wildcards: HashMap<Box<str>, usize>,
    catch_all: Option<usize>,
}

/// A listener as connections see it.
#[derive(Debug)]
pub struct LiveListener {
    /// Address as the file spells it; the label in metrics and logs.
    pub label: Arc<str>,
    /// The address itself.
    pub address: ListenAddress,
    /// Mode of sites that name none.
    pub mode: Mode,
    /// Who must send a PROXY header.
    pub proxy_protocol: Option<TrustedPeers>,
}

/// A site as connections see it.
pub struct LiveSite {
    /// First name, or `default`; the label in metrics and logs.
    pub label: Arc<str>,
    /// What the file says, for policies that need no preparation.
    pub config: Site,
    /// TLS offering the configured ALPN protocols; `None` for a passthrough site.
    pub http: Option<ServerSite>,
    /// TLS for tcp mode.
    pub tcp: Option<ServerSite>,
    /// Backends in the order of the file.
    pub backends: Vec<LiveBackend>,
    /// What is known of each certificate, for the console.
    pub certificates: Vec<CertificateSummary>,
}

/// What the console shows of one certificate.
#[derive(Clone, Debug)]
pub struct CertificateSummary {
    /// Kind of its key.
    pub kind: CertificateKind,
    /// When it ends.
    pub not_after: UnixTime,
    /// The certificate with its key, to find out what a signature costs.
    pub certificate: Arc<Certificate>,
}

/// A backend as connections see it.
pub struct LiveBackend {
    /// Address as a person would write it; the label in metrics and logs.
    pub label: Arc<str>,
    /// Equal for backends whose connections are interchangeable; pools survive a reload by it.
    pub key: u64,
    /// Where it is.
    pub target: Arc<Target>,
    /// What is spoken inside TLS, if there is TLS.
    pub protocol: BackendProtocol,
    /// TLS towards it.
    pub tls: Option<Arc<ClientSite>>,
    /// PROXY header sent to it.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Share of the traffic.
    pub weight: u32,
    /// Idle connections kept per worker.
    pub max_idle: usize,
    /// What active checks have found; true without any.
    pub checked_up: AtomicBool,
}

/// Where a backend is, its host name looked up again from time to time.
#[derive(Debug)]
pub struct Target {
    /// As configured.
    pub address: BackendAddress,
    /// Addresses of a host name, in the resolver's order; empty until looked up, unused otherwise.
    pub resolved: ArcSwap<Vec<SocketAddr>>,
}

/// Which site a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A site that carries the name, or takes every name.
    Site(usize),
    /// No site does.
    Nobody,
}

impl Live {
    /// Reads every file that the configuration names and prepares all of it.
    ///
    /// # Errors
    /// Every finding at once when one of them is an error; warnings come back in either case.
    pub fn build(config: &Config, sources: &Sources, hash: String) -> Loaded<Self> {
        let mut findings = Vec::new();
        let mut sites = Vec::new();
        for site in &config.sites {
            let built = LiveSite::build(site, config, sources, &mut findings);
            sites.extend(built.map(Arc::new));
        }
        if sites.len() != config.sites.len() {
            return Loaded::Refused(findings);
        }
        let (names, wildcards, catch_all) = index(&config.sites);
        let listeners = config
            .listeners
            .iter()
            .map(|listener| LiveListener {
                label: address_name(&listener.address.value).into(),
                address: listener.address.value.clone(),
                mode: listener.mode,
                proxy_protocol: listener.proxy_protocol.clone(),
            })
            .collect();
        let live = Self {
            sites,
            listeners,
            limits: config.limits,
            timeouts: config.timeouts,
            log_sample: config.log.sample,
            ledger: config.ledger,
            hash,
            names,
            wildcards,
            catch_all,
        };
        Loaded::Ready(live, findings)
    }

    /// The site for a name: exact first, then wildcard, then the one marked default.
    pub fn find(&self, name: &ServerName) -> Found {
        let exact = self.names.get(name.as_str());
        let wildcard = || name.parent().and_then(|parent| self.wildcards.get(parent));
        exact
            .or_else(wildcard)
            .copied()
            .or(self.catch_all)
            .map_or(Found::Nobody, Found::Site)
    }

    /// The site for a client that sent no name: the default, else the first.
    pub fn nameless(&self) -> usize {
        self.catch_all.unwrap_or(0)
    }

    /// Whether a site answers to whatever name a client uses.
    pub fn takes_every_name(&self, site: Option<usize>) -> bool {
        site.is_some() && self.catch_all == site
    }

    /// Takes over the addresses that host names stood for before, until they are looked up again.
    pub fn inherit_addresses(&self, before: &Self) {
        for target in self.hosts() {
            if let Some(known) = before.hosts().find(|known| known.address == target.address) {
                target.resolved.store(known.resolved.load_full());
            }
        }
    }

    /// Takes over what active checks found out about backends that stay.
    pub(crate) fn inherit_checks(&self, before: &Self) {
        for site in self
            .sites
            .iter()
            .filter(|site| site.config.health.is_some())
        {
            let Some(known) = before.sites.iter().find(|known| known.label == site.label) else {
                continue;
            };
            for backend in &site.backends {
                let mut known = known.backends.iter();
                if let Some(known) = known.find(|known| known.label == backend.label) {
                    let up = known.checked_up.load(Ordering::Relaxed);
                    backend.checked_up.store(up, Ordering::Relaxed);
                }
            }
        }
    }

    /// Backends that are named by host, to be looked up.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.sites
            .iter()
            .flat_map(|site| &site.backends)
            .map(|backend| &backend.target)
            .filter(|target| matches!(target.address, BackendAddress::Host(..)))
    }
}

type NameIndex = (
    HashMap<Box<str>, usize>,
    HashMap<Box<str>, usize>,
    Option<usize>,
);

fn index(sites: &[Site]) -> NameIndex {
    let (mut names, mut wildcards) = (HashMap::new(), HashMap::new());
    for (number, site) in sites.iter().enumerate() {
        for name in &site.names {
            match &name.value {
                SiteName::Exact(name) => names.insert(name.as_str().into(), number),
                SiteName::Wildcard(parent) => wildcards.insert(parent.as_str().into(), number),
            };
        }
    }
    (names, wildcards, sites.iter().position(|site| site.default))
}

impl LiveSite {
    fn build(
        site: &Site,
        config: &Config,
        sources: &Sources,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let certificates = sources.certificates(site, findings);
        let client = sources.client_policy(&site.client_certificates, findings);
        let backends: Vec<LiveBackend> = site
            .backends
            .iter()
            .filter_map(|backend| LiveBackend::build(backend, site, sources, findings))
            .collect();
        if let Some(finding) = mixed_protocols(site, &backends) {
            findings.push(finding);
            return None;
        }
        let (certificates, client) = (certificates?, client?);
        if backends.len() != site.backends.len() {
            return None;
        }
        let summaries = certificates
            .iter()
            .map(|certificate| CertificateSummary {
                kind: certificate.kind(),
                not_after: certificate.not_after(),
                certificate: Arc::clone(certificate),
            })
            .collect();
        let policy = SitePolicy {
            id: site_id(site),
            certificates,
            client,
            min_version: site.tls.min_version,
            groups: site.tls.groups.clone(),
            suites: site.tls.suites.clone(),
            alpn: site.alpn.clone(),
        };
        let mut server = |mode: Mode| {
            let served = config
                .listeners
                .iter()
                .any(|listener| site.mode.unwrap_or(listener.mode) == mode);
            if !served {
                return Some(None);
            }
            let mut policy = policy.clone();
            if mode == Mode::Tcp && site.mode.is_none() && policy.alpn == ["h2", "http/1.1"] {
                // The list is the http default here: bytes are relayed to a backend that never saw it.
                policy.alpn.clear();
            }
            match ServerSite::new(policy, Arc::clone(&sources.resumption)) {
                Ok(server) => Some(Some(server)),
                Err(error) => {
                    findings.push(Finding::error(Some(site.span), error.to_string()));
                    None
                }
            }
        };
        let (http, tcp) = (server(Mode::Http)?, server(Mode::Tcp)?);
        Some(Self {
            label: site_label(site).into(),
            config: site.clone(),
            http,
            tcp,
            backends,
            certificates: summaries,
        })
    }
}

/// A request is made fit for its backend before that one is chosen, so all must speak alike.
fn mixed_protocols(site: &Site, backends: &[LiveBackend]) -> Option<Finding> {
    let http2 = backends
        .iter()
        .filter(|backend| backend.protocol == BackendProtocol::Http2)
        .count();
    (http2 > 0 && http2 < backends.len()).then(|| {
        let title = "some backends of this site speak HTTP/2 and some HTTP/1.1; a request must fit any of them".to_owned();
        Finding::error(Some(site.span), title)
            .help("use one scheme for all of them, or make two sites")
    })
}

/// The first name of a site as the file spells it, or `default`.
pub fn site_label(site: &Site) -> String {
    match site.names.first().map(|name| &name.value) {
        None => "default".to_owned(),
        Some(SiteName::Exact(name)) => name.to_string(),
        Some(SiteName::Wildcard(parent)) => format!("*.{parent}"),
    }
}

/// Sessions are bound to this: the names of the site, in any order.
/// What stands for a site in tickets: the same after a reload, another for every other site.
pub fn site_id(site: &Site) -> u64 {
    let mut names: Vec<String> = site
        .names
        .iter()
        .map(|name| format!("{:?}", name.value))
        .collect();
    names.sort();
    stable_hash(&names)
}

/// A hash that is equal in every process that runs this build.
fn stable_hash(value: &impl Hash) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut hasher);
    hasher.finish()
}

impl LiveBackend {
    fn build(
        backend: &Backend,
        site: &Site,
        sources: &Sources,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let tls = match &backend.tls {
            None => None,
            Some(_) => Some(Arc::new(sources.backend_tls(backend, site, findings)?)),
        };
        let target = Arc::new(Target {
            address: backend.address.value.clone(),
            resolved: ArcSwap::from_pointee(Vec::new()),
        });
        let key = stable_hash(&format!(
            "{:?} {:?} {:?} {:?}",
            backend.address.value,
            backend.protocol,
            backend.proxy_protocol,
            backend
                .tls
                .as_ref()
                .map(|tls| (tls.verify, &tls.name, sources.generation(tls)))
        ));
        Some(Self {
            label: backend_label(backend).into(),
            key,
            target,
            protocol: backend.protocol,
            tls,
            proxy_protocol: backend.proxy_protocol,
            weight: backend.weight,
            max_idle: backend.max_idle,
            checked_up: AtomicBool::new(true),
        })
    }
}

/// A backend as a person would write it.
pub fn backend_label(backend: &Backend) -> String {
    let place = match &backend.address.value {
        BackendAddress::Ip(address) => address.to_string(),
        BackendAddress::Host(host, port) => format!("{host}:{port}"),
        BackendAddress::UnixPath(path) => return format!("unix:{}", path.display()),
        BackendAddress::UnixAbstract(name) => return format!("unix:@{name}"),
    };
    let scheme = match (backend.protocol, backend.tls.is_some()) {
        (BackendProtocol::Bytes, false) => "tcp",
        (BackendProtocol::Bytes, true) => "tls",
        (BackendProtocol::Http1, false) => "http",
        (BackendProtocol::Http1, true) => "https",
        (BackendProtocol::Http2, false) => "h2c",
        (BackendProtocol::Http2, true) => "h2",
    };
    format!("{scheme}://{place}")
}

/// Whether a text is an IP address, with or without the brackets of a URL.
pub fn is_ip_literal(host: &str) -> bool {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>()
        .is_ok()
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
