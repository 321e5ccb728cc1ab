//! The whole ladder in one go, and a verdict: what a server does for its clients, what it could do
//! better, what that would save, and whether it is worth the trouble.

mod rules;
#[cfg(test)]
mod tests;
mod text;

use std::time::SystemTime;

use serde::Serialize;
use tollgate_terms::{TlsVersion, UnixTime};
use tollgate_tls::FailureReason;
use tollgate_tls::client::Intent;

use super::verdict::{self, Finding};
use super::{Connection, EarlyData, Endpoint, ProbeError, ProbeOptions, Prober, Profile, Request};

/// Each kind of connection is made so often, and the fastest counts: the others waited for something else.
const TRIES: usize = 3;

/// What cannot be seen from here, and who sees it.
const NOT_TESTED: [&str; 3] = [
    "SSL 3, TLS 1.0 and 1.1, CBC and RC4 suites, key exchange without forward secrecy: this client cannot speak \
     them (openssl s_client and testssl.sh can)",
    "the share of the server's CPU time in cryptography: a flame graph taken on the server shows it",
    "the server's rate of fresh handshakes: its log or metrics show it (nginx: $ssl_session_reused; HAProxy: \
     ssl_fc_is_resumed; Tollgate: tollgate_handshakes_total)",
];

/// What `--diagnose` has found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Host and port that were asked for.
    pub target: String,
    /// What was connected to.
    pub endpoint: String,
    /// The shortest TCP connect: about one round trip.
    pub round_trip_seconds: f64,
    /// What a new visitor waits for, from the first SYN to the end of what was asked for.
    pub new_visitor_seconds: Option<f64>,
    /// The same for a returning visitor.
    pub returning_visitor_seconds: Option<f64>,
    /// The first line of the response; `None` when nothing was asked for over HTTP.
    pub first_line: Option<String>,
    /// Each thing that was looked at.
    pub steps: Vec<Step>,
    /// What each kind of client is given.
    pub clients: Vec<Client>,
    /// What to do, in that order.
    pub findings: Vec<Finding>,
    /// All of it in a sentence or two.
    pub verdict: String,
    /// What was not looked at, and who can.
    pub not_tested: Vec<&'static str>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What, such as `TLS 1.3 resumed`.
    pub step: &'static str,
    /// What was seen.
    pub result: String,
}

/// What one kind of client is given.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// Name of the profile.
    pub profile: &'static str,
    /// Version, if the handshake worked.
    pub version: Option<&'static str>,
    /// Suite.
    pub suite: Option<String>,
    /// Group.
    pub named_group: Option<String>,
    /// Kind of certificate.
    pub certificate: Option<&'static str>,
    /// Why it did not work.
    pub failure: Option<String>,
}

impl Diagnosis {
    /// Whether somebody should act.
    pub fn has_findings(&self) -> bool {
        self.findings.iter().any(Finding::is_worth_it)
    }
}

/// All that the rules look at.
struct Seen {
    /// Why clients refuse the certificate; everything else was then seen without checking it.
    untrusted: Option<String>,
    tls13: Result<Pair, String>,
    tls12: Result<Pair, String>,
    /// A connection that was to carry early data; `None` when none could be tried.
    early: Option<Connection>,
    profiles: Vec<(&'static Profile, Result<Connection, String>)>,
}

/// A full handshake, and one after it that was to resume.
struct Pair {
    full: Connection,
    /// `None` when it did not resume.
    resumed: Option<Connection>,
}

impl Seen {
    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        [&self.tls13, &self.tls12].into_iter().flatten()
    }

    fn best(&self) -> Option<&Pair> {
        self.pairs().next()
    }

    fn best_full(&self) -> Option<&Connection> {
        self.best().map(|pair| &pair.full)
    }

    /// Full connections after which resumption worked.
    fn resumable(&self) -> impl Iterator<Item = &Connection> {
        self.pairs()
            .filter(|pair| pair.resumed.is_some())
            .map(|pair| &pair.full)
    }

    /// The shortest TCP connect.
    fn round_trip_seconds(&self) -> f64 {
        let shortest = self
            .pairs()
            .flat_map(|pair| [Some(&pair.full), pair.resumed.as_ref()])
            .flatten()
            .map(|connection| connection.connect_time_ms)
            .fold(f64::INFINITY, f64::min);
        if shortest.is_finite() {
            shortest / 1e3
        } else {
            0.0
        }
    }
}

/// Looks at the first endpoint that answers.
///
/// Asks for `options.request`, or for `GET /` where nothing speaks against it, because only beside the
/// time of a response does it show what a shorter handshake is worth.
///
/// # Errors
/// When the question makes no sense, or no handshake of any kind works.
pub async fn diagnose(options: &ProbeOptions) -> Result<Diagnosis, ProbeError> {
    let endpoint = super::round_trips::reachable(options).await?;
    let mut options = options.clone();
    let mut untrusted = None;
    if options.request.is_none() && speaks_http(&options) {
        options.request = Some(Request::new("GET", "/")?);
    }
    match first(&options, &endpoint).await {
        Ok(()) => {}
        Err(ProbeError::Request(_)) => options.request = None,
        Err(error) if is_distrust(&error) => {
            untrusted = Some(brief(&error));
            options.insecure = true;
            if matches!(
                first(&options, &endpoint).await,
                Err(ProbeError::Request(_))
            ) {
                options.request = None;
            }
        }
        // One version alone may still work.
        Err(ProbeError::Handshake { .. } | ProbeError::Closed) => {}
        Err(error) => return Err(error),
    }
    let look = Look { options, endpoint };
    let seen = Seen {
        untrusted,
        tls13: look.pair(TlsVersion::Tls13).await?,
        tls12: look.pair(TlsVersion::Tls12).await?,
        early: look.early().await?,
        profiles: look.profiles().await?,
    };
    if seen.best().is_none() {
        let again = first(&look.options, &look.endpoint).await;
        return Err(again.err().unwrap_or(ProbeError::Closed));
    }
    Ok(look.diagnosis(&seen))
}

/// Mail and databases are not asked for a page.
fn speaks_http(options: &ProbeOptions) -> bool {
    let alpn = options.alpn.as_ref();
    options.start_tls.is_none()
        && alpn.is_none_or(|alpn| {
            alpn.iter()
                .any(|name| name == "h2" || name.starts_with("http/"))
        })
}

async fn first(options: &ProbeOptions, endpoint: &Endpoint) -> Result<(), ProbeError> {
    let prober = Prober::new(options.clone())?;
    prober.connect(Intent::Full, endpoint).await.map(|_| ())
}

/// What happened, without the advice that a single probe would give.
fn brief(error: &ProbeError) -> String {
    match error {
        ProbeError::Handshake { failure } => failure.to_string(),
        error => error.to_string(),
    }
}

fn is_distrust(error: &ProbeError) -> bool {
    matches!(
        error.handshake_reason(),
        Some(
            FailureReason::CertificateExpired
                | FailureReason::CertificateRevoked
                | FailureReason::CertificateUnknownIssuer
                | FailureReason::CertificateWrongName
                | FailureReason::CertificateInvalid
        )
    )
}

struct Look {
    options: ProbeOptions,
    endpoint: Endpoint,
}

impl Look {
    fn asking(&self, version: Option<TlsVersion>) -> ProbeOptions {
        let mut options = self.options.clone();
        options.version = version;
        options.early_data = EarlyData::Off;
        options.profile = None;
        options
    }

    /// Full and resumed, the fastest of some tries each.
    async fn pair(&self, version: TlsVersion) -> Result<Result<Pair, String>, ProbeError> {
        let prober = Prober::new(self.asking(Some(version)))?;
        let full = match self.fastest(&prober, Intent::Full).await {
            Ok(full) => full,
            Err(error) => return Ok(Err(brief(&error))),
        };
        let resumed = self.fastest(&prober, Intent::Resume).await.ok();
        Ok(Ok(Pair {
            full,
            resumed: resumed.filter(|connection| connection.kind.is_resumed()),
        }))
    }

    async fn fastest(&self, prober: &Prober, intent: Intent) -> Result<Connection, ProbeError> {
        let mut fastest = prober.connect(intent, &self.endpoint).await?;
        for _ in 1..TRIES {
            let connection = prober.connect(intent, &self.endpoint).await?;
            let same = connection.kind.is_resumed() == fastest.kind.is_resumed();
            if same && connection.total_time_ms < fastest.total_time_ms {
                fastest = connection;
            }
        }
        Ok(fastest)
    }

    async fn early(&self) -> Result<Option<Connection>, ProbeError> {
        if self.options.request.is_none() {
            return Ok(None);
        }
        let mut options = self.asking(Some(TlsVersion::Tls13));
        options.early_data = EarlyData::Request;
        if options
            .request
            .as_ref()
            .is_some_and(|request| !request.is_safe())
        {
            return Ok(None);
        }
        let prober = Prober::new(options)?;
        if prober.connect(Intent::Full, &self.endpoint).await.is_err() {
            return Ok(None);
        }
        Ok(prober.connect(Intent::Resume, &self.endpoint).await.ok())
    }

    /// A handshake as each kind of client, without a request.
    async fn profiles(
        &self,
    ) -> Result<Vec<(&'static Profile, Result<Connection, String>)>, ProbeError> {
        let mut seen = Vec::new();
        for profile in Profile::ALL {
            let mut options = self.asking(None);
            options.request = None;
            options.profile = Some(profile);
            options.ticket_wait = std::time::Duration::ZERO;
            let prober = Prober::new(options)?;
            let outcome = prober.connect(Intent::Full, &self.endpoint).await;
            seen.push((profile, outcome.map_err(|error| brief(&error))));
        }
        Ok(seen)
    }

    fn diagnosis(&self, seen: &Seen) -> Diagnosis {
        let now = now();
        let findings = verdict::ordered(rules::findings(seen, now));
        let seconds = |connection: &Connection| connection.total_time_ms / 1e3;
        let best = seen.best();
        let returning = best.and_then(|pair| pair.resumed.as_ref());
        Diagnosis {
            target: format!("{}:{}", self.options.target.host, self.options.port()),
            endpoint: self.endpoint.to_string(),
            round_trip_seconds: seen.round_trip_seconds(),
            new_visitor_seconds: best.map(|pair| seconds(&pair.full)),
            returning_visitor_seconds: returning.map(seconds),
            first_line: best.and_then(|pair| pair.full.first_line.clone()),
            steps: text::steps(seen, now),
            clients: seen.profiles.iter().map(client).collect(),
            verdict: verdict::sentence(&findings),
            findings,
            not_tested: NOT_TESTED.to_vec(),
        }
    }
}

fn client((profile, outcome): &(&'static Profile, Result<Connection, String>)) -> Client {
    let seen = outcome.as_ref().ok();
    Client {
        profile: profile.name,
        version: seen.map(|connection| connection.version.name()),
        suite: seen.map(|connection| connection.suite.to_string()),
        named_group: seen
            .and_then(|connection| connection.named_group)
            .map(|group| group.to_string()),
        certificate: seen
            .and_then(|connection| connection.certificate_kind)
            .map(|kind| kind.name()),
        failure: outcome.as_ref().err().cloned(),
    }
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}
