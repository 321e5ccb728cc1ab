//! The one table of alarms.

/// An alarm, by what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alarm {
    /// Too few handshakes resume.
    HitRateLow,
    /// Too many full handshakes.
    FreshRateHigh,
    /// Too many full handshakes for the cores there are.
    FreshRatePerCoreHigh,
    /// TLS takes too much of the machine.
    TlsCpuHigh,
    /// Without resumption the machine would not do.
    ColdCacheOverCapacity,
    /// Clients reuse connections far less than before.
    RequestsPerHandshakeFallen,
    /// A certificate ends soon.
    CertificateExpiring,
    /// A reload made handshakes dearer.
    CertificateDearer,
    /// Clients come with tickets of keys that are not held here.
    UnknownTicketKeys,
    /// Connections do not spread evenly.
    WorkerImbalance,
}

impl Alarm {
    /// All alarms, in the order of [`DEFINITIONS`].
    pub const ALL: [Self; 10] = [
        Self::HitRateLow,
        Self::FreshRateHigh,
        Self::FreshRatePerCoreHigh,
        Self::TlsCpuHigh,
        Self::ColdCacheOverCapacity,
        Self::RequestsPerHandshakeFallen,
        Self::CertificateExpiring,
        Self::CertificateDearer,
        Self::UnknownTicketKeys,
        Self::WorkerImbalance,
    ];

    /// What the table says of it.
    pub fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.definition().name
    }
}

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Now: clients notice, or will within hours.
    Critical,
    /// At the next occasion.
    Warning,
}

impl Severity {
    /// As a label: `critical` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// What there is to say of an alarm, whatever its state.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Which.
    pub alarm: Alarm,
    /// Its name, in metrics, logs and the webhook: `hit_rate_low`.
    pub name: &'static str,
    /// Its field under `alarms:` in `tls.yaml`.
    pub field: &'static str,
    /// What it means, one sentence.
    pub sentence: &'static str,
    /// Why it matters, one or two sentences.
    pub reason: &'static str,
    /// What to do, one or two sentences.
    pub advice: &'static str,
    /// Unit of value and threshold: `share`, `per_second`, `cores`, `seconds`, `micros` or `times`.
    pub unit: &'static str,
    /// How soon somebody should look.
    pub severity: Severity,
    /// Whether it must hold for a while before it fires; a fact, such as a certificate's end, need not.
    pub held: bool,
    /// The same in PromQL, over metrics of the console alone; see [`Definition::promql`].
    pub expression: &'static str,
}

impl Definition {
    /// A text of the table as a sentence: with a capital letter and a full stop.
    pub fn whole(text: &str) -> String {
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}.", first.to_uppercase())
    }

    /// The expression with a threshold in its unit. Without one (`cold_cache_over_capacity` has the cores
    /// there are, `certificate_dearer` none) the argument is not used.
    pub fn promql(&self, threshold: f64) -> String {
        // Twice what a minute needs for chance alone to stay under the threshold, as the window is two.
        let enough = 2.0 * enough_connections(threshold);
        self.expression
            .replace("{threshold}", &threshold.to_string())
            .replace("{enough}", &format!("{enough:.0}"))
    }

    /// The definition of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        DEFINITIONS
            .iter()
            .find(|definition| definition.name == name)
    }
}

/// Connections of a worker from which on an imbalance says something: four standard deviations of what a
/// fair spread gives a worker stay under `threshold`.
pub(super) fn enough_connections(threshold: f64) -> f64 {
    const DEVIATIONS: f64 = 4.0;
    (DEVIATIONS / (threshold - 1.0)).powi(2)
}

/// Every alarm there is.
pub static DEFINITIONS: [Definition; 10] = [
    Definition {
        alarm: Alarm::HitRateLow,
        name: "hit_rate_low",
        field: "hit_rate_below",
        sentence: "fewer handshakes resume than should",
        reason: "every handshake that does not resume is a full one: it costs a signature, and the client another \
                 look at the certificate chain. A rate that falls is often the first sign of lost ticket keys",
        advice: "look at the misses by reason: unknown_key is a fleet out of step or a restart, expired a lifetime \
                 that is too short, nothing_offered clients that are new or do not keep sessions",
        unit: "share",
        severity: Severity::Warning,
        held: true,
        expression: "tollgate_hit_ratio < {threshold}\n\
                     and on (instance, job) sum by (instance, job) (rate(tollgate_handshakes_total[2m])) >= 1",
    },
    Definition {
        alarm: Alarm::FreshRateHigh,
        name: "fresh_rate_high",
        field: "fresh_per_second_above",
        sentence: "this instance makes more full handshakes a second than it should",
        reason: "full handshakes are what TLS costs most for; their rate, not that of requests, decides how many \
                 cores are needed",
        advice: "see whether the hit rate fell (then see its misses), whether clients stopped keeping connections \
                 open, or whether one address opens them all (limits: connections_per_client)",
        unit: "per_second",
        severity: Severity::Critical,
        held: true,
        expression: "sum by (instance, job) (rate(tollgate_handshakes_total{kind!=\"resumed\"}[2m])) > {threshold}",
    },
    Definition {
        alarm: Alarm::FreshRatePerCoreHigh,
        name: "fresh_rate_per_core_high",
        field: "fresh_per_second_per_core_above",
        sentence: "each core makes more full handshakes a second than it should",
        reason: "the same threshold for machines of every size: a core does some thousands of full handshakes \
                 with ECDSA and far fewer with RSA",
        advice: "as for fresh_rate_high; `tollgate bench` says how many a core of this machine can do",
        unit: "per_second",
        severity: Severity::Critical,
        held: true,
        expression: "sum by (instance, job) (rate(tollgate_handshakes_total{kind!=\"resumed\"}[2m]))\n\
                     / on (instance, job) tollgate_cores > {threshold}",
    },
    Definition {
        alarm: Alarm::TlsCpuHigh,
        name: "tls_cpu_high",
        field: "tls_cpu_above",
        sentence: "TLS takes more of this machine's cores than it should",
        reason: "what TLS takes is not there for anything else, and it can double within a second when clients \
                 reconnect",
        advice: "see which phase dominates: asymmetric is full handshakes (hit rate, kind of certificate), records \
                 is traffic; add cores when it is as it should be",
        unit: "share",
        severity: Severity::Critical,
        held: true,
        expression: "sum by (instance, job) (rate(tollgate_cpu_seconds_total{phase!=\"not_tls\"}[2m]))\n\
                     / on (instance, job) tollgate_cores > {threshold}",
    },
    Definition {
        alarm: Alarm::ColdCacheOverCapacity,
        name: "cold_cache_over_capacity",
        field: "cold_cache",
        sentence: "if no client could resume, this machine would not have the cores for it",
        reason: "losing ticket keys, or a restart of a whole fleet, makes every handshake a full one for a while. \
                 What runs well today would then run into the wall",
        advice: "add cores or instances, or use a cheaper kind of certificate, and upgrade by SIGUSR2, which keeps \
                 ticket keys, rather than by a restart; the price of a miss on the console shows the arithmetic",
        unit: "cores",
        severity: Severity::Warning,
        held: true,
        expression: "tollgate_cores_at_zero_hits > on (instance, job) tollgate_cores",
    },
    Definition {
        alarm: Alarm::RequestsPerHandshakeFallen,
        name: "requests_per_handshake_fallen",
        field: "requests_per_handshake_fall",
        sentence: "clients make far fewer requests over each handshake than minutes ago",
        reason: "cost follows handshakes, not requests: the same requests over five times as many handshakes cost \
                 five times as much TLS, while a graph of requests shows nothing",
        advice: "look for what closes connections: a load balancer or client released with keep-alive off, \
                 timeouts: idle set too low, a proxy in front that was changed",
        unit: "times",
        severity: Severity::Warning,
        held: true,
        expression: "max_over_time(tollgate_requests_per_handshake[5m])\n\
                     / on (instance, job) tollgate_requests_per_handshake > {threshold}\n\
                     and on (instance, job) sum by (instance, job) (rate(tollgate_handshakes_total[2m])) >= 1",
    },
    Definition {
        alarm: Alarm::CertificateExpiring,
        name: "certificate_expiring",
        field: "certificate_expires_within",
        sentence: "a certificate that is served ends soon",
        reason: "clients refuse a certificate from the second it ends, all of them at once",
        advice: "see why it was not renewed (certbot: `certbot renew --dry-run`), put the new files in place, and \
                 run tollgate reload",
        unit: "seconds",
        severity: Severity::Critical,
        held: false,
        expression: "tollgate_certificate_expiry_timestamp_seconds - time() < {threshold}",
    },
    Definition {
        alarm: Alarm::CertificateDearer,
        name: "certificate_dearer",
        field: "certificate_dearer",
        sentence: "a reload replaced a site's certificate by one whose signatures cost more",
        reason: "a renewal that falls back from ECDSA to RSA makes each full handshake several times as dear, and \
                 nothing else shows it until the next rush",
        advice: "renew with the former kind of key (certbot: --key-type ecdsa) and run tollgate reload; if it is \
                 meant, tollgate reload --allow-dearer-certificate",
        unit: "micros",
        severity: Severity::Warning,
        held: false,
        expression: "tollgate_alarm{alarm=\"certificate_dearer\"} > 0",
    },
    Definition {
        alarm: Alarm::UnknownTicketKeys,
        name: "unknown_ticket_keys",
        field: "unknown_keys_above",
        sentence: "clients come with tickets whose keys this instance does not hold",
        reason: "another instance made those tickets and its keys are not shared, or this one lost its own at a \
                 restart; each such client makes a full handshake",
        advice: "behind a load balancer, send a client back to the instance that it came from, as instances do not \
                 share keys; after a restart it passes by itself, and an upgrade by SIGUSR2 keeps the keys",
        unit: "share",
        severity: Severity::Warning,
        held: true,
        expression: "sum by (instance, job) (rate(tollgate_resumption_misses_total{reason=\"unknown_key\"}[2m]))\n\
                     / on (instance, job) sum by (instance, job) (rate(tollgate_handshakes_total[2m])) > {threshold}\n\
                     and on (instance, job) sum by (instance, job) (rate(tollgate_handshakes_total[2m])) >= 1",
    },
    Definition {
        alarm: Alarm::WorkerImbalance,
        name: "worker_imbalance",
        field: "worker_imbalance_above",
        sentence: "one worker gets more new connections than the others",
        reason: "the busiest worker is full while others idle: capacity ends below what the cores could do, and the \
                 slowest answers come from there",
        advice: "a few clients with very many connections, or a proxy in front with few: write workers: { accept: \
                 dispatch }, which deals connections out in turn",
        unit: "times",
        severity: Severity::Warning,
        held: true,
        expression: "max by (instance, job) (rate(tollgate_worker_accepted_total[2m]))\n\
                     / on (instance, job) avg by (instance, job) (rate(tollgate_worker_accepted_total[2m])) > {threshold}\n\
                     and on (instance, job) avg by (instance, job) (increase(tollgate_worker_accepted_total[2m])) >= {enough}",
    },
];
