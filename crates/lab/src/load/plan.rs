//! What a run is made of, checked and resolved before anything is sent.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_tls::client::ClientOffer;
use tollgate_tls::{BackendTlsPolicy, ClientSite};

use super::error::LoadError;
use super::options::{
    LoadOptions, MixPart, Mode, default_body_bytes, default_method, default_path,
};
use super::request::{Request, Wanted};
use crate::watch::Watched;

const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Files that are open beside the connections.
const OTHER_FILES: u64 = 64;

/// Requests at a time on one HTTP/2 connection; what servers usually allow.
const MOST_STREAMS: usize = 100;

/// A run that can begin.
pub(crate) struct Plan {
    pub(crate) options: LoadOptions,
    pub(crate) address: SocketAddr,
    pub(crate) names: Vec<String>,
    pub(crate) parts: Vec<MixPart>,
    ca: Option<Vec<u8>>,
}

impl Plan {
    /// Checks everything that can be checked without the server, and finds its address.
    pub(crate) async fn new(options: LoadOptions) -> Result<Self, LoadError> {
        check(&options)?;
        let (host, port) = options
            .host_and_port()
            .ok_or_else(|| LoadError::Target(options.target.clone()))?;
        let ca = roots(&options)?;
        let address = resolve(host, port).await?;
        if let Some(other) = options
            .sources
            .iter()
            .find(|source| source.is_ipv4() != address.is_ipv4())
        {
            return Err(LoadError::Source {
                target: address.to_string(),
                source_address: other.to_string(),
            });
        }
        let plan = Self {
            address,
            names: options.names(),
            parts: options.parts(),
            ca,
            options,
        };
        for (part, name) in plan.parts.iter().flat_map(|part| {
            let names = plan.names.iter();
            names.map(move |name| (part, name))
        }) {
            plan.request(part, name)?;
        }
        raise_files(&plan)?;
        Ok(plan)
    }

    /// The server as clients that use this name see it.
    pub(crate) fn site(&self, name: &str, part: &MixPart) -> Result<ClientSite, LoadError> {
        let options = &self.options;
        Ok(ClientSite::offering(ClientOffer {
            policy: BackendTlsPolicy {
                verify: !options.insecure,
                name: name.to_owned(),
                ca: self.ca.clone(),
                certificate: None,
                alpn: options.alpn.clone(),
            },
            version: options.version,
            suites: options.wanted_suites(),
            groups: options.wanted_groups(),
            schemes: match (options.schemes.is_empty(), options.rsa_only) {
                (true, true) => ClientOffer::rsa_only_schemes(),
                _ => options.schemes.clone(),
            },
            early_data: false,
            send_server_name: true,
            sessions: match options.tickets_per_name {
                Some(tickets) => tickets.max(1),
                None => (4 * part.connections).clamp(64, 65_536),
            },
        })?)
    }

    /// What a part asks the server of this name. Parts of a mix have the defaults of their modes where
    /// the mix has its own.
    pub(crate) fn request(&self, part: &MixPart, name: &str) -> Result<Request, LoadError> {
        let options = &self.options;
        let mixed = options.mode == Mode::Mix;
        let bulk = matches!(part.mode, Mode::Download | Mode::Upload);
        let own = mixed && bulk;
        let path = match own && options.path == default_path(Mode::Mix) {
            true => default_path(part.mode),
            false => &options.path,
        };
        let method = match own {
            true => default_method(part.mode),
            false => &options.method,
        };
        let body_bytes = match (mixed, part.mode) {
            (true, Mode::Upload) if options.body_bytes == 0 => default_body_bytes(Mode::Upload),
            (true, Mode::Download | Mode::Hold) => 0,
            _ => options.body_bytes,
        };
        Request::new(&Wanted {
            method,
            path,
            name,
            headers: &options.headers,
            body_bytes,
        })
    }
}

/// What can be checked without looking at the world.
pub(crate) fn check(options: &LoadOptions) -> Result<(), LoadError> {
    let share = |share: f64| (0.0..=1.0).contains(&share);
    if !share(options.hit_rate) {
        return Err(LoadError::HitRate(options.hit_rate));
    }
    if !share(options.early_data_rate) {
        return Err(LoadError::EarlyDataRate(options.early_data_rate));
    }
    let spoken = ["http/1.1", "h2"];
    if let Some(other) = options
        .alpn
        .iter()
        .find(|name| !spoken.contains(&name.as_str()))
    {
        return Err(LoadError::Alpn(other.clone()));
    }
    for (zero, what) in [
        (options.connections == 0, "the number of connections"),
        (options.threads == 0, "the number of threads"),
        (options.streams == 0, "the number of streams"),
        (options.operations == Some(0), "the number of operations"),
        (
            options.every < Duration::from_millis(10),
            "the time between lines",
        ),
    ] {
        if zero {
            return Err(LoadError::Zero(what));
        }
    }
    let parts = options.parts();
    if parts.is_empty() {
        return Err(LoadError::NoParts);
    }
    for part in &parts {
        if part.connections == 0 {
            return Err(LoadError::Zero("the number of connections of a part"));
        }
        if part
            .rate
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            return Err(LoadError::Zero("the rate"));
        }
    }
    together(options)?;
    early_data(options)?;
    match Watched::new(&options.watch).missing() {
        Some(pid) => Err(LoadError::Watch(pid)),
        None => Ok(()),
    }
}

fn together(options: &LoadOptions) -> Result<(), LoadError> {
    let wrong = [
        (
            options.streams > MOST_STREAMS,
            "more than 100 requests at a time on one connection are not possible; use more connections",
        ),
        (
            options.streams > 1 && !options.offers_http2(),
            "HTTP/1.1 has one request at a time; offer HTTP/2 with --alpn h2 for several streams",
        ),
        (
            options.no_request && options.mode != Mode::Tps,
            "a run without requests is a run of handshakes; use the mode tps",
        ),
        (
            options.no_request && options.offers_http2(),
            "HTTP/2 begins with a preface of its own; use --alpn http/1.1 for handshakes alone",
        ),
        (
            options.operations.is_some() && matches!(options.mode, Mode::Hold | Mode::Mix),
            "this mode cannot end by a number of operations; give a duration",
        ),
        (
            options.apart && (options.mode != Mode::Mix || options.watch.is_empty()),
            "parts are compared by the CPU time of the server; give a mix and name its process with --watch",
        ),
        (
            options.threads > options.connections && options.mode != Mode::Mix,
            "there are more threads than connections; each thread needs at least one",
        ),
    ];
    match wrong.into_iter().find(|(found, _)| *found) {
        Some((_, why)) => Err(LoadError::Together(why)),
        None => Ok(()),
    }
}

fn early_data(options: &LoadOptions) -> Result<(), LoadError> {
    if options.early_data_rate == 0.0 {
        return Ok(());
    }
    let without = [
        (options.mode != Mode::Tps, "outside of the mode tps"),
        (options.no_request, "without a request"),
        (
            options.offers_http2(),
            "with HTTP/2 here; use --alpn http/1.1",
        ),
        (
            options.hit_rate == 0.0,
            "without resumption; ask for it with --hit-rate",
        ),
        (
            options.version == Some(tollgate_terms::TlsVersion::Tls12),
            "in TLS 1.2; it needs TLS 1.3",
        ),
    ];
    if let Some((_, why)) = without.into_iter().find(|(found, _)| *found) {
        return Err(LoadError::EarlyDataWithout(why));
    }
    if !["GET", "HEAD", "OPTIONS"].contains(&options.method.as_str()) {
        return Err(LoadError::EarlyDataUnsafe(format!(
            "{} is not",
            options.method
        )));
    }
    match options.body_bytes {
        0 => Ok(()),
        bytes => Err(LoadError::EarlyDataUnsafe(format!(
            "one with a body of {bytes} bytes is not"
        ))),
    }
}

/// Lets this process open as many files as the run needs.
fn raise_files(plan: &Plan) -> Result<(), LoadError> {
    let held = match plan.options.mode {
        Mode::Hold => plan.options.count,
        Mode::Tps | Mode::Requests | Mode::Download | Mode::Upload | Mode::Mix => 0,
    };
    let working: usize = plan.parts.iter().map(|part| part.connections).sum();
    let wanted = (held + working) as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(allowed) = maximum
        && allowed < wanted
    {
        return Err(LoadError::Files { wanted, allowed });
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| LoadError::Files {
        wanted,
        allowed: current.unwrap_or(0),
    })
}

fn roots(options: &LoadOptions) -> Result<Option<Vec<u8>>, LoadError> {
    let path = match (&options.ca, options.insecure) {
        (_, true) => return Ok(None),
        (Some(path), false) => path.as_path(),
        (None, false) => SYSTEM_ROOTS.as_ref(),
    };
    let read = std::fs::read(path).map_err(|error| LoadError::Roots {
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(Some(read))
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, LoadError> {
    let failed = |reason: String| LoadError::Resolve {
        host: host.to_owned(),
        reason,
    };
    tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| failed(error.to_string()))?
        .next()
        .ok_or_else(|| failed("the name has none".into()))
}

/// Keeps the calling thread, and those that it starts, to one core.
pub(crate) fn pin(core: usize) -> Result<(), LoadError> {
    let failed = |reason: String| LoadError::Pin { core, reason };
    let mut cores = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(failed("there is no such core".into()));
    }
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).map_err(|error| failed(error.to_string()))
}
