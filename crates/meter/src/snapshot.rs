//! What was counted up to a moment: plain data that adds up and that every view reads.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use tollgate_terms::UnixTime;

use crate::{Distribution, Histogram};

/// A count and what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series<L> {
    /// What was counted.
    #[serde(flatten)]
    pub labels: L,
    /// How often, or how much, since the process started.
    pub count: u64,
}

/// A histogram and what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timing<L> {
    /// What was timed.
    #[serde(flatten)]
    pub labels: L,
    /// How long it took.
    pub histogram: Histogram,
}

/// Everything counted by one worker, or by all of them after [`Snapshot::merge`]. Lists are in label order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Completed handshakes.
    pub handshakes: Vec<HandshakeSeries>,
    /// Handshakes that were full, by the reason.
    pub resumption_misses: Vec<Series<MissLabels>>,
    /// Handshakes that did not complete.
    pub handshake_failures: Vec<Series<HandshakeFailureLabels>>,
    /// Wall time from the first byte to the end of completed handshakes.
    pub handshake_times: Vec<Timing<KindLabel>>,
    /// Connections open now.
    pub connections: Vec<OpenConnections>,
    /// Connections accepted.
    pub accepted: Vec<Series<ListenerLabel>>,
    /// Connections closed before they cost anything, by the reason.
    pub refused: Vec<Series<RefusalLabels>>,
    /// Requests answered.
    pub requests: Vec<Series<RequestLabels>>,
    /// Wall time from request to the end of the response.
    pub request_times: Vec<Timing<SiteLabel>>,
    /// Bytes moved.
    pub bytes: Vec<Series<ByteLabels>>,
    /// What went wrong with backends.
    pub backend_failures: Vec<Series<BackendFailureLabels>>,
    /// Requests that were sent to a further backend.
    pub retries: Vec<Series<SiteLabel>>,
    /// CPU time by phase, of all workers.
    pub cpu: CpuByPhase,
    /// Records by suite and direction.
    pub records: Vec<RecordSeries>,
    /// Bytes that connections hold now, by what they are used for.
    pub held: Vec<HeldBytes>,
    /// Age of the tickets and sessions that were taken up; `ticket_ages_millis` in JSON.
    #[serde(rename = "ticket_ages_millis")]
    pub ticket_ages: Distribution,
    /// How long closed connections had lived, by what they were last used for; `lifetimes_millis` in JSON.
    #[serde(rename = "lifetimes_millis")]
    pub lifetimes: Vec<Lifetimes>,
    /// Requests that closed HTTP connections had carried.
    pub requests_per_connection: Distribution,
    /// Tickets opened and sessions looked for.
    pub look_ups: LookUps,
    /// Tickets issued.
    pub tickets: Tickets,
    /// Tickets by the name of their key, where it is not held here.
    pub unknown_keys: Vec<Series<KeyLabel>>,
    /// Handshakes whose early data was offered and not taken.
    pub early_data_refused: u64,
    /// Resumed handshakes by how they found their state.
    pub resumptions: Vec<Series<MethodLabels>>,
    /// Full handshakes by the scheme of the server's signature.
    pub signatures: Vec<Series<SchemeLabel>>,
    /// Balance of workers.
    pub workers: Vec<WorkerCounts>,
    /// Facts about the whole process, filled in by the binary after merging.
    pub process: ProcessFacts,
}

/// Completed handshakes of one set of labels, and what they cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandshakeSeries {
    /// What they were.
    #[serde(flatten)]
    pub labels: HandshakeLabels,
    /// How many, since the process started.
    pub count: u64,
    /// CPU time of key exchange and signatures.
    pub asymmetric_nanos: u64,
    /// CPU time of the rest.
    pub derivation_nanos: u64,
}

/// CPU time of workers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuByPhase {
    /// Phase 1: key exchange and signatures.
    pub asymmetric_nanos: u64,
    /// Phase 2: the rest of handshakes.
    pub derivation_nanos: u64,
    /// Phase 3: records.
    pub records_nanos: u64,
    /// All that is no phase: kernel, HTTP, relaying, parsing names.
    pub not_tls_nanos: u64,
    /// All of it: what the workers were not at rest.
    pub busy_nanos: u64,
}

/// Records of one suite in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordSeries {
    /// IANA spelling, or `other`.
    pub suite: &'static str,
    /// `opened` or `sealed`.
    pub direction: &'static str,
    /// How many.
    pub records: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// CPU time.
    pub nanos: u64,
}

/// Bytes that connections hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBytes {
    /// `http`, `tcp`, `passthrough`, `handshake` or `other`.
    pub mode: &'static str,
    /// How many now; below zero only for one worker by itself, when another one allocated.
    pub bytes: i64,
}

/// How long closed connections had lived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lifetimes {
    /// What they were last used for: `http`, `tcp`, `passthrough`, `handshake` or `other`.
    pub mode: &'static str,
    /// Milliseconds.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// Tickets opened and sessions looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LookUps {
    /// How many.
    pub count: u64,
    /// CPU time.
    pub nanos: u64,
}

/// Tickets issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tickets {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A ticket key that is not held here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KeyLabel {
    /// Its name in hexadecimal, or `other` for names that lost their place.
    pub key: String,
    /// Whether the name keeps its place as long as the process lives: the others come and go.
    pub lasting: bool,
}

/// How a resumed handshake found its state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MethodLabels {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// `ticket` or `session_cache`.
    pub method: &'static str,
}

/// A signature scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SchemeLabel {
    /// Name in the IANA registry, or `other`.
    pub scheme: &'static str,
}

/// What a handshake was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HandshakeLabels {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// Listener, or `other`.
    pub listener: Arc<str>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// IANA spelling, or `other`.
    pub suite: &'static str,
    /// Named group, `none` (TLS 1.2 resumed) or `other`.
    pub group: &'static str,
    /// Kind of certificate, `none` when resumed.
    pub certificate: &'static str,
    /// `full`, `full_with_retry` or `resumed`.
    pub kind: &'static str,
}

/// Why a handshake was full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissLabels {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// Name of the resumption miss.
    pub reason: &'static str,
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HandshakeFailureLabels {
    /// Listener, or `other`.
    pub listener: Arc<str>,
    /// Name of the reason.
    pub reason: &'static str,
    /// Who can act.
    pub culprit: &'static str,
}

/// A kind of handshake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KindLabel {
    /// `full`, `full_with_retry` or `resumed`.
    pub kind: &'static str,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ListenerLabel {
    /// Listener, or `other`.
    pub listener: Arc<str>,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SiteLabel {
    /// Site, or `other`.
    pub site: Arc<str>,
}

/// Where connections are and what they are used for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ConnectionLabels {
    /// Listener, or `other`.
    pub listener: Arc<str>,
    /// `http`, `tcp`, `passthrough`, `handshake` or `other`.
    pub mode: &'static str,
}

/// Connections open now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenConnections {
    /// Where they are.
    #[serde(flatten)]
    pub labels: ConnectionLabels,
    /// How many.
    pub open: u64,
    /// How many there were since the process started, those of now included.
    pub opened: u64,
}

/// Why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RefusalLabels {
    /// Listener, or `other`.
    pub listener: Arc<str>,
    /// Name of the reason.
    pub reason: &'static str,
}

/// What a request was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RequestLabels {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// `HTTP/1.1`, `HTTP/2`, `HTTP/1.0` or `other`.
    pub protocol: &'static str,
    /// Status code; 0 where none was sent, or beyond the number of series that is kept.
    pub code: u16,
}

/// Where bytes went.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ByteLabels {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// `http`, `tcp`, `passthrough`, `handshake` or `other`.
    pub mode: &'static str,
    /// `client_in`, `client_out`, `backend_in` or `backend_out`.
    pub direction: &'static str,
}

/// What went wrong with which backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BackendFailureLabels {
    /// Site, or `other`.
    pub site: Arc<str>,
    /// Backend, or `other`.
    pub backend: Arc<str>,
    /// Name of the reason.
    pub reason: &'static str,
}

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerCounts {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Requests answered.
    pub requests: u64,
    /// CPU time by phase.
    #[serde(flatten)]
    pub cpu: CpuByPhase,
}

/// Facts about the whole process; every field is filled in by the binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessFacts {
    /// Version of Tollgate.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// When the process started, in seconds since 1970.
    pub started_seconds: f64,
    /// Cores that the process may use.
    pub cores: f64,
    /// Whether CPU time by phase is kept; where it is not, it is zero everywhere.
    pub ledger: bool,
    /// Memory that the session cache holds; `None` where it is not known.
    pub session_bytes: Option<u64>,
    /// Hash of the configuration in force.
    pub config_hash: String,
    /// Configurations that were taken over.
    pub reloads_succeeded: u64,
    /// Configurations that were refused.
    pub reloads_failed: u64,
    /// Access log lines that were dropped.
    pub log_lines_dropped: u64,
    /// How often accepting rested because the process or the machine was out of file descriptors.
    pub accept_rests: u64,
    /// Connections that may be open at a time.
    pub connections_allowed: u64,
    /// Sessions in the cache now.
    pub sessions_cached: u64,
    /// Backends, up or down.
    pub backends: Vec<BackendFact>,
    /// Certificates and their end.
    pub certificates: Vec<CertificateFact>,
    /// Number of each worker, and the CPU time that its thread took in seconds.
    pub worker_cpu_seconds: Vec<(usize, f64)>,
}

/// Whether a backend is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendFact {
    /// Site.
    pub site: Arc<str>,
    /// Backend.
    pub backend: Arc<str>,
    /// Whether it is given new work.
    pub up: bool,
}

/// When a certificate ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateFact {
    /// Site.
    pub site: Arc<str>,
    /// Kind of certificate, with a number where a site has two of a kind.
    pub certificate: Arc<str>,
    /// End of its validity; `expires_seconds` since 1970 in JSON.
    #[serde(rename = "expires_seconds", serialize_with = "seconds")]
    pub expires: UnixTime,
}

fn seconds<S: Serializer>(time: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}
