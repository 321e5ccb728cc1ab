//! The shape of `/live.json`: what a running Tollgate says of itself at this moment.
//!
//! The page, `tollgate top` and the drills read this and nothing else. Plain data both ways: written here,
//! read by programs on the other side of the wire. A field that cannot be known yet is `null`, never zero.

use serde::{Deserialize, Serialize};

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// When, in seconds since 1970.
    pub at_seconds: f64,
    /// Which process this is.
    pub instance: Instance,
    /// Rates over the last finished second.
    pub second: Rates,
    /// Rates over the last minute, or since the start when that is less.
    pub minute: Rates,
    /// The six phases, in their order.
    pub boxes: Vec<PhaseBox>,
    /// The phase that takes the most CPU over the last minute; `null` while there is no TLS.
    pub dominant: Option<Dominant>,
    /// What resumption saves, and what its loss would cost.
    pub price: Price,
    /// What was negotiated, over the last minute.
    pub mixes: Mixes,
    /// Full handshakes by the reason why they did not resume, over the last minute.
    pub misses: Vec<Portion>,
    /// Names of ticket keys that clients showed and that this process does not hold, the most frequent first.
    pub unknown_keys: Vec<UnknownKey>,
    /// Age of the tickets that resumed, in seconds.
    pub ticket_ages: Distribution,
    /// How long closed connections had lived, in seconds.
    pub lifetimes: Distribution,
    /// Requests that closed HTTP connections had carried.
    pub requests_per_connection: Distribution,
    /// Sites, the busiest first.
    pub sites: Vec<SiteLive>,
    /// Listeners, in the order of the configuration.
    pub listeners: Vec<ListenerLive>,
    /// Workers, by number.
    pub workers: Vec<WorkerLive>,
    /// Connections accepted by the busiest worker over the mean of all, over the last minute; 1 is even.
    pub worker_imbalance: Option<f64>,
    /// Certificates, the one that ends first ahead.
    pub certificates: Vec<CertificateLive>,
    /// Every alarm that is evaluated, those that fire first.
    pub alarms: Vec<AlarmLive>,
    /// Configurations that were in force since the start, oldest first, with what handshakes cost under each.
    pub configurations: Vec<ConfigurationLive>,
}

/// Which process this is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Version of Tollgate.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// When the process started, in seconds since 1970.
    pub started_seconds: f64,
    /// Hash of the configuration in force.
    pub config_hash: String,
    /// When that configuration took effect, in seconds since 1970.
    pub config_since_seconds: f64,
    /// Workers, each on a thread of its own.
    pub workers: usize,
    /// Cores that the workers can use: the smaller of their number and the cores of the process.
    pub cores: f64,
    /// Whether the ledger of CPU time is kept; without it times and bytes are `null` or zero.
    pub ledger: bool,
    /// CPU time that the ledger explains over what the kernel counted for the workers, since the start; near 1.
    pub ledger_agreement: Option<f64>,
}

/// Rates over an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Length of the interval, in seconds.
    pub seconds: f64,
    /// Full handshakes per second, those with a retry included.
    pub full_per_second: f64,
    /// Resumed handshakes per second.
    pub resumed_per_second: f64,
    /// Handshakes per second that did not complete.
    pub failed_per_second: f64,
    /// Resumed over all completed, 0 to 1; `null` without a handshake.
    pub hit_rate: Option<f64>,
    /// Connections accepted per second.
    pub accepted_per_second: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Requests over completed handshakes in HTTP mode; `null` without a handshake.
    pub requests_per_handshake: Option<f64>,
    /// Bytes per second from clients.
    pub client_in_bytes_per_second: f64,
    /// Bytes per second to clients.
    pub client_out_bytes_per_second: f64,
    /// CPU, in cores (seconds per second).
    pub cores: Cores,
    /// Phases 1 to 3 over the cores that there are, 0 to 1.
    pub tls_share: Option<f64>,
    /// Connections open at the end of the interval.
    pub open: Open,
}

/// CPU in cores: seconds of CPU time per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cores {
    /// Phase 1: key exchange and signatures.
    pub asymmetric: f64,
    /// Phase 2: the rest of handshakes.
    pub derivation: f64,
    /// Phase 3: records.
    pub records: f64,
    /// What workers did besides: kernel, HTTP, relaying.
    pub not_tls: f64,
    /// CPU time of the workers as the kernel counts it.
    pub workers: f64,
}

/// Connections open, by what they are used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Handshakes in flight.
    pub handshake: u64,
    /// HTTP mode.
    pub http: u64,
    /// TCP mode.
    pub tcp: u64,
    /// SNI passthrough.
    pub passthrough: u64,
}

/// One of the six phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseBox {
    /// 1 to 6.
    pub phase: u8,
    /// `asymmetric`, `derivation`, `records`, `handshake memory`, `connection memory` or `resumption`.
    pub name: String,
    /// What the phase is, in one sentence.
    pub about: String,
    /// The one figure to look at, over the last minute.
    pub headline: Reading,
    /// What it is made of.
    pub readings: Vec<Reading>,
}

/// A figure with its unit and its origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What it is, in words: `per full handshake, TLSv1.3 ecdsa-p256`.
    pub label: String,
    /// `null` when it cannot be known yet.
    pub value: Option<f64>,
    /// `micros`, `nanos_per_byte`, `bytes`, `cores`, `per_second`, `share`, `count` or `seconds`.
    pub unit: String,
    /// Where it comes from: `measured here over the last minute`, `from the sheet of 2026-11-20`, `assumed`.
    pub source: String,
}

/// Which phase costs the most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dominant {
    /// 1, 2 or 3.
    pub phase: u8,
    /// Its name.
    pub name: String,
    /// CPU microseconds per second.
    pub micros_per_second: f64,
    /// Its part of phases 1 to 3, 0 to 1.
    pub share: f64,
}

/// The price of a miss. Cores are of worker CPU, TLS and not TLS together, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Cores that the workers use now.
    pub cores_now: f64,
    /// Cores that there are.
    pub cores_there_are: f64,
    /// `cores_there_are` less `cores_now`.
    pub headroom_cores: f64,
    /// Cores that resumption saves at this moment; `null` until the cost of a full handshake is known.
    pub saved_cores: Option<f64>,
    /// Cores needed if half of the handshakes resumed.
    pub cores_at_half: Option<f64>,
    /// Cores needed if no handshake resumed.
    pub cores_at_zero: Option<f64>,
    /// Cores of phases 1 to 3 alone if no handshake resumed.
    pub tls_cores_at_zero: Option<f64>,
    /// Seconds until the cores are used up when the load goes on growing as over the last five minutes; `null` when
    /// it does not grow.
    pub seconds_of_headroom: Option<f64>,
    /// CPU microseconds that one miss costs more than a hit, in the live mix.
    pub micros_per_miss: Option<f64>,
    /// How each of these comes about, one line each: `saved = 412.0 resumed/s x (71.6 - 55.9) us = 0.006 cores`.
    pub arithmetic: Vec<String>,
    /// What is not measured but assumed, a sentence each; empty when everything is measured.
    pub assumptions: Vec<String>,
}

/// What was negotiated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mixes {
    /// `TLSv1.2`, `TLSv1.3`.
    pub versions: Vec<Portion>,
    /// IANA names.
    pub suites: Vec<Portion>,
    /// IANA names, `none` for a resumed TLS 1.2 handshake.
    pub groups: Vec<Portion>,
    /// Kinds of certificate, of full handshakes only.
    pub certificates: Vec<Portion>,
    /// `full`, `full_with_retry`, `resumed`.
    pub kinds: Vec<Portion>,
    /// Schemes of the server's signature, of full handshakes only.
    #[serde(default)]
    pub signatures: Vec<Portion>,
    /// `ticket`, `session_cache`: how resumed handshakes found their state.
    #[serde(default)]
    pub methods: Vec<Portion>,
}

/// A part of a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// Which part.
    pub name: String,
    /// Per second over the last minute.
    pub per_second: f64,
    /// Of the whole over the last minute, 0 to 1.
    pub share: f64,
    /// Number since the start.
    pub total: u64,
    /// CPU of phases 1 and 2 over the last minute, in cores; `null` where it is not kept apart.
    #[serde(default)]
    pub cores: Option<f64>,
    /// Resumed over all over the last minute, 0 to 1; `null` where it is not kept apart, as it is by version.
    #[serde(default)]
    pub hit_rate: Option<f64>,
}

/// A ticket key that is not held here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownKey {
    /// The key's name in hexadecimal. A name is not a secret.
    pub name: String,
    /// Tickets that named it.
    pub count: u64,
}

/// How often what was how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Upper bounds of the buckets, inclusive; one bucket more takes what is beyond.
    pub bounds: Vec<f64>,
    /// Number per bucket, not cumulative, since the start.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: f64,
}

/// A site over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteLive {
    /// Its label.
    pub site: String,
    /// Full handshakes per second.
    pub full_per_second: f64,
    /// Resumed handshakes per second.
    pub resumed_per_second: f64,
    /// Resumed over all, 0 to 1.
    pub hit_rate: Option<f64>,
    /// Requests per second.
    pub requests_per_second: f64,
    /// CPU of its handshakes (phases 1 and 2), in cores.
    pub handshake_cores: f64,
    /// CPU microseconds of phases 1 and 2 per full handshake.
    pub micros_per_full: Option<f64>,
    /// CPU microseconds of phases 1 and 2 per resumed handshake.
    pub micros_per_resumed: Option<f64>,
}

/// A listener over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListenerLive {
    /// Its label: the address.
    pub listener: String,
    /// Connections accepted per second.
    pub accepted_per_second: f64,
    /// Full handshakes per second.
    pub full_per_second: f64,
    /// Resumed handshakes per second.
    pub resumed_per_second: f64,
    /// Connections open now.
    pub open: u64,
}

/// A worker over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerLive {
    /// Its number, from 0.
    pub worker: usize,
    /// Connections accepted per second.
    pub accepted_per_second: f64,
    /// Handshakes completed per second.
    pub handshakes_per_second: f64,
    /// Requests answered per second.
    pub requests_per_second: f64,
    /// CPU in cores.
    pub cores: f64,
    /// CPU of phases 1 to 3 in cores; `null` where the ledger is off.
    #[serde(default)]
    pub tls_cores: Option<f64>,
}

/// A certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateLive {
    /// Site that it belongs to.
    pub site: String,
    /// Its kind, such as `ecdsa-p256`.
    pub certificate: String,
    /// End of its validity, in seconds since 1970.
    pub expires_seconds: u64,
    /// Days that are left; negative when it has ended.
    pub days_left: f64,
}

/// An alarm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlarmLive {
    /// Its name, such as `hit_rate_low`.
    pub name: String,
    /// What it is about where there can be several: a site, a certificate; else empty.
    pub subject: String,
    /// `quiet`, `pending` (the condition holds, not yet for long enough) or `firing`.
    pub state: String,
    /// Since when it is in this state, in seconds since 1970.
    pub since_seconds: f64,
    /// What was seen.
    pub value: Option<f64>,
    /// From where on it fires.
    pub threshold: f64,
    /// Unit of both, as in [`Reading`].
    pub unit: String,
    /// What it means, in one sentence.
    pub sentence: String,
    /// What to do, in one sentence.
    pub advice: String,
}

/// A configuration that is or was in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationLive {
    /// Its hash.
    pub hash: String,
    /// From when on, in seconds since 1970.
    pub since_seconds: f64,
    /// Handshakes completed under it.
    pub handshakes: u64,
    /// Resumed over all.
    pub hit_rate: Option<f64>,
    /// CPU microseconds of phases 1 and 2 per handshake.
    pub micros_per_handshake: Option<f64>,
    /// CPU of the workers, in cores.
    pub cores: f64,
}

/// The shape of `/history.json?seconds=N&points=M`: columns of equal length, oldest first, for graphs.
///
/// A column is the mean over each point's interval; `hit_rate` is `null` where nothing was shaken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Length of the interval of a point, in seconds.
    pub step_seconds: f64,
    /// End of each point's interval, in seconds since 1970.
    pub at_seconds: Vec<f64>,
    /// Full handshakes per second.
    pub full_per_second: Vec<f64>,
    /// Resumed handshakes per second.
    pub resumed_per_second: Vec<f64>,
    /// Resumed over all.
    pub hit_rate: Vec<Option<f64>>,
    /// Requests per second.
    pub requests_per_second: Vec<f64>,
    /// CPU in cores: asymmetric.
    pub asymmetric_cores: Vec<f64>,
    /// CPU in cores: derivation.
    pub derivation_cores: Vec<f64>,
    /// CPU in cores: records.
    pub records_cores: Vec<f64>,
    /// CPU in cores: not TLS.
    pub not_tls_cores: Vec<f64>,
    /// CPU in cores: all of the workers, as the kernel counts it.
    pub worker_cores: Vec<f64>,
    /// Cores needed at 0 % hits.
    pub cores_at_zero: Vec<Option<f64>>,
    /// Misses per second by reason.
    pub misses: Vec<NamedColumn>,
    /// Handshakes per second by suite.
    pub suites: Vec<NamedColumn>,
    /// Handshakes per second by version.
    pub versions: Vec<NamedColumn>,
    /// Handshakes per second by group.
    pub groups: Vec<NamedColumn>,
    /// Full handshakes per second by kind of certificate.
    pub certificates: Vec<NamedColumn>,
    /// Full handshakes per second by scheme of the server's signature.
    #[serde(default)]
    pub signatures: Vec<NamedColumn>,
    /// Configurations that took effect in this time.
    pub marks: Vec<Mark>,
}

/// A column with a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedColumn {
    /// Label value.
    pub name: String,
    /// As long as the other columns.
    pub values: Vec<f64>,
}

/// Something that happened, to be drawn on the graphs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When, in seconds since 1970.
    pub at_seconds: f64,
    /// `start`, `reload` or `alarm`.
    pub kind: String,
    /// Hash of the configuration, or the sentence of the alarm.
    pub text: String,
}
