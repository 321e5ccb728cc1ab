//! `tollgate load`: the command line of the load generator.

mod backend;
mod show;
pub(crate) mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tollgate_lab::{LoadError, LoadOptions, LoadResult, MixPart, Mode};
use tollgate_terms::{CipherSuite, NamedGroup, SignatureScheme, TlsVersion};

use crate::say;
use show::Show;
use words::Sources;

/// What `load` takes.
#[derive(Debug, Args)]
pub struct LoadArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// New connections: TCP, handshake, one request, close.
    Tps(Target),
    /// Requests over connections that stay open.
    Requests(Target),
    /// A large response over connections that stay open, counted in bytes.
    Download(Target),
    /// A large request body over connections that stay open, counted in bytes that were answered.
    Upload(Target),
    /// Connections that are opened, used once and kept open without a byte.
    Hold(Hold),
    /// Handshakes, requests, bulk and held connections at the same time.
    Mix(Mix),
    /// A small plaintext backend to measure against: 1 KB for any path, /bytes/N for more.
    Backend {
        /// Address to listen on, or unix:/path, or unix:@name; port 0 takes a free one.
        address: String,
        /// Core to stay on.
        #[arg(long)]
        pin: Option<usize>,
    },
}

#[derive(Debug, Args)]
struct Hold {
    #[command(flatten)]
    target: Target,
    /// Connections to hold [default: 1000].
    #[arg(value_name = "N")]
    held: Option<usize>,
    /// The same.
    #[arg(long, conflicts_with = "held")]
    count: Option<usize>,
}

#[derive(Debug, Args)]
struct Mix {
    #[command(flatten)]
    target: Target,
    /// New connections per second.
    #[arg(long, value_name = "RATE", help_heading = "Parts")]
    tps: Option<f64>,
    /// Requests per second over connections that stay open.
    #[arg(long, value_name = "RATE", help_heading = "Parts")]
    requests: Option<f64>,
    /// Connections that download without a pause.
    #[arg(long, value_name = "N", help_heading = "Parts")]
    download: Option<usize>,
    /// Connections that upload without a pause.
    #[arg(long, value_name = "N", help_heading = "Parts")]
    upload: Option<usize>,
    /// Connections that are held without a byte.
    #[arg(long, value_name = "N", help_heading = "Parts")]
    hold: Option<usize>,
    /// Run each part alone first, and compare the sum of their costs with the whole; needs --watch.
    #[arg(long, help_heading = "Parts")]
    apart: bool,
}

/// A server to drive, and how.
#[derive(Debug, Args)]
struct Target {
    /// Server to connect to, as HOST:PORT.
    target: String,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    offer: Offer,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    see: See,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How much")]
struct Load {
    /// Connections at work at a time, over all threads.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Threads that share the work.
    #[arg(long, short = 't', value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Requests at a time on one HTTP/2 connection.
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: usize,
    /// Operations due per second, whether or not earlier ones are done; their time counts from when they were due.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Length of the measured window, such as 5s or 500ms; for hold, how long connections are held.
    #[arg(long, short = 'd', value_name = "TIME", value_parser = words::duration, default_value = "5s")]
    duration: Duration,
    /// End the window after so many operations, if it has not ended before.
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Load before the measured window; tickets are gathered in it.
    #[arg(long, value_name = "TIME", value_parser = words::duration, default_value = "500ms")]
    warm_up: Duration,
    /// Longest wait for one operation.
    #[arg(long, value_name = "TIME", value_parser = words::duration, default_value = "10s")]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the client offers")]
struct Offer {
    /// Share of handshakes that shall resume, 0 to 1; proven in the result to 0.005.
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0")]
    hit_rate: f64,
    /// Share of resumed handshakes whose request is sent as early data, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0")]
    early_data_rate: f64,
    /// Offer TLS 1.2 alone.
    #[arg(long, conflicts_with = "tls13")]
    tls12: bool,
    /// Offer TLS 1.3 alone.
    #[arg(long)]
    tls13: bool,
    /// Suites to offer, in their IANA spelling, most wanted first [default: all].
    #[arg(long, alias = "suite", value_name = "LIST", value_delimiter = ',', value_parser = words::suite)]
    suites: Vec<CipherSuite>,
    /// Groups to offer, most wanted first, of x25519, secp256r1, secp384r1 and X25519MLKEM768. By default
    /// all, with a key share for X25519MLKEM768 as browsers send it; x25519 alone costs this end far less.
    #[arg(long, alias = "group", value_name = "LIST", value_delimiter = ',', value_parser = words::group)]
    groups: Vec<NamedGroup>,
    /// Signature schemes to offer, such as ecdsa_secp256r1_sha256, most wanted first [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = words::scheme)]
    schemes: Vec<SignatureScheme>,
    /// Claim to verify RSA signatures only.
    #[arg(long, conflicts_with = "schemes")]
    rsa_only: bool,
    /// Application protocols to offer, http/1.1 or h2.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "http/1.1"
    )]
    alpn: Vec<String>,
    /// Names for server_name, Host and the certificate, taken in turn; the host of the target if absent.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    server_name: Vec<String>,
    /// File with such names, one in a line.
    #[arg(long, value_name = "FILE", conflicts_with = "server_name")]
    server_names: Option<PathBuf>,
    /// Take any certificate without a look.
    #[arg(long)]
    insecure: bool,
    /// PEM bundle of trusted roots; the system's if absent.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked for")]
struct Ask {
    /// Path that is requested [default: /, for download /bytes/104857600].
    #[arg(long)]
    path: Option<String>,
    /// Method of requests [default: GET, for upload POST].
    #[arg(long)]
    method: Option<String>,
    /// Length of the body of each request, such as 1k [default: none, for upload 1M].
    #[arg(long, value_name = "SIZE", value_parser = words::size)]
    body_size: Option<u64>,
    /// A field of the request head; may be given several times.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = words::header)]
    header: Vec<(String, String)>,
    /// Handshakes alone: close without a request (tps).
    #[arg(long)]
    no_request: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sockets and cores")]
struct Network {
    /// Addresses that connections come from, such as 127.0.0.2-127.0.0.9 or 127.0.1.0/24.
    #[arg(long, value_name = "LIST", value_parser = words::sources)]
    source: Option<Sources>,
    /// End connections by a reset, so that no port has to wait.
    #[arg(long)]
    abort: bool,
    /// Core to stay on.
    #[arg(long, value_name = "CORE")]
    pin: Option<usize>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is looked at")]
struct See {
    /// Process whose CPU time and memory are taken, with its children; may be given several times.
    #[arg(long, value_name = "PID")]
    watch: Vec<u32>,
    /// Console of a Tollgate that is driven, as HOST:PORT: its counts are set beside ours.
    #[arg(long, value_name = "ADDRESS")]
    console: Option<String>,
    /// Time between the lines of the table.
    #[arg(long, value_name = "TIME", value_parser = words::duration, default_value = "1s")]
    every: Duration,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command: 0 when the regime that was asked for was reached, 1 when it was not.
pub fn run(arguments: LoadArguments) -> ExitCode {
    let (mode, target) = match &arguments.what {
        What::Tps(target) => (Mode::Tps, target),
        What::Requests(target) => (Mode::Requests, target),
        What::Download(target) => (Mode::Download, target),
        What::Upload(target) => (Mode::Upload, target),
        What::Hold(hold) => (Mode::Hold, &hold.target),
        What::Mix(mix) => (Mode::Mix, &mix.target),
        What::Backend { address, pin } => return backend::backend(address, *pin),
    };
    let mut options = match options(mode, target) {
        Ok(options) => options,
        Err(error) => return wrong(&error),
    };
    match &arguments.what {
        What::Hold(hold) => {
            options.count = hold.held.or(hold.count).unwrap_or(options.count);
        }
        What::Mix(mix) => {
            options.mix = parts(mix);
            options.apart = mix.apart;
        }
        _ => {}
    }
    let show = Show::new(target.see.json, &options);
    match drive(options, show) {
        Err(error) => error,
        Ok(result) => finish(&result, target.see.json),
    }
}

fn wrong(error: &str) -> ExitCode {
    say::error(error);
    ExitCode::from(say::WRONG_INPUT)
}

fn drive(options: LoadOptions, show: Show) -> Result<LoadResult, ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| say::broke(&format!("no runtime: {error}")))?;
    let run = async {
        let mut seen = |seen| show.see(seen);
        tollgate_lab::run_watched(options, interrupted(), &mut seen).await
    };
    runtime
        .block_on(LocalSet::new().run_until(run))
        .map_err(|error: LoadError| match error.is_input() {
            true => wrong(&error.to_string()),
            false => say::broke(&error.to_string()),
        })
}

/// Ready when somebody wants the run to end: Ctrl-C, or a plain kill.
async fn interrupted() {
    let Ok(mut ended) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => if pressed.is_err() {
            std::future::pending().await
        },
        _ = ended.recv() => {}
    }
}

fn finish(result: &LoadResult, json: bool) -> ExitCode {
    match json {
        false => say::result(&result.text(show::look())),
        true => match serde_json::to_string_pretty(result) {
            Ok(text) => say::result(&format!("{text}\n")),
            Err(error) => return say::broke(&error.to_string()),
        },
    }
    ExitCode::from(if result.reached() { 0 } else { say::FINDINGS })
}

fn parts(mix: &Mix) -> Vec<MixPart> {
    let connections = mix.target.load.connections;
    let rated = |mode, rate: Option<f64>| {
        rate.map(|rate| MixPart {
            mode,
            rate: Some(rate),
            connections,
        })
    };
    let counted = |mode, count: Option<usize>| {
        count.map(|connections| MixPart {
            mode,
            rate: None,
            connections,
        })
    };
    [
        rated(Mode::Tps, mix.tps),
        rated(Mode::Requests, mix.requests),
        counted(Mode::Download, mix.download),
        counted(Mode::Upload, mix.upload),
        counted(Mode::Hold, mix.hold),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn options(mode: Mode, target: &Target) -> Result<LoadOptions, String> {
    let (load, offer, ask) = (&target.load, &target.offer, &target.ask);
    let defaults = LoadOptions::new(mode, target.target.clone());
    let server_names = match &offer.server_names {
        None => offer.server_name.clone(),
        Some(path) => names(path)?,
    };
    Ok(LoadOptions {
        server_name: server_names.first().cloned(),
        server_names,
        insecure: offer.insecure,
        ca: offer.ca.clone(),
        hit_rate: offer.hit_rate,
        early_data_rate: offer.early_data_rate,
        duration: load.duration,
        warm_up: load.warm_up,
        operations: load.operations,
        connections: load.connections,
        threads: load.threads,
        streams: load.streams,
        rate: load.rate,
        watch: target.see.watch.clone(),
        console: target.see.console.clone(),
        version: match (offer.tls12, offer.tls13) {
            (true, _) => Some(TlsVersion::Tls12),
            (_, true) => Some(TlsVersion::Tls13),
            (false, false) => None,
        },
        suites: offer.suites.clone(),
        groups: offer.groups.clone(),
        schemes: offer.schemes.clone(),
        rsa_only: offer.rsa_only,
        alpn: offer.alpn.clone(),
        method: ask.method.clone().unwrap_or(defaults.method.clone()),
        path: ask.path.clone().unwrap_or(defaults.path.clone()),
        headers: ask.header.clone(),
        body_bytes: ask.body_size.unwrap_or(defaults.body_bytes),
        no_request: ask.no_request,
        abort: target.network.abort,
        sources: target
            .network
            .source
            .as_ref()
            .map_or(Vec::new(), |sources| sources.0.clone()),
        pin: target.network.pin,
        timeout: load.timeout,
        every: target.see.every,
        ..defaults
    })
}

fn names(path: &std::path::Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!(
            "cannot read names from {} ({error}); give a file with one name in a line",
            path.display()
        )
    })?;
    let names: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect();
    match names.is_empty() {
        true => Err(format!(
            "{} has no name in it; write one in each line",
            path.display()
        )),
        false => Ok(names),
    }
}
