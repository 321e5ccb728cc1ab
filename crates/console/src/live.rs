//! What a process says of itself at this moment, in the shape of [`view::Live`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_meter::alarms::AlarmState;
use tollgate_meter::{Distribution, HandshakePart, Interval, Totals};

use crate::boxes;
use crate::observed::Observed;
use crate::price::{self, micros_per};
use crate::view::{
    self, AlarmLive, CertificateLive, ConfigurationLive, Cores, Dominant, Instance, ListenerLive,
    Live, Mixes, Open, Portion, Rates, SiteLive, UnknownKey, WorkerLive,
};

const DAY_SECONDS: f64 = 86_400.0;

/// Everything at one moment.
pub fn live(observed: &Observed<'_>) -> Live {
    let minute = observed.minute();
    let since_start = Totals::of(observed.snapshot);
    let priced = price::price(observed);
    Live {
        at_seconds: observed.now,
        instance: instance(observed),
        second: rates(observed, &observed.history.second()),
        minute: rates(observed, &minute),
        boxes: boxes::boxes(observed, &minute),
        dominant: dominant(&minute),
        price: price::shown(priced),
        mixes: mixes(&minute, &since_start),
        misses: portions(&minute, minute.totals.misses(), since_start.misses()),
        unknown_keys: unknown_keys(observed),
        ticket_ages: in_seconds(&observed.snapshot.ticket_ages),
        lifetimes: lifetimes(observed),
        requests_per_connection: plain(&observed.snapshot.requests_per_connection),
        sites: sites(observed, &minute),
        listeners: listeners(observed, &minute),
        workers: workers(observed, &minute),
        worker_imbalance: minute.worker_imbalance(),
        certificates: certificates(observed),
        alarms: alarms(observed.alarms),
        configurations: configurations(observed),
    }
}

fn instance(observed: &Observed<'_>) -> Instance {
    let process = &observed.snapshot.process;
    let totals = Totals::of(observed.snapshot);
    let since = observed.history.configurations().last();
    Instance {
        version: process.version.clone(),
        host: process.host.clone(),
        started_seconds: process.started_seconds,
        config_hash: process.config_hash.clone(),
        config_since_seconds: since.map_or(process.started_seconds, |one| one.since),
        workers: observed.snapshot.workers.len(),
        cores: observed.cores(),
        ledger: process.ledger,
        ledger_agreement: agreement(process.ledger, &totals),
    }
}

/// CPU time that the ledger explains (the phases and what is not TLS) over what the kernel counted. Phases that
/// took more than a worker was busy, which cannot be, show here as well.
pub(crate) fn agreement(ledger: bool, totals: &Totals) -> Option<f64> {
    let explained = totals.cpu.tls_nanos() + totals.cpu.not_tls_nanos;
    (ledger && totals.worker_nanos > 0).then(|| explained as f64 / totals.worker_nanos as f64)
}

fn rates(observed: &Observed<'_>, interval: &Interval) -> Rates {
    let totals = &interval.totals;
    let rate = |count| interval.rate(count);
    let cores = observed.cores();
    let ledger = observed.snapshot.process.ledger;
    Rates {
        seconds: interval.seconds,
        full_per_second: rate(totals.full()),
        resumed_per_second: rate(totals.resumed()),
        failed_per_second: rate(totals.failed),
        hit_rate: totals.hit_rate(),
        accepted_per_second: rate(totals.accepted),
        requests_per_second: rate(totals.requests),
        requests_per_handshake: totals.requests_per_handshake(),
        client_in_bytes_per_second: rate(totals.client_in_bytes),
        client_out_bytes_per_second: rate(totals.client_out_bytes),
        cores: Cores {
            asymmetric: interval.cores(totals.cpu.asymmetric_nanos),
            derivation: interval.cores(totals.cpu.derivation_nanos),
            records: interval.cores(totals.cpu.records_nanos),
            not_tls: interval.cores(totals.cpu.not_tls_nanos),
            workers: interval.cores(totals.worker_nanos),
        },
        tls_share: (ledger && cores > 0.0 && interval.seconds > 0.0)
            .then(|| interval.cores(totals.cpu.tls_nanos()) / cores),
        open: Open {
            handshake: totals.open.handshake,
            http: totals.open.http,
            tcp: totals.open.tcp,
            passthrough: totals.open.passthrough,
        },
    }
}

fn dominant(minute: &Interval) -> Option<Dominant> {
    let cpu = minute.totals.cpu;
    let all = cpu.tls_nanos();
    let phases = [
        (1, "asymmetric", cpu.asymmetric_nanos),
        (2, "derivation", cpu.derivation_nanos),
        (3, "records", cpu.records_nanos),
    ];
    let (phase, name, nanos) = phases.into_iter().max_by_key(|one| one.2)?;
    (nanos > 0).then(|| Dominant {
        phase,
        name: name.to_owned(),
        micros_per_second: minute.rate(nanos) / 1e3,
        share: nanos as f64 / all as f64,
    })
}

/// Parts of a whole, the largest over the last minute first; what never happened is left out.
fn portions(
    minute: &Interval,
    last: impl Iterator<Item = (&'static str, u64)>,
    ever: impl Iterator<Item = (&'static str, u64)>,
) -> Vec<Portion> {
    let parts: Vec<(&str, u64, u64)> = last
        .zip(ever)
        .map(|((name, count), (_, total))| (name, count, total))
        .filter(|(_, _, total)| *total > 0)
        .collect();
    let whole: u64 = parts.iter().map(|(_, count, _)| count).sum();
    let mut portions: Vec<Portion> = parts
        .into_iter()
        .map(|(name, count, total)| Portion {
            name: name.to_owned(),
            per_second: minute.rate(count),
            share: match whole {
                0 => 0.0,
                whole => count as f64 / whole as f64,
            },
            total,
            ..Portion::default()
        })
        .collect();
    portions
        .sort_by(|a, b| f64::total_cmp(&b.per_second, &a.per_second).then(b.total.cmp(&a.total)));
    portions
}

fn mixes(minute: &Interval, ever: &Totals) -> Mixes {
    let last = &minute.totals;
    let versions = |totals: &Totals| {
        let counts: Vec<_> = totals
            .by_version()
            .map(|(name, one)| (name, one.full + one.resumed))
            .collect();
        counts.into_iter()
    };
    let mut certificates = portions(minute, last.certificates(), ever.certificates());
    for (name, nanos) in last.certificate_nanos() {
        if let Some(portion) = certificates.iter_mut().find(|one| one.name == name) {
            portion.cores = Some(minute.cores(nanos));
        }
    }
    let mut by_version = portions(minute, versions(last), versions(ever));
    for (name, one) in last.by_version() {
        if let Some(portion) = by_version.iter_mut().find(|one| one.name == name) {
            portion.hit_rate = share(one.resumed, one.full + one.resumed);
        }
    }
    Mixes {
        versions: by_version,
        suites: portions(minute, last.suites(), ever.suites()),
        groups: portions(minute, last.groups(), ever.groups()),
        certificates,
        kinds: portions(minute, last.kinds(), ever.kinds()),
        signatures: portions(minute, last.signatures(), ever.signatures()),
        methods: portions(minute, last.methods(), ever.methods()),
    }
}

fn unknown_keys(observed: &Observed<'_>) -> Vec<UnknownKey> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for one in &observed.snapshot.unknown_keys {
        *sums.entry(&one.labels.key).or_default() += one.count;
    }
    let mut keys: Vec<UnknownKey> = sums
        .into_iter()
        .map(|(name, count)| UnknownKey {
            name: name.to_owned(),
            count,
        })
        .collect();
    keys.sort_by_key(|one| std::cmp::Reverse(one.count));
    keys
}

fn plain(distribution: &Distribution) -> view::Distribution {
    view::Distribution {
        bounds: distribution
            .bounds
            .iter()
            .map(|&bound| bound as f64)
            .collect(),
        counts: distribution.counts.clone(),
        sum: distribution.sum as f64,
    }
}

/// From milliseconds.
fn in_seconds(distribution: &Distribution) -> view::Distribution {
    let millis = plain(distribution);
    view::Distribution {
        bounds: millis.bounds.iter().map(|bound| bound / 1e3).collect(),
        sum: millis.sum / 1e3,
        ..millis
    }
}

/// Of connections that were served, whatever the mode.
fn lifetimes(observed: &Observed<'_>) -> view::Distribution {
    let mut all = Distribution::default();
    for one in &observed.snapshot.lifetimes {
        if one.mode != "handshake" {
            all.merge(&one.distribution);
        }
    }
    in_seconds(&all)
}

#[derive(Clone, Copy, Default)]
struct Shaken {
    full: u64,
    resumed: u64,
    full_nanos: u64,
    resumed_nanos: u64,
}

impl Shaken {
    fn add(&mut self, part: &HandshakePart) {
        if part.is_resumed() {
            self.resumed += part.count;
            self.resumed_nanos += part.nanos();
        } else {
            self.full += part.count;
            self.full_nanos += part.nanos();
        }
    }
}

fn sites(observed: &Observed<'_>, minute: &Interval) -> Vec<SiteLive> {
    let ledger = observed.snapshot.process.ledger;
    let mut sums: BTreeMap<Arc<str>, (Shaken, u64)> = BTreeMap::new();
    // Sites of the configuration in force that nobody asked for yet are shown too.
    for certificate in &observed.snapshot.process.certificates {
        sums.entry(Arc::clone(&certificate.site)).or_default();
    }
    for part in &minute.handshakes {
        let sum = sums.entry(Arc::clone(&part.site)).or_default();
        sum.0.add(part);
    }
    for (site, requests) in &minute.requests {
        sums.entry(Arc::clone(site)).or_default().1 += requests;
    }
    let measured = |nanos, count| ledger.then(|| micros_per(nanos, count)).flatten();
    let mut sites: Vec<SiteLive> = sums
        .into_iter()
        .map(|(site, (shaken, requests))| SiteLive {
            site: site.to_string(),
            full_per_second: minute.rate(shaken.full),
            resumed_per_second: minute.rate(shaken.resumed),
            hit_rate: share(shaken.resumed, shaken.full + shaken.resumed),
            requests_per_second: minute.rate(requests),
            handshake_cores: minute.cores(shaken.full_nanos + shaken.resumed_nanos),
            micros_per_full: measured(shaken.full_nanos, shaken.full),
            micros_per_resumed: measured(shaken.resumed_nanos, shaken.resumed),
        })
        .collect();
    let busy =
        |one: &SiteLive| one.full_per_second + one.resumed_per_second + one.requests_per_second;
    sites.sort_by(|a, b| f64::total_cmp(&busy(b), &busy(a)));
    sites
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn listeners(observed: &Observed<'_>, minute: &Interval) -> Vec<ListenerLive> {
    minute
        .accepted
        .iter()
        .map(|(listener, accepted)| {
            let mut shaken = Shaken::default();
            let own = |part: &&HandshakePart| part.listener == *listener;
            minute
                .handshakes
                .iter()
                .filter(own)
                .for_each(|part| shaken.add(part));
            ListenerLive {
                listener: listener.to_string(),
                accepted_per_second: minute.rate(*accepted),
                full_per_second: minute.rate(shaken.full),
                resumed_per_second: minute.rate(shaken.resumed),
                open: observed
                    .snapshot
                    .connections
                    .iter()
                    .filter(|one| one.labels.listener == *listener)
                    .map(|one| one.open)
                    .sum(),
            }
        })
        .collect()
}

fn workers(observed: &Observed<'_>, minute: &Interval) -> Vec<WorkerLive> {
    let ledger = observed.snapshot.process.ledger;
    minute
        .workers
        .iter()
        .map(|one| WorkerLive {
            worker: one.worker,
            accepted_per_second: minute.rate(one.accepted),
            handshakes_per_second: minute.rate(one.handshakes),
            requests_per_second: minute.rate(one.requests),
            cores: minute.cores(one.kernel_nanos),
            tls_cores: ledger.then(|| minute.cores(one.cpu.tls_nanos())),
        })
        .collect()
}

fn certificates(observed: &Observed<'_>) -> Vec<CertificateLive> {
    let mut certificates: Vec<CertificateLive> = observed
        .snapshot
        .process
        .certificates
        .iter()
        .map(|one| CertificateLive {
            site: one.site.to_string(),
            certificate: one.certificate.to_string(),
            expires_seconds: one.expires.0,
            days_left: (one.expires.0 as f64 - observed.now) / DAY_SECONDS,
        })
        .collect();
    certificates.sort_by_key(|one| one.expires_seconds);
    certificates
}

/// Those that fire first, then those that are about to.
fn alarms(states: &[AlarmState]) -> Vec<AlarmLive> {
    let mut sorted: Vec<&AlarmState> = states.iter().collect();
    sorted.sort_by_key(|state| (!state.is_firing(), state.is_quiet()));
    sorted
        .into_iter()
        .map(|state| {
            let definition = state.definition();
            let has_seen = !state.is_quiet() && !state.sentence.is_empty();
            AlarmLive {
                name: state.name.to_owned(),
                subject: state.subject.clone(),
                state: state.state.name().to_owned(),
                since_seconds: state.since,
                value: state.value,
                threshold: state.threshold,
                unit: state.unit.to_owned(),
                sentence: match has_seen {
                    true => state.sentence.clone(),
                    false => definition.sentence.to_owned(),
                },
                advice: definition.advice.to_owned(),
            }
        })
        .collect()
}

fn configurations(observed: &Observed<'_>) -> Vec<ConfigurationLive> {
    let ledger = observed.snapshot.process.ledger;
    observed
        .history
        .configurations()
        .map(|one| {
            let totals = &one.totals;
            let nanos = totals
                .versions
                .iter()
                .map(|one| one.full_nanos + one.resumed_nanos)
                .sum();
            let seconds = one.until - one.since;
            ConfigurationLive {
                hash: one.hash.clone(),
                since_seconds: one.since,
                handshakes: totals.completed(),
                hit_rate: totals.hit_rate(),
                micros_per_handshake: ledger
                    .then(|| micros_per(nanos, totals.completed()))
                    .flatten(),
                cores: match seconds > 0.0 {
                    true => totals.worker_nanos as f64 / 1e9 / seconds,
                    false => 0.0,
                },
            }
        })
        .collect()
}
