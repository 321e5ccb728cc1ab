//! Every metric that is written: its name, kind, labels and help. The one table: what is written, exported and
//! documented is made from it.

/// What kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only grows while the process lives; ends in `_total`.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Always 1; what it says is in its labels. Ends in `_info`.
    Info,
    /// Counts in cumulative buckets, with their sum and number.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// Its whole name, as queries write it; a histogram's without `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// What it says, in one sentence.
    pub help: &'static str,
}

impl MetricDefinition {
    /// Names of the samples that are written for it.
    pub fn samples(&self) -> Vec<String> {
        match self.kind {
            MetricKind::Counter | MetricKind::Gauge | MetricKind::Info => {
                vec![self.name.to_owned()]
            }
            MetricKind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .map(|ending| format!("{}{ending}", self.name))
                .collect(),
        }
    }

    /// `seconds`, `bytes` or `ratio`, where the name says so; else nothing.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        let base = self.name.trim_end_matches("_total");
        ["seconds", "bytes", "ratio"]
            .into_iter()
            .find(|unit| base.ends_with(unit))
    }
}

/// Every metric that `/metrics` can have, in the order in which it is written.
pub fn definitions() -> &'static [MetricDefinition] {
    DEFINITIONS
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: MetricDefinition = MetricDefinition {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*
        static DEFINITIONS: &[MetricDefinition] = &[$($constant),*];
    };
}

metrics! {
    HANDSHAKES: Counter "tollgate_handshakes_total"
        ["site", "listener", "version", "suite", "group", "certificate", "kind"]
        "Completed TLS handshakes by what they were.";
    HANDSHAKE_CPU: Counter "tollgate_handshake_cpu_seconds_total"
        ["site", "listener", "version", "suite", "group", "certificate", "kind", "phase"]
        "CPU time of completed handshakes: key exchange and signatures (asymmetric), and the rest (derivation).";
    MISSES: Counter "tollgate_resumption_misses_total" ["site", "reason"]
        "Handshakes that were full, by the reason why they did not resume.";
    RESUMPTIONS: Counter "tollgate_resumptions_total" ["version", "method"]
        "Handshakes that resumed, by how they found their state.";
    SIGNATURES: Counter "tollgate_signatures_total" ["scheme"]
        "Full handshakes by the scheme of the server's signature.";
    HANDSHAKE_FAILURES: Counter "tollgate_handshake_failures_total" ["listener", "reason", "culprit"]
        "Handshakes that did not complete, by reason and by who can act.";
    HANDSHAKE_TIMES: Histogram "tollgate_handshake_seconds" ["kind"]
        "Wall time of completed handshakes, from the first byte to the end.";
    EARLY_DATA_REFUSED: Counter "tollgate_early_data_refused_total" []
        "Handshakes whose early data was offered and not taken.";
    CPU: Counter "tollgate_cpu_seconds_total" ["phase"]
        "CPU time of the workers by phase; not_tls is kernel, HTTP and relaying. Written where the ledger is on.";
    RECORD_CPU: Counter "tollgate_record_cpu_seconds_total" ["suite", "direction"]
        "CPU time of opening and sealing records. Written where the ledger is on.";
    RECORD_BYTES: Counter "tollgate_record_bytes_total" ["suite", "direction"]
        "Bytes of content of records opened and sealed.";
    RECORDS: Counter "tollgate_records_total" ["suite", "direction"]
        "Records opened and sealed.";
    LEDGER_AGREEMENT: Gauge "tollgate_ledger_agreement_ratio" []
        "CPU time that the ledger explains over what the kernel counted for the workers, since the start; near 1.";
    CONNECTIONS: Gauge "tollgate_connections" ["listener", "mode"]
        "Connections open now, by what they are used for.";
    ACCEPTED: Counter "tollgate_connections_total" ["listener"]
        "Connections accepted.";
    REFUSED: Counter "tollgate_connections_refused_total" ["listener", "reason"]
        "Connections closed before they were served, by reason.";
    CONNECTION_MEMORY: Gauge "tollgate_connection_memory_bytes" ["mode"]
        "Memory that connections hold now by what they are used for, as the allocator counts it between requests, without the kernel's. Written where the ledger is on.";
    LIFETIMES: Histogram "tollgate_connection_lifetime_seconds" ["mode"]
        "How long closed connections had lived, by what they were last used for.";
    REQUESTS_PER_CONNECTION: Histogram "tollgate_requests_per_connection" []
        "Requests that closed HTTP connections had carried.";
    REQUESTS: Counter "tollgate_requests_total" ["site", "protocol", "code"]
        "Requests by protocol and status code; code none where no response was sent.";
    REQUEST_TIMES: Histogram "tollgate_request_seconds" ["site"]
        "Wall time from request to the end of the response.";
    BYTES: Counter "tollgate_bytes_total" ["site", "mode", "direction"]
        "Bytes moved, without what TLS adds.";
    TICKET_AGES: Histogram "tollgate_ticket_age_seconds" []
        "Age of the tickets and sessions that were taken up.";
    LOOK_UPS: Counter "tollgate_resumption_look_ups_total" []
        "Tickets opened and sessions looked for, found or not.";
    LOOK_UP_TIME: Counter "tollgate_resumption_look_up_seconds_total" []
        "CPU time of opening tickets and looking for sessions.";
    TICKETS: Counter "tollgate_tickets_issued_total" []
        "Tickets issued.";
    TICKET_BYTES: Counter "tollgate_ticket_bytes_total" []
        "Bytes of the tickets issued.";
    UNKNOWN_KEYS: Counter "tollgate_unknown_ticket_keys_total" ["key"]
        "Tickets of keys that are not held here, by the name of the key; other is all names seen rarely.";
    SESSIONS: Gauge "tollgate_sessions_cached" []
        "TLS 1.2 sessions in the cache now.";
    SESSION_MEMORY: Gauge "tollgate_session_memory_bytes" []
        "Memory that the session cache holds now.";
    HIT_RATIO: Gauge "tollgate_hit_ratio" []
        "Resumed over all handshakes of the last minute; absent without a handshake.";
    REQUESTS_PER_HANDSHAKE: Gauge "tollgate_requests_per_handshake" []
        "Requests over handshakes in HTTP mode in the last minute; absent without a handshake.";
    CORES: Gauge "tollgate_cores" []
        "Cores that the workers can use.";
    HEADROOM_CORES: Gauge "tollgate_headroom_cores" []
        "Cores that the workers did not use over the last minute.";
    SAVED_CORES: Gauge "tollgate_saved_cores" []
        "Cores that resumption saved over the last minute; absent until the cost of a full handshake is known.";
    CORES_AT_HALF: Gauge "tollgate_cores_at_half_hits" []
        "Cores that the load of the last minute would need if half of the handshakes resumed.";
    CORES_AT_ZERO: Gauge "tollgate_cores_at_zero_hits" []
        "Cores that the load of the last minute would need if no handshake resumed.";
    ALARM: Gauge "tollgate_alarm" ["alarm", "subject"]
        "Whether an alarm fires (1) or not (0).";
    ALARM_CHANGES: Counter "tollgate_alarm_changes_total" ["alarm"]
        "How often an alarm began to fire or went quiet.";
    BACKEND_UP: Gauge "tollgate_backend_up" ["site", "backend"]
        "Whether a backend is given new work (1) or not (0).";
    BACKEND_FAILURES: Counter "tollgate_backend_failures_total" ["site", "backend", "reason"]
        "What went wrong with backends, by reason.";
    RETRIES: Counter "tollgate_retries_total" ["site"]
        "Requests that were sent to a further backend.";
    WORKER_ACCEPTED: Counter "tollgate_worker_accepted_total" ["worker"]
        "Connections accepted by a worker.";
    WORKER_HANDSHAKES: Counter "tollgate_worker_handshakes_total" ["worker"]
        "Handshakes completed by a worker.";
    WORKER_REQUESTS: Counter "tollgate_worker_requests_total" ["worker"]
        "Requests answered by a worker.";
    WORKER_CPU: Counter "tollgate_worker_cpu_seconds_total" ["worker"]
        "CPU time of a worker's thread, user and system, as the kernel counts it.";
    WORKER_PHASE_CPU: Counter "tollgate_worker_phase_cpu_seconds_total" ["worker", "phase"]
        "CPU time of a worker by phase, as the ledger counts it. Written where the ledger is on.";
    WORKER_IMBALANCE: Gauge "tollgate_worker_imbalance" []
        "Connections accepted by the busiest worker over the mean of all, since the start; 1 is even.";
    LOG_LINES_DROPPED: Counter "tollgate_log_lines_dropped_total" []
        "Access log lines that were dropped: the disk was full or nobody kept up reading.";
    RELOADS: Counter "tollgate_reloads_total" ["result"]
        "Reloads of the configuration, by result.";
    ACCEPT_RESTS: Counter "tollgate_accept_rests_total" []
        "How often accepting rested for want of file descriptors.";
    CONNECTIONS_ALLOWED: Gauge "tollgate_connections_allowed" []
        "Connections that may be open at a time.";
    CERTIFICATE_EXPIRY: Gauge "tollgate_certificate_expiry_timestamp_seconds" ["site", "certificate"]
        "When a certificate ends, in seconds since 1970; of two alike, the one that ends first.";
    CONFIG: Info "tollgate_config_info" ["hash"]
        "Hash of the configuration in force.";
    CONFIG_SINCE: Gauge "tollgate_config_since_timestamp_seconds" []
        "When the configuration in force took effect, in seconds since 1970.";
    BUILD: Info "tollgate_build_info" ["version"]
        "Version of Tollgate.";
}
