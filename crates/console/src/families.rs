//! Every metric by name, with its help.

use tollgate_meter::Snapshot;

use crate::exposition::{Dialect, Exposition, Kind};

/// The snapshot as Prometheus text, version 0.0.4.
pub fn prometheus(snapshot: &Snapshot) -> String {
    write(snapshot, Dialect::Prometheus)
}

/// The snapshot as OpenMetrics text, version 1.0.0.
pub fn open_metrics(snapshot: &Snapshot) -> String {
    write(snapshot, Dialect::OpenMetrics)
}

fn write(snapshot: &Snapshot, dialect: Dialect) -> String {
    let mut text = Exposition::new(dialect);
    handshakes(snapshot, &mut text);
    connections(snapshot, &mut text);
    requests(snapshot, &mut text);
    backends(snapshot, &mut text);
    workers(snapshot, &mut text);
    process(snapshot, &mut text);
    text.finish()
}

fn handshakes(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(
        "tollgate_handshakes",
        Kind::Counter,
        "Completed TLS handshakes by what they were.",
    );
    for one in &snapshot.handshakes {
        let labels = &one.labels;
        family.sample(
            &[
                ("site", &labels.site),
                ("listener", &labels.listener),
                ("version", labels.version),
                ("suite", labels.suite),
                ("group", labels.group),
                ("certificate", labels.certificate),
                ("kind", labels.kind),
            ],
            one.count,
        );
    }
    let mut family = text.family(
        "tollgate_resumption_misses",
        Kind::Counter,
        "Handshakes that were full, by the reason why they did not resume.",
    );
    for one in &snapshot.resumption_misses {
        family.sample(
            &[("site", &one.labels.site), ("reason", one.labels.reason)],
            one.count,
        );
    }
    let mut family = text.family(
        "tollgate_handshake_failures",
        Kind::Counter,
        "Handshakes that did not complete, by reason and by who can act.",
    );
    for one in &snapshot.handshake_failures {
        family.sample(
            &[
                ("listener", &one.labels.listener),
                ("reason", one.labels.reason),
                ("culprit", one.labels.culprit),
            ],
            one.count,
        );
    }
    let mut family = text.family(
        "tollgate_handshake_seconds",
        Kind::Histogram,
        "Wall time of completed handshakes, from the first byte to the end.",
    );
    for one in &snapshot.handshake_times {
        family.histogram(&[("kind", one.labels.kind)], &one.histogram);
    }
}

fn connections(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(
        "tollgate_connections",
        Kind::Gauge,
        "Connections open now, by what they are used for.",
    );
    for one in &snapshot.connections {
        family.sample(
            &[
                ("listener", &one.labels.listener),
                ("mode", one.labels.mode),
            ],
            one.open,
        );
    }
    let mut family = text.family(
        "tollgate_connections",
        Kind::CounterBesideGauge,
        "Connections accepted.",
    );
    for one in &snapshot.accepted {
        family.sample(&[("listener", &one.labels.listener)], one.count);
    }
    let mut family = text.family(
        "tollgate_connections_refused",
        Kind::Counter,
        "Connections closed before they were served, by reason.",
    );
    for one in &snapshot.refused {
        family.sample(
            &[
                ("listener", &one.labels.listener),
                ("reason", one.labels.reason),
            ],
            one.count,
        );
    }
}

fn requests(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(
        "tollgate_requests",
        Kind::Counter,
        "Requests by protocol and status code; code none where no response was sent.",
    );
    for one in &snapshot.requests {
        let code = match one.labels.code {
            0 => "none".to_owned(),
            code => code.to_string(),
        };
        family.sample(
            &[
                ("site", &one.labels.site),
                ("protocol", one.labels.protocol),
                ("code", &code),
            ],
            one.count,
        );
    }
    let mut family = text.family(
        "tollgate_request_seconds",
        Kind::Histogram,
        "Wall time from request to the end of the response.",
    );
    for one in &snapshot.request_times {
        family.histogram(&[("site", &one.labels.site)], &one.histogram);
    }
    let mut family = text.family(
        "tollgate_bytes",
        Kind::Counter,
        "Bytes moved, without what TLS adds.",
    );
    for one in &snapshot.bytes {
        family.sample(
            &[
                ("site", &one.labels.site),
                ("mode", one.labels.mode),
                ("direction", one.labels.direction),
            ],
            one.count,
        );
    }
}

fn backends(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(
        "tollgate_backend_up",
        Kind::Gauge,
        "Whether a backend is given new work (1) or not (0).",
    );
    for one in &snapshot.process.backends {
        family.sample(
            &[("site", &one.site), ("backend", &one.backend)],
            u8::from(one.up),
        );
    }
    let mut family = text.family(
        "tollgate_backend_failures",
        Kind::Counter,
        "What went wrong with backends, by reason.",
    );
    for one in &snapshot.backend_failures {
        family.sample(
            &[
                ("site", &one.labels.site),
                ("backend", &one.labels.backend),
                ("reason", one.labels.reason),
            ],
            one.count,
        );
    }
    let mut family = text.family(
        "tollgate_retries",
        Kind::Counter,
        "Requests that were sent to a further backend.",
    );
    for one in &snapshot.retries {
        family.sample(&[("site", &one.labels.site)], one.count);
    }
}

fn workers(snapshot: &Snapshot, text: &mut Exposition) {
    for (name, help, count) in [
        (
            "tollgate_worker_accepted",
            "Connections accepted by a worker.",
            (|worker| worker.accepted) as fn(&tollgate_meter::WorkerCounts) -> u64,
        ),
        (
            "tollgate_worker_handshakes",
            "Handshakes completed by a worker.",
            |worker| worker.handshakes,
        ),
        (
            "tollgate_worker_requests",
            "Requests answered by a worker.",
            |worker| worker.requests,
        ),
    ] {
        let mut family = text.family(name, Kind::Counter, help);
        for worker in &snapshot.workers {
            family.sample(&[("worker", &worker.worker.to_string())], count(worker));
        }
    }
    let mut family = text.family(
        "tollgate_worker_cpu_seconds",
        Kind::Counter,
        "CPU time of a worker's thread, user and system.",
    );
    for (worker, seconds) in &snapshot.process.worker_cpu_seconds {
        family.sample(&[("worker", &worker.to_string())], seconds);
    }
    let mut family = text.family(
        "tollgate_worker_imbalance",
        Kind::Gauge,
        "Connections accepted by the busiest worker over the mean of all; 1 is even.",
    );
    if let Some(imbalance) = snapshot.worker_imbalance() {
        family.sample(&[], imbalance);
    }
}

fn process(snapshot: &Snapshot, text: &mut Exposition) {
    let process = &snapshot.process;
    text.family(
        "tollgate_log_lines_dropped",
        Kind::Counter,
        "Access log lines that were dropped: the disk was full or nobody kept up reading.",
    )
    .sample(&[], process.log_lines_dropped);
    let mut reloads = text.family(
        "tollgate_reloads",
        Kind::Counter,
        "Reloads of the configuration, by result.",
    );
    reloads.sample(&[("result", "succeeded")], process.reloads_succeeded);
    reloads.sample(&[("result", "failed")], process.reloads_failed);
    text.family(
        "tollgate_accept_rests",
        Kind::Counter,
        "How often accepting rested for want of file descriptors.",
    )
    .sample(&[], process.accept_rests);
    text.family(
        "tollgate_connections_allowed",
        Kind::Gauge,
        "Connections that may be open at a time.",
    )
    .sample(&[], process.connections_allowed);
    let mut family = text.family(
        "tollgate_certificate_expiry_timestamp_seconds",
        Kind::Gauge,
        "When a certificate ends, in seconds since 1970.",
    );
    for one in &process.certificates {
        family.sample(
            &[("site", &one.site), ("certificate", &one.certificate)],
            one.expires.0,
        );
    }
    text.family(
        "tollgate_sessions_cached",
        Kind::Gauge,
        "TLS 1.2 sessions in the cache now.",
    )
    .sample(&[], process.sessions_cached);
    text.family(
        "tollgate_config",
        Kind::Info,
        "Hash of the configuration in force.",
    )
    .sample(&[("hash", &process.config_hash)], 1);
    text.family("tollgate_build", Kind::Info, "Version of Tollgate.")
        .sample(&[("version", &process.version)], 1);
}
