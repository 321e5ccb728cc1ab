//! What is written for each metric of the table.

use std::collections::BTreeMap;

use tollgate_meter::{CpuByPhase, Snapshot, Totals, WorkerCounts};

use crate::definitions::{self as metric, MetricDefinition};
use crate::exposition::{Dialect, Exposition};
use crate::live::agreement;
use crate::observed::Observed;
use crate::price::price;

/// What was observed as Prometheus text, version 0.0.4.
pub fn prometheus(observed: &Observed<'_>) -> String {
    write(observed, Dialect::Prometheus)
}

/// What was observed as OpenMetrics text, version 1.0.0.
pub fn open_metrics(observed: &Observed<'_>) -> String {
    write(observed, Dialect::OpenMetrics)
}

fn write(observed: &Observed<'_>, dialect: Dialect) -> String {
    let mut text = Exposition::new(dialect);
    let snapshot = observed.snapshot;
    handshakes(snapshot, &mut text);
    kinds(snapshot, &mut text);
    ledger(snapshot, &mut text);
    connections(snapshot, &mut text);
    requests(snapshot, &mut text);
    resumption(snapshot, &mut text);
    last_minute(observed, &mut text);
    alarms(observed, &mut text);
    backends(snapshot, &mut text);
    workers(snapshot, &mut text);
    process(observed, &mut text);
    text.finish()
}

fn handshakes(snapshot: &Snapshot, text: &mut Exposition) {
    fn labels(one: &tollgate_meter::HandshakeSeries) -> [&str; 7] {
        let labels = &one.labels;
        [
            &labels.site,
            &labels.listener,
            labels.version,
            labels.suite,
            labels.group,
            labels.certificate,
            labels.kind,
        ]
    }
    let mut family = text.family(metric::HANDSHAKES);
    for one in &snapshot.handshakes {
        family.sample(&labels(one), one.count);
    }
    let mut family = text.family(metric::HANDSHAKE_CPU);
    for one in snapshot
        .handshakes
        .iter()
        .filter(|_| snapshot.process.ledger)
    {
        let [a, b, c, d, e, f, g] = labels(one);
        let phases = [
            ("asymmetric", one.asymmetric_nanos),
            ("derivation", one.derivation_nanos),
        ];
        for (phase, nanos) in phases {
            family.nanos(&[a, b, c, d, e, f, g, phase], nanos);
        }
    }
}

fn kinds(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(metric::MISSES);
    for one in &snapshot.resumption_misses {
        family.sample(&[&one.labels.site, one.labels.reason], one.count);
    }
    let mut family = text.family(metric::RESUMPTIONS);
    for one in &snapshot.resumptions {
        family.sample(&[one.labels.version, one.labels.method], one.count);
    }
    let mut family = text.family(metric::SIGNATURES);
    for one in &snapshot.signatures {
        family.sample(&[one.labels.scheme], one.count);
    }
    let mut family = text.family(metric::HANDSHAKE_FAILURES);
    for one in &snapshot.handshake_failures {
        let labels = &one.labels;
        family.sample(
            &[&labels.listener, labels.reason, labels.culprit],
            one.count,
        );
    }
    let mut family = text.family(metric::HANDSHAKE_TIMES);
    for one in &snapshot.handshake_times {
        family.histogram(&[one.labels.kind], &one.histogram);
    }
    text.family(metric::EARLY_DATA_REFUSED)
        .sample(&[], snapshot.early_data_refused);
}

fn phases(cpu: CpuByPhase) -> [(&'static str, u64); 4] {
    [
        ("asymmetric", cpu.asymmetric_nanos),
        ("derivation", cpu.derivation_nanos),
        ("records", cpu.records_nanos),
        ("not_tls", cpu.not_tls_nanos),
    ]
}

/// Where the ledger is off, what it would say is left out: zero would be a lie.
fn ledger(snapshot: &Snapshot, text: &mut Exposition) {
    let ledger = snapshot.process.ledger;
    let mut family = text.family(metric::CPU);
    for (phase, nanos) in phases(snapshot.cpu).into_iter().filter(|_| ledger) {
        family.nanos(&[phase], nanos);
    }
    let mut family = text.family(metric::RECORD_CPU);
    for one in snapshot.records.iter().filter(|_| ledger) {
        family.nanos(&[one.suite, one.direction], one.nanos);
    }
    let mut family = text.family(metric::RECORD_BYTES);
    for one in &snapshot.records {
        family.sample(&[one.suite, one.direction], one.bytes);
    }
    let mut family = text.family(metric::RECORDS);
    for one in &snapshot.records {
        family.sample(&[one.suite, one.direction], one.records);
    }
    let mut family = text.family(metric::LEDGER_AGREEMENT);
    if let Some(ratio) = agreement(ledger, &Totals::of(snapshot)) {
        family.sample(&[], ratio);
    }
}

fn connections(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(metric::CONNECTIONS);
    for one in &snapshot.connections {
        family.sample(&[&one.labels.listener, one.labels.mode], one.open);
    }
    let mut family = text.family(metric::ACCEPTED);
    for one in &snapshot.accepted {
        family.sample(&[&one.labels.listener], one.count);
    }
    let mut family = text.family(metric::REFUSED);
    for one in &snapshot.refused {
        family.sample(&[&one.labels.listener, one.labels.reason], one.count);
    }
    let mut family = text.family(metric::CONNECTION_MEMORY);
    for one in snapshot.held.iter().filter(|_| snapshot.process.ledger) {
        family.sample(&[one.mode], one.bytes.max(0));
    }
    let mut family = text.family(metric::LIFETIMES);
    for one in &snapshot.lifetimes {
        family.distribution(&[one.mode], &one.distribution, 1e-3);
    }
    text.family(metric::REQUESTS_PER_CONNECTION).distribution(
        &[],
        &snapshot.requests_per_connection,
        1.0,
    );
}

fn requests(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(metric::REQUESTS);
    for one in &snapshot.requests {
        let code = match one.labels.code {
            0 => "none".to_owned(),
            code => code.to_string(),
        };
        family.sample(&[&one.labels.site, one.labels.protocol, &code], one.count);
    }
    let mut family = text.family(metric::REQUEST_TIMES);
    for one in &snapshot.request_times {
        family.histogram(&[&one.labels.site], &one.histogram);
    }
    let mut family = text.family(metric::BYTES);
    for one in &snapshot.bytes {
        let labels = &one.labels;
        family.sample(&[&labels.site, labels.mode, labels.direction], one.count);
    }
}

fn resumption(snapshot: &Snapshot, text: &mut Exposition) {
    text.family(metric::TICKET_AGES)
        .distribution(&[], &snapshot.ticket_ages, 1e-3);
    text.family(metric::LOOK_UPS)
        .sample(&[], snapshot.look_ups.count);
    text.family(metric::LOOK_UP_TIME)
        .nanos(&[], snapshot.look_ups.nanos);
    text.family(metric::TICKETS)
        .sample(&[], snapshot.tickets.count);
    text.family(metric::TICKET_BYTES)
        .sample(&[], snapshot.tickets.bytes);
    // Names that do not last are written together: a client that makes them up makes no series.
    let mut sums: BTreeMap<&str, u64> = BTreeMap::from([("other", 0)]);
    for one in &snapshot.unknown_keys {
        let key = match one.labels.lasting {
            true => one.labels.key.as_str(),
            false => "other",
        };
        *sums.entry(key).or_default() += one.count;
    }
    let mut family = text.family(metric::UNKNOWN_KEYS);
    for (key, count) in sums {
        family.sample(&[key], count);
    }
    text.family(metric::SESSIONS)
        .sample(&[], snapshot.process.sessions_cached);
    let mut family = text.family(metric::SESSION_MEMORY);
    if let Some(bytes) = snapshot.process.session_bytes {
        family.sample(&[], bytes);
    }
}

fn last_minute(observed: &Observed<'_>, text: &mut Exposition) {
    let minute = observed.minute();
    let price = price(observed);
    let is_known = minute.seconds > 0.0;
    let gauges: [(MetricDefinition, Option<f64>); 7] = [
        (metric::HIT_RATIO, minute.totals.hit_rate()),
        (
            metric::REQUESTS_PER_HANDSHAKE,
            minute.totals.requests_per_handshake(),
        ),
        (metric::CORES, Some(observed.cores())),
        (
            metric::HEADROOM_CORES,
            is_known.then_some(price.headroom_cores),
        ),
        (metric::SAVED_CORES, price.saved_cores.filter(|_| is_known)),
        (
            metric::CORES_AT_HALF,
            price.cores_at_half.filter(|_| is_known),
        ),
        (
            metric::CORES_AT_ZERO,
            price.cores_at_zero.filter(|_| is_known),
        ),
    ];
    for (definition, value) in gauges {
        let mut family = text.family(definition);
        if let Some(value) = value {
            family.sample(&[], value);
        }
    }
}

fn alarms(observed: &Observed<'_>, text: &mut Exposition) {
    let mut firing: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for state in observed.alarms {
        *firing.entry((state.name, &state.subject)).or_default() |= state.is_firing();
    }
    let mut family = text.family(metric::ALARM);
    for ((alarm, subject), fires) in firing {
        family.sample(&[alarm, subject], u8::from(fires));
    }
    let mut family = text.family(metric::ALARM_CHANGES);
    for (alarm, count) in observed.history.alarm_changes() {
        family.sample(&[alarm], count);
    }
}

fn backends(snapshot: &Snapshot, text: &mut Exposition) {
    let mut family = text.family(metric::BACKEND_UP);
    for one in &snapshot.process.backends {
        family.sample(&[&one.site, &one.backend], u8::from(one.up));
    }
    let mut family = text.family(metric::BACKEND_FAILURES);
    for one in &snapshot.backend_failures {
        let labels = &one.labels;
        family.sample(&[&labels.site, &labels.backend, labels.reason], one.count);
    }
    let mut family = text.family(metric::RETRIES);
    for one in &snapshot.retries {
        family.sample(&[&one.labels.site], one.count);
    }
}

fn workers(snapshot: &Snapshot, text: &mut Exposition) {
    type Count = fn(&WorkerCounts) -> u64;
    let counts: [(MetricDefinition, Count); 3] = [
        (metric::WORKER_ACCEPTED, |worker| worker.accepted),
        (metric::WORKER_HANDSHAKES, |worker| worker.handshakes),
        (metric::WORKER_REQUESTS, |worker| worker.requests),
    ];
    for (definition, count) in counts {
        let mut family = text.family(definition);
        for worker in &snapshot.workers {
            family.sample(&[&worker.worker.to_string()], count(worker));
        }
    }
    let mut family = text.family(metric::WORKER_CPU);
    for (worker, seconds) in &snapshot.process.worker_cpu_seconds {
        family.sample(&[&worker.to_string()], seconds);
    }
    let mut family = text.family(metric::WORKER_PHASE_CPU);
    for worker in snapshot.workers.iter().filter(|_| snapshot.process.ledger) {
        for (phase, nanos) in phases(worker.cpu) {
            family.nanos(&[&worker.worker.to_string(), phase], nanos);
        }
    }
    let mut family = text.family(metric::WORKER_IMBALANCE);
    if let Some(imbalance) = snapshot.worker_imbalance() {
        family.sample(&[], imbalance);
    }
}

fn process(observed: &Observed<'_>, text: &mut Exposition) {
    let process = &observed.snapshot.process;
    text.family(metric::LOG_LINES_DROPPED)
        .sample(&[], process.log_lines_dropped);
    let mut reloads = text.family(metric::RELOADS);
    reloads.sample(&["succeeded"], process.reloads_succeeded);
    reloads.sample(&["failed"], process.reloads_failed);
    text.family(metric::ACCEPT_RESTS)
        .sample(&[], process.accept_rests);
    text.family(metric::CONNECTIONS_ALLOWED)
        .sample(&[], process.connections_allowed);
    let mut ends: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in &process.certificates {
        let end = ends
            .entry((&one.site, &one.certificate))
            .or_insert(u64::MAX);
        *end = one.expires.0.min(*end);
    }
    let mut family = text.family(metric::CERTIFICATE_EXPIRY);
    for ((site, certificate), end) in ends {
        family.sample(&[site, certificate], end);
    }
    text.family(metric::CONFIG)
        .sample(&[&process.config_hash], 1);
    let mut family = text.family(metric::CONFIG_SINCE);
    if let Some(one) = observed.history.configurations().last() {
        family.sample(&[], one.since);
    }
    text.family(metric::BUILD).sample(&[&process.version], 1);
}
