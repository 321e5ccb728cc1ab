//! The application experiment: is it worth it to let Tollgate end TLS in front of an application that
//! could do so itself?
//!
//! The same payloads go over plaintext, over the application's own TLS, and through a Tollgate that is
//! started here, in front of the plaintext port and, if there is one, a unix socket. Repetitions of all
//! ways are interleaved, so that a machine that drifts does so for everyone.

mod chart;
mod drive;
mod text;
mod verdict;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tollgate_cost::Measured;

use super::BenchError;
use super::driving::Places;
use super::serving::{BackendAt, Serving, ServingMode, ServingOptions};
use drive::{Driver, Way};

pub use verdict::{LEAST_GAIN, Verdict, Worth};

/// What is compared, and how. Every field can be set in any order; [`AppOptions::new`] holds the defaults.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// `http://HOST[:PORT]/PATH` of the application. `{bytes}` in the path stands for the length of the
    /// response that is asked for with `GET`; without it the payload is the body of a `POST`.
    pub plain: String,
    /// `https://HOST[:PORT]/PATH` of the same application, which does its own TLS there.
    pub tls: String,
    /// Unix socket on which the application serves plaintext as well. Default: none.
    pub unix: Option<PathBuf>,
    /// Take any certificate of the application without a look. Default false.
    pub insecure: bool,
    /// PEM bundle that the application's certificate is checked against. Default: the system's.
    pub ca: Option<PathBuf>,
    /// Payload lengths in bytes. Default 1, 1 KB, 10 KB, 100 KB and 1 MB, in steps of 1024.
    pub payloads: Vec<u64>,
    /// Interleaved repetitions of everything. Default 9.
    pub repetitions: usize,
    /// Time for one payload over one way in one repetition. Default 200 ms.
    pub duration: Duration,
    /// The same before the first repetition, which is not kept: an application on a virtual machine that
    /// compiles while it runs must have seen its work. Default 1 s.
    pub warm_up: Duration,
    /// Connections that ask at the same time, each waiting for its answer. Default 1: latency without a queue.
    pub connections: usize,
    /// A new connection, with a full handshake, for every request. Default false: connections are kept.
    pub fresh: bool,
}

impl AppOptions {
    /// The experiment between these two with every other field at its default.
    pub fn new(plain: impl Into<String>, tls: impl Into<String>) -> Self {
        Self {
            plain: plain.into(),
            tls: tls.into(),
            unix: None,
            insecure: false,
            ca: None,
            payloads: vec![1, 1 << 10, 10 << 10, 100 << 10, 1 << 20],
            repetitions: 9,
            duration: Duration::from_millis(200),
            warm_up: Duration::from_secs(1),
            connections: 1,
            fresh: false,
        }
    }
}

/// One payload over one way.
#[derive(Clone, Debug, Serialize)]
pub struct AppCell {
    /// Length of the payload.
    pub payload_bytes: u64,
    /// Requests, over all repetitions.
    pub requests: u64,
    /// Latency of a request in microseconds: median of the repetitions' medians, with its spread.
    pub latency_micros: Measured,
    /// Standard deviation of single requests, in microseconds.
    pub deviation_micros: f64,
    /// Latency over that of plaintext, repetition by repetition.
    pub over_plain: Measured,
    /// Latency over that of the application's own TLS, repetition by repetition.
    pub over_own_tls: Measured,
}

/// One way to the application.
#[derive(Clone, Debug, Serialize)]
pub struct AppWay {
    /// `plaintext`, `own TLS`, `Tollgate, http mode`, `Tollgate, tcp mode`, or `Tollgate, unix socket`.
    pub name: &'static str,
    /// Where its requests went.
    pub address: String,
    /// One per payload, in order.
    pub cells: Vec<AppCell>,
    /// Geometric mean over all payloads of the latency over that of the application's own TLS,
    /// repetition by repetition.
    pub over_own_tls: Measured,
    /// What this way is worth beside the application's own TLS; `None` for those two themselves.
    pub worth: Option<Worth>,
}

/// Everything that an experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct AppResult {
    /// Plaintext URL, as given.
    pub plain: String,
    /// TLS URL, as given.
    pub tls: String,
    /// Whether every request had a connection and a full handshake of its own.
    pub fresh: bool,
    /// Connections that asked at the same time.
    pub connections: usize,
    /// Repetitions.
    pub repetitions: usize,
    /// All ways, plaintext and own TLS first.
    pub ways: Vec<AppWay>,
    /// The best way through Tollgate against the application's own TLS.
    pub verdict: Verdict,
    /// What a reader must know about the figures.
    pub notes: Vec<String>,
}

impl AppResult {
    /// True: an experiment that ends has measured what it says. Whether it is worth it is no failure.
    pub fn reached(&self) -> bool {
        true
    }

    /// Bars of the relative latency with error bars, as a picture of its own that needs nothing else.
    pub fn svg(&self) -> String {
        chart::svg(self)
    }
}

/// Runs the experiment, telling `progress` what is next and which share is done.
///
/// # Errors
/// When a URL is none, the application does not answer as it should, or Tollgate cannot be started.
pub fn run(options: &AppOptions, progress: &dyn Fn(&str, f64)) -> Result<AppResult, BenchError> {
    let driver = Driver::new(options)?;
    let places = Places::here();
    let serve = |mode, backend| {
        Serving::start(&ServingOptions {
            mode,
            backend: BackendAt::Address(backend),
            workers: super::driving::cores().len(),
            site_yaml: "tls: { groups: [x25519] }".into(),
            ..ServingOptions::default()
        })
    };
    let behind = driver.plain_address().to_string();
    let http = serve(ServingMode::Http, behind.clone())?;
    let tcp = serve(ServingMode::Tcp, behind)?;
    let unix = match &options.unix {
        None => None,
        Some(path) => Some(serve(ServingMode::Http, unix_backend(path)?)?),
    };
    let mut ways = vec![driver.plain(), driver.own_tls()?];
    ways.push(driver.through("Tollgate, http mode", &http)?);
    ways.push(driver.through("Tollgate, tcp mode", &tcp)?);
    if let Some(unix) = &unix {
        ways.push(driver.through("Tollgate, unix socket", unix)?);
    }
    let samples = driver.measure(&ways, progress)?;
    let mut notes = Vec::new();
    if places.server == places.load {
        notes.push("client, application and Tollgate share one core".into());
    } else {
        notes.push(format!(
            "client, application and Tollgate share the {} cores of this machine, as they would on one host",
            super::driving::cores().len()
        ));
    }
    Ok(summarise(options, &ways, &samples, notes))
}

fn unix_backend(path: &Path) -> Result<String, BenchError> {
    let whole = path.canonicalize().map_err(|source| BenchError::System {
        what: format!("the unix socket {}", path.display()),
        source,
        hint: "start the application first, or leave out --unix".into(),
    })?;
    Ok(format!("unix:{}", whole.display()))
}

/// Medians and deviations of one payload over one way.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Median latency of each repetition, in microseconds.
    medians: Vec<f64>,
    /// Sum, sum of squares and number of single requests.
    sum: f64,
    squares: f64,
    requests: u64,
}

impl Samples {
    fn add(&mut self, latencies: &mut [f64]) {
        latencies.sort_by(f64::total_cmp);
        if latencies.is_empty() {
            return;
        }
        let last = latencies.len() - 1;
        self.medians.push(f64::midpoint(
            latencies[last / 2],
            latencies[last.div_ceil(2)],
        ));
        for latency in latencies.iter() {
            self.sum += latency;
            self.squares += latency * latency;
        }
        self.requests += latencies.len() as u64;
    }

    fn deviation(&self) -> f64 {
        let count = self.requests.max(1) as f64;
        let mean = self.sum / count;
        (self.squares / count - mean * mean).max(0.0).sqrt()
    }
}

/// `samples[way][payload]`, as the driver gives them.
fn summarise(
    options: &AppOptions,
    ways: &[Rc<Way>],
    samples: &[Vec<Samples>],
    notes: Vec<String>,
) -> AppResult {
    let measured = |values: &[f64]| Measured::of(values).unwrap_or(Measured::exact(0.0));
    let ratios = |own: &Samples, other: &Samples| -> Vec<f64> {
        let pairs = own.medians.iter().zip(&other.medians);
        pairs.map(|(own, other)| own / other).collect()
    };
    let (plain, own_tls) = (&samples[0], &samples[1]);
    let ways: Vec<AppWay> = ways
        .iter()
        .zip(samples)
        .enumerate()
        .map(|(index, (way, samples))| {
            let cells = samples.iter().enumerate().map(|(payload, own)| AppCell {
                payload_bytes: options.payloads[payload],
                requests: own.requests,
                latency_micros: measured(&own.medians),
                deviation_micros: own.deviation(),
                over_plain: measured(&ratios(own, &plain[payload])),
                over_own_tls: measured(&ratios(own, &own_tls[payload])),
            });
            let by_payload: Vec<Vec<f64>> = samples
                .iter()
                .zip(own_tls)
                .map(|(own, other)| ratios(own, other))
                .collect();
            let over_own_tls = measured(&geometric_means(&by_payload));
            AppWay {
                name: way.name(),
                address: way.address(),
                cells: cells.collect(),
                over_own_tls,
                worth: (index > 1).then(|| Worth::of(&over_own_tls)),
            }
        })
        .collect();
    AppResult {
        plain: options.plain.clone(),
        tls: options.tls.clone(),
        fresh: options.fresh,
        connections: options.connections,
        repetitions: options.repetitions,
        verdict: Verdict::of(&ways),
        ways,
        notes,
    }
}

/// The geometric mean over all payloads, for each repetition.
fn geometric_means(by_payload: &[Vec<f64>]) -> Vec<f64> {
    let repetitions = by_payload.iter().map(Vec::len).min().unwrap_or_default();
    (0..repetitions)
        .map(|repetition| {
            let logarithms = by_payload.iter().map(|ratios| ratios[repetition].ln());
            (logarithms.sum::<f64>() / by_payload.len() as f64).exp()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_payloads_gives_each_the_same_weight() {
        let means = geometric_means(&[vec![2.0, 1.0], vec![0.5, 4.0]]);
        assert!((means[0] - 1.0).abs() < 1e-9 && (means[1] - 2.0).abs() < 1e-9);
        assert!(geometric_means(&[]).is_empty());
    }

    #[test]
    fn a_repetition_counts_by_its_median_and_single_requests_by_their_deviation() {
        let mut samples = Samples::default();
        samples.add(&mut [1.0, 100.0, 3.0]);
        samples.add(&mut [2.0, 2.0]);
        samples.add(&mut []);
        assert_eq!(samples.medians, [3.0, 2.0]);
        assert_eq!(samples.requests, 5);
        // Of 1, 100, 3, 2 and 2: mean 21.6, variance 1537.04.
        assert!((samples.deviation() - 1537.04_f64.sqrt()).abs() < 1e-6);
    }
}
