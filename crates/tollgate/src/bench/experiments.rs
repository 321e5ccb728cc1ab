//! The experiments around running servers: what they take on the command line, and how they are shown.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::to_string_pretty;
use tollgate_lab::bench::allocators::{self, AllocatorOptions};
use tollgate_lab::bench::app::{self, AppOptions};
use tollgate_lab::bench::certs::{self, CertOptions};
use tollgate_lab::bench::memory_table::{self, MemoryOptions};
use tollgate_lab::bench::regimes::{self, RegimeOptions, Transport};
use tollgate_lab::bench::tps::{self, TpsOptions};
use tollgate_lab::bench::uds::{self, UdsOptions};
use tollgate_lab::bench::{BenchError, certificate_from_word};
use tollgate_terms::CertificateKind;

use super::{broke, print_json};
use crate::load::words::{duration, size};
use crate::progress::Progress;
use crate::say;

/// What `bench regimes` takes.
#[derive(Debug, Args)]
pub struct RegimesArguments {
    /// Key of the server's certificate, made on the fly: ecdsa, p384, ed25519, rsa2048, rsa3072, rsa4096.
    #[arg(long, value_name = "KIND", value_parser = certificate_from_word, default_value = "ecdsa")]
    cert: CertificateKind,
    /// What carries the bytes between client and server.
    #[arg(long, value_enum, default_value = "both")]
    transport: Carrier,
    /// In memory as well as over loopback, which is the default.
    #[arg(long, conflicts_with = "transport")]
    memory_transport: bool,
    /// Measured window of each row, such as 3s or 500ms.
    #[arg(long, value_parser = duration, default_value = "3s")]
    duration: Duration,
    /// Handshakes on their way at a time, over loopback.
    #[arg(long, short = 'c', default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Also say where the time of a full handshake goes.
    #[arg(long)]
    explain: bool,
    /// Write a flame graph of the regimes in memory to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    flame: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What carries the bytes of a regime.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Carrier {
    /// Two processes over the loopback interface.
    Loopback,
    /// One thread, without a socket.
    Memory,
    /// One after the other.
    Both,
}

/// What `bench tps` takes.
#[derive(Debug, Args)]
pub struct TpsArguments {
    /// Every suite on every number of cores, which is what there is.
    #[arg(long)]
    matrix: bool,
    /// Measured window of each cell, such as 2s or 500ms.
    #[arg(long, value_parser = duration, default_value = "2s")]
    duration: Duration,
    /// Handshakes on their way at a time, per core of the server.
    #[arg(long, short = 'c', default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Most cores that the server is given; all of them if absent.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    cores: Option<u16>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What `bench certs` and `bench cycles` take.
#[derive(Debug, Args)]
pub struct CertsArguments {
    /// Kinds of certificates, in order; the first is what the others are set beside.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = certificate_from_word,
          default_value = "rsa4096,rsa2048,ecdsa,ed25519")]
    cert: Vec<CertificateKind>,
    /// Measured window for each, such as 10s.
    #[arg(long, value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// New connections per second, the same for each kind.
    #[arg(long, default_value_t = 150.0, value_parser = rate)]
    rate: f64,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What `bench app` takes.
#[derive(Debug, Args)]
pub struct AppArguments {
    /// The application without TLS, as http://HOST:PORT/PATH. {bytes} in the path is the length that is
    /// asked for with GET; without it the payload is sent with POST.
    #[arg(long, value_name = "URL")]
    plain: String,
    /// The application with TLS of its own, as https://HOST:PORT/PATH.
    #[arg(long, value_name = "URL")]
    tls: String,
    /// Unix socket on which the application answers without TLS, too.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Take any certificate of the application without a look.
    #[arg(long)]
    insecure: bool,
    /// PEM bundle that the application's certificate is checked against; the system's if absent.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Lengths of payloads, such as 1,1k,10k,100k,1m.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size, default_value = "1,1k,10k,100k,1m")]
    payloads: Vec<u64>,
    /// Interleaved repetitions of everything.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Time for one payload over one way in one repetition.
    #[arg(long, value_parser = duration, default_value = "200ms")]
    duration: Duration,
    /// The same once before, for an application that compiles while it runs; not kept.
    #[arg(long, value_parser = duration, default_value = "1s")]
    warm_up: Duration,
    /// Connections that ask at the same time.
    #[arg(long, short = 'c', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// A new connection with a full handshake for each request.
    #[arg(long)]
    fresh: bool,
    /// Write the chart to this file.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What `bench allocators` takes.
#[derive(Debug, Args)]
pub struct AllocatorsArguments {
    /// Connections of the burst; as many more handshakes are left half-way.
    #[arg(long, default_value_t = 2_000)]
    connections: usize,
    /// How long memory is watched after the burst.
    #[arg(long, value_parser = duration, default_value = "10s")]
    watch: Duration,
    /// Another build of this program to set beside it; may be given several times.
    #[arg(long, value_name = "PATH")]
    binary: Vec<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What `bench mem` takes.
#[derive(Debug, Args)]
pub struct MemArguments {
    /// Connections of each kind.
    #[arg(long, default_value_t = 2_500)]
    connections: usize,
    /// Bytes of header fields in the request before a connection idles, such as 8k.
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "0")]
    header: u64,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What `bench uds` takes.
#[derive(Debug, Args)]
pub struct UdsArguments {
    /// Length of one measured window; there are nine in a round.
    #[arg(long, value_parser = duration, default_value = "1s")]
    duration: Duration,
    /// Rounds; each gives one sample per figure.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Connections at work at a time.
    #[arg(long, short = 'c', default_value_t = 16)]
    connections: usize,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Full, resumed, and two kinds of bulk.
pub fn regimes(arguments: RegimesArguments) -> ExitCode {
    let transports = match arguments.transport {
        Carrier::Loopback => vec![Transport::Loopback],
        Carrier::Memory => vec![Transport::Memory],
        Carrier::Both => vec![Transport::Loopback, Transport::Memory],
    };
    let options = RegimeOptions {
        certificate: arguments.cert,
        transports,
        duration: arguments.duration,
        connections: usize::from(arguments.connections),
        explain: arguments.explain,
        flame: arguments.flame,
        ..RegimeOptions::default()
    };
    let result = measured(arguments.json, |progress| regimes::run(&options, progress));
    shown(
        result,
        arguments.json.then_some(to_string_pretty),
        regimes::Regimes::reached,
    )
}

/// Full handshakes by suite and cores.
pub fn tps(arguments: &TpsArguments) -> ExitCode {
    let options = TpsOptions {
        duration: arguments.duration,
        connections: usize::from(arguments.connections),
        cores: arguments.cores.map(usize::from),
        ..TpsOptions::default()
    };
    let result = measured(arguments.json, |progress| tps::run(&options, progress));
    shown(
        result,
        arguments.json.then_some(to_string_pretty),
        tps::TpsMatrix::reached,
    )
}

/// Kinds of certificates under the same load, by CPU time or by cycles.
pub fn certs(arguments: CertsArguments, cycles: bool) -> ExitCode {
    let options = CertOptions {
        kinds: arguments.cert,
        duration: arguments.duration,
        rate: arguments.rate,
        cycles,
        ..CertOptions::default()
    };
    let result = measured(arguments.json, |progress| certs::run(&options, progress));
    shown(
        result,
        arguments.json.then_some(to_string_pretty),
        certs::Certificates::reached,
    )
}

/// An application with and without Tollgate in front of it.
pub fn app(arguments: AppArguments) -> ExitCode {
    let options = AppOptions {
        unix: arguments.unix,
        insecure: arguments.insecure,
        ca: arguments.ca,
        payloads: arguments.payloads,
        repetitions: usize::from(arguments.repetitions),
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        connections: usize::from(arguments.connections),
        fresh: arguments.fresh,
        ..AppOptions::new(arguments.plain, arguments.tls)
    };
    let result = measured(arguments.json, |progress| app::run(&options, progress));
    if let (Some(file), Ok(result)) = (&arguments.svg, &result)
        && let Err(error) = std::fs::write(file, result.svg())
    {
        return say::broke(&format!(
            "the chart {}: {error}; its folder must exist and be writable",
            file.display()
        ));
    }
    shown(
        result,
        arguments.json.then_some(to_string_pretty),
        app::AppResult::reached,
    )
}

/// Memory over a burst of connections, by allocator setting.
pub fn allocators(arguments: AllocatorsArguments) -> ExitCode {
    let options = AllocatorOptions {
        connections: arguments.connections,
        watch: arguments.watch,
        programs: arguments.binary,
    };
    let result = measured(arguments.json, |progress| {
        allocators::run(&options, progress)
    });
    shown(result, arguments.json.then_some(to_string_pretty), |_| true)
}

/// Memory per idle connection.
pub fn mem(arguments: &MemArguments) -> ExitCode {
    let options = MemoryOptions {
        connections: arguments.connections,
        header_bytes: usize::try_from(arguments.header).unwrap_or(usize::MAX),
    };
    let result = measured(arguments.json, |progress| {
        memory_table::run(&options, progress)
    });
    shown(result, arguments.json.then_some(to_string_pretty), |_| true)
}

/// A backend over TCP and over unix sockets.
pub fn uds(arguments: &UdsArguments) -> ExitCode {
    let options = UdsOptions {
        duration: arguments.duration,
        rounds: arguments.rounds,
        connections: arguments.connections,
    };
    let result = measured(arguments.json, |progress| uds::run(&options, progress));
    shown(
        result,
        arguments.json.then_some(to_string_pretty),
        uds::Uds::reached,
    )
}

/// Runs an experiment behind a progress bar, which is gone before anything is printed.
fn measured<T>(
    json: bool,
    run: impl FnOnce(&dyn Fn(&str, f64)) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let progress = Progress::new(json);
    run(&|what, share| progress.at(what, share))
}

/// Prints a result, as JSON when `json` says how, and tells by the exit code whether it is what its name says.
fn shown<T: Display>(
    result: Result<T, BenchError>,
    json: Option<fn(&T) -> serde_json::Result<String>>,
    reached: impl Fn(&T) -> bool,
) -> ExitCode {
    let result = match result {
        Ok(result) => result,
        Err(error) => return broke(&error),
    };
    match json {
        None => say::result(&result.to_string()),
        Some(json) => {
            if let Err(code) = print_json(json(&result)) {
                return code;
            }
        }
    }
    match reached(&result) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(say::FINDINGS),
    }
}

/// A number of operations per second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err(format!(
            "{text:?} is not a rate; write a number above 0, such as 150"
        )),
    }
}
