//! What `probe` takes, and what it means.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate_lab::probe::{
    EarlyData, Endpoint, MOST_EARLY_BYTES, ProbeError, ProbeOptions, Profile, ProxyHeader, Request,
    StartTls, Target,
};
use tollgate_terms::TlsVersion;

use crate::load::words::duration;

const AFTER_HELP: &str = "\
Examples:
  tollgate probe shop.example --get /            full and resumed, early data where it is allowed
  tollgate probe shop.example --diagnose         everything at once, and what to change
  tollgate probe mail.example --starttls smtp    behind a plaintext dialogue
  tollgate probe 192.0.2.1 --server-name shop.example --expect resumed

Exit codes: 0 fine, 1 findings or an expectation missed, 2 wrong input, 3 no connection.";

/// What `probe` takes.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ProbeArguments {
    /// Server to probe: HOST, HOST:PORT, an address, or [IPV6]:PORT.
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "verbose")]
    target: Option<String>,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    offer: Offer,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    pub(super) how_often: HowOften,
    #[command(flatten)]
    pub(super) looks: Looks,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The way to the server")]
struct Way {
    /// Port, when the target names none [default: 443, or that of --starttls].
    #[arg(long, short = 'p', value_name = "PORT")]
    port: Option<u16>,
    /// Connect to this address instead of resolving the target; may be repeated for --fleet.
    #[arg(long, value_name = "IP:PORT")]
    endpoint: Vec<String>,
    /// Connect to this unix socket; @NAME for an abstract one.
    #[arg(long, value_name = "PATH", conflicts_with = "endpoint")]
    unix: Option<PathBuf>,
    /// Name to send and to check the certificate for [default: the target's host].
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Send a PROXY header first.
    #[arg(long, value_name = "VERSION", value_enum)]
    proxy_header: Option<ProxyVersion>,
    /// Begin in plaintext and turn to TLS: smtp, imap, pop3 or postgres.
    #[arg(long, value_name = "PROTOCOL", value_parser = start_tls)]
    starttls: Option<StartTls>,
    /// Longest wait for each step: connecting, the handshake, the request.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the client offers")]
struct Offer {
    /// Offer TLS 1.2 only.
    #[arg(long)]
    tls12: bool,
    /// Offer TLS 1.3 only.
    #[arg(long)]
    tls13: bool,
    /// Application protocols, most wanted first, such as h2,http/1.1.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    alpn: Option<Vec<String>>,
    /// Offer what another client offers, such as android-old; a wrong name lists them.
    #[arg(long = "as", value_name = "PROFILE", value_parser = profile, long_help = profiles())]
    profile: Option<&'static Profile>,
    /// Take any certificate.
    #[arg(long, visible_alias = "noverify")]
    insecure: bool,
    /// PEM file of trusted roots [default: the system's].
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM chain to show to a server that asks for a client certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM key of that chain.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked")]
struct Ask {
    /// Request this path; as early data where a ticket allows it.
    #[arg(long, value_name = "PATH", visible_alias = "http-get")]
    get: Option<String>,
    /// Post nothing to this path; never as early data.
    #[arg(
        long,
        value_name = "PATH",
        visible_alias = "http-post",
        conflicts_with = "get"
    )]
    post: Option<String>,
    /// Send no early data.
    #[arg(
        long,
        visible_alias = "disable-early-data",
        conflicts_with = "early_data"
    )]
    no_early_data: bool,
    /// Send the bytes of this file, as early data where a ticket allows it; they must begin with a safe method.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["get", "post"])]
    early_data: Option<PathBuf>,
    /// Print what the server answers behind the first line, up to 1 MB.
    #[arg(long)]
    contents: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How often")]
pub(super) struct HowOften {
    /// Connections that try to resume, after the initial one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) resumptions: usize,
    /// Do all of it N times and print percentiles, full and resumed apart.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) repeat: Option<u32>,
    /// How long a connection without a ticket waits for one.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    ticket_wait: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Other looks")]
pub(super) struct Looks {
    /// Make the way longer by so much, there and back, and count round trips of each kind of handshake.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["fleet", "diagnose"])]
    pub(super) rtt: Option<Duration>,
    /// Show the tickets of each address of the name to each other: which nodes share ticket keys.
    #[arg(long, conflicts_with = "diagnose")]
    pub(super) fleet: bool,
    /// Try everything at once and say in plain words what to change, cheapest first.
    #[arg(long)]
    pub(super) diagnose: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// List the certificates of the chain with what they weigh.
    #[arg(long)]
    pub(super) chain: bool,
    /// One JSON object per line.
    #[arg(long)]
    pub(super) json: bool,
    /// Print as another tool does.
    #[arg(long, value_enum, value_name = "TOOL")]
    pub(super) compat: Option<Compatible>,
    /// Exit with 1 unless this came true; may be repeated.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(super) expect: Vec<Expected>,
    /// Say more: the chain, and each connection of --repeat.
    #[arg(short, long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    verbose: Option<String>,
}

/// Tools whose output is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Compatible {
    /// <https://github.com/ThomasHabets/tlshake>
    Tlshake,
}

/// What may be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Expected {
    /// Every connection but the initial one resumes.
    Resumed,
    /// Every connection but the initial one sends early data that is accepted.
    EarlyData,
    /// Every connection speaks TLS 1.3.
    #[value(name = "tls13")]
    Tls13,
}

impl Expected {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Resumed => "resumed",
            Self::EarlyData => "with accepted early data",
            Self::Tls13 => "TLS 1.3",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

fn start_tls(text: &str) -> Result<StartTls, String> {
    StartTls::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = StartTls::ALL.iter().map(|kind| kind.name()).collect();
        format!("{text:?} is not known; there are {}", names.join(", "))
    })
}

fn profiles() -> String {
    let lines = Profile::ALL
        .iter()
        .map(|profile| format!("\n  {:<18} {}", profile.name, profile.about));
    format!(
        "Offer what another client offers:{}",
        lines.collect::<String>()
    )
}

fn profile(text: &str) -> Result<&'static Profile, String> {
    Profile::by_name(text).ok_or_else(|| {
        let lines = Profile::ALL
            .iter()
            .map(|profile| format!("\n  {:<18} {}", profile.name, profile.about));
        format!(
            "{text:?} is no profile; there are:{}",
            lines.collect::<String>()
        )
    })
}

fn is_number(word: &str) -> bool {
    word.parse::<u8>().is_ok()
}

impl Output {
    /// Whether more is to be said.
    pub(super) fn is_verbose(&self) -> bool {
        self.verbose.as_deref().is_some_and(|level| level != "0")
    }
}

impl ProbeArguments {
    /// The question in the words of the laboratory.
    ///
    /// # Errors
    /// When it makes no sense, or a file cannot be read.
    pub(super) fn options(&self) -> Result<ProbeOptions, ProbeError> {
        Ok(ProbeOptions {
            port: self.way.port,
            server_name: self.way.server_name.clone(),
            endpoints: self.endpoints()?,
            version: match (self.offer.tls12, self.offer.tls13) {
                (true, false) => Some(TlsVersion::Tls12),
                (false, true) => Some(TlsVersion::Tls13),
                (false, false) | (true, true) => None,
            },
            alpn: self.offer.alpn.clone(),
            profile: self.offer.profile,
            insecure: self.offer.insecure,
            ca: self.offer.ca.clone(),
            client_certificate: self.offer.cert.clone().zip(self.offer.key.clone()),
            request: self.request()?,
            early_data: self.early_data()?,
            start_tls: self.way.starttls,
            proxy_header: self.way.proxy_header.map(|version| match version {
                ProxyVersion::V1 => ProxyHeader::V1,
                ProxyVersion::V2 => ProxyHeader::V2,
            }),
            ticket_wait: self.how_often.ticket_wait,
            timeout: self.way.timeout,
            contents: self.ask.contents,
            ..ProbeOptions::new(Target::parse(self.target()?)?)
        })
    }

    /// The target, which clap takes for the number of `-v` when it stands right behind that.
    fn target(&self) -> Result<&str, ProbeError> {
        let behind = self.output.verbose.as_deref();
        match (&self.target, behind.filter(|word| !is_number(word))) {
            (Some(target), None) => Ok(target),
            (None, Some(target)) => Ok(target),
            (Some(target), Some(word)) => Err(ProbeError::Input(format!(
                "{word:?} is one target too many beside {target:?}; -v takes a number or nothing"
            ))),
            (None, None) => Err(ProbeError::Input(
                "no server to probe; write tollgate probe HOST[:PORT]".into(),
            )),
        }
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, ProbeError> {
        if let Some(path) = &self.way.unix {
            return Ok(vec![Endpoint::Unix(path.clone())]);
        }
        let parsed = self.way.endpoint.iter().map(|text| {
            let address = text.parse().map_err(|_| {
                ProbeError::Input(format!(
                    "--endpoint {text:?} is no address with a port; write 192.0.2.1:443 or [2001:db8::1]:443"
                ))
            });
            address.map(Endpoint::Tcp)
        });
        parsed.collect()
    }

    fn request(&self) -> Result<Option<Request>, ProbeError> {
        match (&self.ask.get, &self.ask.post) {
            (Some(path), _) => Request::new("GET", path).map(Some),
            (None, Some(path)) => Request::new("POST", path).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn early_data(&self) -> Result<EarlyData, ProbeError> {
        let Some(path) = &self.ask.early_data else {
            return Ok(match self.ask.no_early_data {
                true => EarlyData::Off,
                false => EarlyData::Request,
            });
        };
        let unreadable = |source| ProbeError::File {
            path: path.display().to_string(),
            source,
        };
        let length = fs::metadata(path).map_err(unreadable)?.len();
        if length > MOST_EARLY_BYTES as u64 {
            return Err(ProbeError::Input(format!(
                "{}: {length} bytes are too many for early data; {MOST_EARLY_BYTES} is the most",
                path.display()
            )));
        }
        EarlyData::bytes(fs::read(path).map_err(unreadable)?)
    }
}
