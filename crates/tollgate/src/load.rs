//! `tollgate load`: the command line of the load generator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::task::LocalSet;
use tollgate_lab::backend::Listening;
use tollgate_lab::{LoadOptions, Mode};
use tollgate_terms::{CipherSuite, NamedGroup, TlsVersion};

use crate::say;

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
    /// Connections that are opened, used once and kept open without a byte.
    Hold(Target),
    /// A small plaintext backend to measure against: 1 KB for any path, /bytes/N for more.
    Backend {
        /// Address to listen on, or unix:/path.
        address: String,
        /// Core to stay on.
        #[arg(long)]
        pin: Option<usize>,
    },
}

/// A server to drive, and how.
#[derive(Debug, Args)]
struct Target {
    /// Server to connect to, as HOST:PORT.
    target: String,
    /// Take any certificate without a look.
    #[arg(long)]
    insecure: bool,
    /// PEM bundle of trusted roots; the system's if absent.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Name for server_name, Host and the certificate; the host of the target if absent.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Share of handshakes that shall resume, 0 to 1; proven in the result.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hit_rate: f64,
    /// Length of the measured window, such as 5s or 500ms.
    #[arg(long, value_parser = duration, default_value = "5s")]
    duration: Duration,
    /// Load before the measured window.
    #[arg(long, value_parser = duration, default_value = "500ms")]
    warm_up: Duration,
    /// Connections at work at a time.
    #[arg(long, short = 'c', default_value_t = 16)]
    connections: usize,
    /// Operations started per second, whether or not earlier ones are done (tps).
    #[arg(long)]
    rate: Option<f64>,
    /// Connections that hold opens.
    #[arg(long, default_value_t = 1_000)]
    count: usize,
    /// Process whose CPU time and memory are taken, with its children; may be given several times.
    #[arg(long, value_name = "PID")]
    watch: Vec<u32>,
    /// Offer TLS 1.2 alone.
    #[arg(long, conflicts_with = "tls13")]
    tls12: bool,
    /// Offer TLS 1.3 alone.
    #[arg(long)]
    tls13: bool,
    /// Offer one suite alone, in its IANA spelling.
    #[arg(long, value_parser = suite)]
    suite: Option<CipherSuite>,
    /// Offer one group alone: x25519, secp256r1, secp384r1 or X25519MLKEM768.
    #[arg(long, value_parser = group)]
    group: Option<NamedGroup>,
    /// Claim to verify RSA signatures only.
    #[arg(long)]
    rsa_only: bool,
    /// Application protocol to offer; may be given several times.
    #[arg(long, default_value = "http/1.1")]
    alpn: Vec<String>,
    /// Path that is requested.
    #[arg(long)]
    path: Option<String>,
    /// Core to stay on.
    #[arg(long)]
    pin: Option<usize>,
    /// Longest wait for one operation.
    #[arg(long, value_parser = duration, default_value = "10s")]
    timeout: Duration,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command: 0 when the regime that was asked for was reached, 1 when it was not.
pub fn run(arguments: LoadArguments) -> ExitCode {
    let (mode, target) = match arguments.what {
        What::Tps(target) => (Mode::Tps, target),
        What::Requests(target) => (Mode::Requests, target),
        What::Download(target) => (Mode::Download, target),
        What::Hold(target) => (Mode::Hold, target),
        What::Backend { address, pin } => return backend(&address, pin),
    };
    if !(0.0..=1.0).contains(&target.hit_rate) {
        say::error(&format!(
            "--hit-rate {} is not a share; give a number from 0 to 1",
            target.hit_rate
        ));
        return ExitCode::from(say::WRONG_INPUT);
    }
    let json = target.json;
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    match runtime.block_on(LocalSet::new().run_until(tollgate_lab::run(options(mode, target)))) {
        Err(error) => say::broke(&error.to_string()),
        Ok(result) => {
            if json {
                match serde_json::to_string_pretty(&result) {
                    Ok(text) => say::result(&format!("{text}\n")),
                    Err(error) => return say::broke(&error.to_string()),
                }
            } else {
                say::result(&result.to_string());
            }
            ExitCode::from(if result.reached() { 0 } else { say::FINDINGS })
        }
    }
}

fn options(mode: Mode, target: Target) -> LoadOptions {
    let defaults = LoadOptions::new(mode, target.target.clone());
    LoadOptions {
        server_name: target.server_name,
        insecure: target.insecure,
        ca: target.ca,
        hit_rate: target.hit_rate,
        duration: target.duration,
        warm_up: target.warm_up,
        connections: target.connections,
        rate: target.rate,
        watch: target.watch,
        version: match (target.tls12, target.tls13) {
            (true, _) => Some(TlsVersion::Tls12),
            (_, true) => Some(TlsVersion::Tls13),
            (false, false) => None,
        },
        suite: target.suite,
        group: target.group,
        rsa_only: target.rsa_only,
        alpn: target.alpn,
        path: target.path.unwrap_or(defaults.path),
        count: target.count,
        pin: target.pin,
        timeout: target.timeout,
        ..LoadOptions::new(mode, target.target)
    }
}

fn backend(address: &str, pin: Option<usize>) -> ExitCode {
    if let Some(core) = pin {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
            return say::broke(&format!("core {core} cannot be had: {error}"));
        }
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let served = runtime.block_on(LocalSet::new().run_until(async {
        let listening = match address.strip_prefix("unix:") {
            Some(path) => Listening::Unix(tokio::net::UnixListener::bind(path)?),
            None => Listening::Tcp(tokio::net::TcpListener::bind(address).await?),
        };
        tollgate_lab::backend::serve(listening).await
    }));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say::broke(&format!("{address}: {error}")),
    }
}

/// `5s`, `500ms`, `2m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1_u64), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let (number, millis) = units
        .iter()
        .find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, *millis)))
        .ok_or_else(|| format!("{text:?} has no unit; write 5s, 500ms, 2m or 1h"))?;
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a number; write 5s, 500ms, 2m or 1h"))?;
    Duration::try_from_secs_f64(number * millis as f64 / 1e3).map_err(|error| error.to_string())
}

fn suite(text: &str) -> Result<CipherSuite, String> {
    CipherSuite::from_name(text).ok_or_else(|| {
        format!("{text:?} is not a suite that exists here; an example is TLS_AES_128_GCM_SHA256")
    })
}

fn group(text: &str) -> Result<NamedGroup, String> {
    NamedGroup::from_name(text)
        .ok_or_else(|| format!("{text:?} is not a group that exists here; there are x25519, secp256r1, secp384r1 and X25519MLKEM768"))
}
