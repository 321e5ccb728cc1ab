//! A load run against a server of our own, with what both sides counted.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_terms::{CertificateKind, CipherSuite, TlsVersion};

use super::BenchError;
use super::serving::Serving;
use crate::{LoadOptions, LoadResult};

/// Cores that this process may use, in order.
pub(crate) fn cores() -> Vec<usize> {
    // Without an answer there is at least the core that this runs on; 0 exists everywhere.
    rustix::thread::sched_getaffinity(None).map_or_else(
        |_| vec![0],
        |set| {
            (0..rustix::thread::CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect()
        },
    )
}

/// Which core serves and which one drives, and whether that is the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) server: usize,
    pub(crate) load: usize,
}

impl Places {
    /// The first core serves, the last one drives.
    pub(crate) fn here() -> Self {
        let cores = cores();
        Self {
            server: cores.first().copied().unwrap_or_default(),
            load: cores.last().copied().unwrap_or_default(),
        }
    }

    /// A sentence for a result when both are the same.
    pub(crate) fn note(self) -> Option<String> {
        (self.server == self.load).then(|| {
            "server and load share one core: rates are lower than the server's own, CPU time per operation stands"
                .to_owned()
        })
    }
}

/// Handshakes that were alike, as both sides name them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Negotiated {
    /// `full` or `resumed`; a full one with a retry counts as `full_with_retry`.
    pub kind: String,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: String,
    /// IANA name of the suite.
    pub suite: String,
}

/// What a run was, counted twice.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) load: LoadResult,
    /// Handshakes in the measured window, by the client's count.
    pub(crate) client: BTreeMap<Negotiated, u64>,
    /// Handshakes of the whole run, warm-up included, by the server's own metrics.
    pub(crate) server: BTreeMap<Negotiated, u64>,
}

/// What a run must have been.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Handshakes in the window are resumed ones.
    pub(crate) resumed: bool,
    pub(crate) version: TlsVersion,
    pub(crate) suite: CipherSuite,
    /// Handshakes of another kind that the server may have seen before the window: each connection of a
    /// resumed run needs a first, full one.
    pub(crate) others: u64,
}

/// Runs the load on a thread of its own, kept to the core in `options`, and asks the server what it saw.
pub(crate) fn drive(serving: &Serving, mut options: LoadOptions) -> Result<Driven, BenchError> {
    options.target = serving.address().to_string();
    options.server_name = Some("localhost".into());
    options.insecure = true;
    options.watch = vec![serving.pid()];
    let before = server_counts(&serving.metrics()?);
    let load = load(options)?;
    let mut server = server_counts(&serving.metrics()?);
    for (negotiated, count) in before {
        if let Some(now) = server.get_mut(&negotiated) {
            *now = now.saturating_sub(count);
        }
    }
    server.retain(|_, count| *count > 0);
    Ok(Driven {
        client: client_counts(&load),
        server,
        load,
    })
}

/// A load run on a thread of its own: a run may keep its thread to one core, and that shall not be ours.
pub(crate) fn load(options: LoadOptions) -> Result<LoadResult, BenchError> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| BenchError::System {
                what: "a runtime for the load".into(),
                source,
                hint: "it needs a few file descriptors; `ulimit -n` says how many there may be"
                    .into(),
            })?;
        runtime
            .block_on(crate::run(options))
            .map_err(BenchError::from)
    };
    match std::thread::spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn client_counts(load: &LoadResult) -> BTreeMap<Negotiated, u64> {
    let mut counts = BTreeMap::new();
    for kind in &load.handshakes.kinds {
        let negotiated = Negotiated {
            kind: kind.kind.to_string(),
            version: kind.version.to_string(),
            suite: kind.suite.to_string(),
        };
        *counts.entry(negotiated).or_default() += kind.count;
    }
    counts
}

/// The series of `tollgate_handshakes_total`, summed over sites, listeners, groups and certificates.
fn server_counts(page: &str) -> BTreeMap<Negotiated, u64> {
    let mut counts = BTreeMap::new();
    for line in page.lines() {
        let Some(labels) = line.strip_prefix("tollgate_handshakes_total{") else {
            continue;
        };
        let Some((labels, value)) = labels.rsplit_once("} ") else {
            continue;
        };
        let label = |name: &str| {
            labels
                .split("\",")
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""))
                .map(|value| value.trim_end_matches('"').to_owned())
                .unwrap_or_default()
        };
        let negotiated = Negotiated {
            kind: label("kind"),
            version: label("version"),
            suite: label("suite"),
        };
        *counts.entry(negotiated).or_default() += value.parse::<f64>().unwrap_or(0.0) as u64;
    }
    counts
}

impl Driven {
    /// CPU time of the server in the window: user and system, in seconds.
    pub(crate) fn server_cpu(&self) -> (f64, f64) {
        let server = self.load.server.as_ref();
        server.map_or((0.0, 0.0), |cost| (cost.user_seconds, cost.system_seconds))
    }

    /// Everything that was not as `expected`, in words; empty when the regime was reached.
    pub(crate) fn missed(&self, expected: &Expected) -> Vec<String> {
        let mut missed = Vec::new();
        let client = split(&self.client, expected);
        let server = split(&self.server, expected);
        if client.as_expected == 0 {
            missed.push(format!("the client counted no {expected} handshake"));
        }
        // A window that begins with connections of the warm-up sees none of the others.
        if client.others > 0 {
            missed.push(format!(
                "the client counted {} handshakes that were not {expected}: {}",
                client.others, client.what
            ));
        }
        if server.as_expected < client.as_expected {
            missed.push(format!(
                "the server counted {} {expected} handshakes, the client {}",
                server.as_expected, client.as_expected
            ));
        }
        if server.others > expected.others {
            missed.push(format!(
                "the server counted {} handshakes that were not {expected}, {} are needed to begin: {}",
                server.others, expected.others, server.what
            ));
        }
        for (reason, count) in &self.load.failures {
            missed.push(format!("{count} operations failed: {reason}"));
        }
        missed
    }

    /// Handshakes as expected: by the client in the window, by the server in the whole run.
    pub(crate) fn counted(&self, expected: &Expected) -> (u64, u64) {
        (
            split(&self.client, expected).as_expected,
            split(&self.server, expected).as_expected,
        )
    }
}

struct Split {
    as_expected: u64,
    others: u64,
    what: String,
}

fn split(counts: &BTreeMap<Negotiated, u64>, expected: &Expected) -> Split {
    let mut split = Split {
        as_expected: 0,
        others: 0,
        what: String::new(),
    };
    for (negotiated, count) in counts {
        if expected.is(negotiated) {
            split.as_expected += count;
        } else {
            split.others += count;
            if !split.what.is_empty() {
                split.what.push_str(", ");
            }
            let Negotiated {
                kind,
                version,
                suite,
            } = negotiated;
            split
                .what
                .push_str(&format!("{count} x {kind} {version} {suite}"));
        }
    }
    split
}

impl Expected {
    fn is(&self, negotiated: &Negotiated) -> bool {
        (negotiated.kind == "resumed") == self.resumed
            && negotiated.version == self.version.name()
            && negotiated.suite == self.suite.name()
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.resumed { "resumed" } else { "full" };
        write!(f, "{kind} {} {}", self.version.name(), self.suite.name())
    }
}

/// The kind of certificate that a word on a command line names: `ecdsa` (P-256), `p384`, `ed25519`,
/// `rsa2048`, `rsa3072` or `rsa4096`, or a name such as `ecdsa-p256`.
///
/// # Errors
/// A sentence with the words that there are.
pub fn certificate_from_word(word: &str) -> Result<CertificateKind, String> {
    match word.to_ascii_lowercase().as_str() {
        "ecdsa" | "p256" | "ecdsa-p256" => Ok(CertificateKind::EcdsaP256),
        "p384" | "ecdsa-p384" => Ok(CertificateKind::EcdsaP384),
        "ed25519" => Ok(CertificateKind::Ed25519),
        "rsa" | "rsa2048" | "rsa-2048" => Ok(CertificateKind::Rsa(2048)),
        "rsa3072" | "rsa-3072" => Ok(CertificateKind::Rsa(3072)),
        "rsa4096" | "rsa-4096" => Ok(CertificateKind::Rsa(4096)),
        _ => Err(format!(
            "{word:?} is no kind of certificate that is made here; there are ecdsa, p384, ed25519, rsa2048, rsa3072 and rsa4096"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    const PAGE: &str = "# TYPE tollgate_handshakes counter\n\
        tollgate_handshakes_total{site=\"a\",version=\"TLSv1.3\",suite=\"TLS_AES_128_GCM_SHA256\",group=\"x25519\",kind=\"resumed\"} 90\n\
        tollgate_handshakes_total{site=\"b\",version=\"TLSv1.3\",suite=\"TLS_AES_128_GCM_SHA256\",group=\"x25519\",kind=\"resumed\"} 10\n\
        tollgate_handshakes_total{site=\"a\",version=\"TLSv1.3\",suite=\"TLS_AES_128_GCM_SHA256\",group=\"x25519\",kind=\"full\"} 4\n";

    fn expected(others: u64) -> Expected {
        Expected {
            resumed: true,
            version: TlsVersion::Tls13,
            suite: CipherSuite::TLS_AES_128_GCM_SHA256,
            others,
        }
    }

    #[test]
    fn the_servers_page_is_counted_by_what_was_negotiated() {
        let counts = server_counts(PAGE);
        let split = split(&counts, &expected(0));
        assert_eq!((split.as_expected, split.others), (100, 4));
        assert_eq!(split.what, "4 x full TLSv1.3 TLS_AES_128_GCM_SHA256");
    }

    #[test]
    fn words_for_certificates_are_those_of_the_command_line_and_of_the_results() {
        for (word, kind) in [
            ("ecdsa", CertificateKind::EcdsaP256),
            ("ecdsa-p384", CertificateKind::EcdsaP384),
            ("Ed25519", CertificateKind::Ed25519),
            ("rsa4096", CertificateKind::Rsa(4096)),
        ] {
            assert_eq!(certificate_from_word(word), Ok(kind));
        }
        assert!(
            certificate_from_word("dsa")
                .unwrap_err()
                .contains("rsa2048")
        );
    }
}
