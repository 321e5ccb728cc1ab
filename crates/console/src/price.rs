//! The live mix, as the formulas want it, and their answer as the views show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_cost::{LiveMix, MixEntry, PriceOfMiss};
use tollgate_meter::{Interval, Totals};

use crate::observed::Observed;
use crate::view;

/// Growth of the load is judged over this time, in seconds.
const GROWTH_SECONDS: f64 = 300.0;
const NONE: &str = "none";

/// What resumption saves over the last minute, and what its loss would cost.
pub fn price(observed: &Observed<'_>) -> PriceOfMiss {
    let minute = observed.minute();
    let growth = observed.history.growth(GROWTH_SECONDS);
    let mut mix = mix(observed, &minute, growth);
    let earlier = recall(observed, &mut mix.groups);
    let mut price = tollgate_cost::price(&mix, observed.sheet);
    price.assumptions.extend(earlier);
    price
}

/// Where everything resumed in the last minute, what full handshakes cost earlier is what a miss would cost: the mean
/// since the start. Returns a sentence for each.
fn recall(observed: &Observed<'_>, groups: &mut [MixEntry]) -> Vec<String> {
    let mut sentences = Vec::new();
    for group in groups {
        if group.micros_per_full.is_some() || !observed.snapshot.process.ledger {
            continue;
        }
        let (nanos, count) = observed
            .snapshot
            .handshakes
            .iter()
            .filter(|one| one.labels.kind != "resumed")
            .filter(|one| one.labels.version == group.version)
            .filter(|one| one.labels.certificate == group.certificate)
            .fold((0, 0), |(nanos, count), one| {
                let own = one.asymmetric_nanos + one.derivation_nanos;
                (nanos + own, count + one.count)
            });
        group.micros_per_full = micros_per(nanos, count);
        if let Some(micros) = group.micros_per_full {
            sentences.push(format!(
                "no full handshake of {} {} was seen in the last minute: {micros:.2} µs is the mean of those since the start",
                group.version, group.certificate
            ));
        }
    }
    sentences
}

/// Handshakes of an interval by version and the kind of certificate that a full one uses.
fn mix(observed: &Observed<'_>, interval: &Interval, growth: f64) -> LiveMix {
    let totals = &interval.totals;
    LiveMix {
        seconds: interval.seconds,
        groups: groups(observed, interval),
        worker_cores: interval.cores(totals.worker_nanos),
        tls_cores: interval.cores(totals.cpu.tls_nanos()),
        cores_there_are: observed.cores(),
        growth_cores_per_second: growth,
    }
}

#[derive(Default)]
struct Sums {
    full: u64,
    full_nanos: u64,
    resumed: u64,
    resumed_nanos: u64,
}

fn groups(observed: &Observed<'_>, interval: &Interval) -> Vec<MixEntry> {
    let mut sums: BTreeMap<(&'static str, String), Sums> = BTreeMap::new();
    let kinds = Kinds::of(observed);
    for part in &interval.handshakes {
        let certificate = match part.is_resumed() {
            true => kinds.of_site(&part.site, part.version),
            false => part.certificate.to_owned(),
        };
        let sum = sums.entry((part.version, certificate)).or_default();
        if part.is_resumed() {
            sum.resumed += part.count;
            sum.resumed_nanos += part.nanos();
        } else {
            sum.full += part.count;
            sum.full_nanos += part.nanos();
        }
    }
    let is_measured = observed.snapshot.process.ledger;
    sums.into_iter()
        .map(|((version, certificate), sum)| MixEntry {
            version: version.to_owned(),
            certificate,
            full_per_second: interval.rate(sum.full),
            resumed_per_second: interval.rate(sum.resumed),
            micros_per_full: is_measured
                .then(|| micros_per(sum.full_nanos, sum.full))
                .flatten(),
            micros_per_resumed: is_measured
                .then(|| micros_per(sum.resumed_nanos, sum.resumed))
                .flatten(),
        })
        .collect()
}

/// Which kind of certificate full handshakes of a site use.
struct Kinds<'a> {
    observed: &'a Observed<'a>,
    seen: BTreeMap<(Arc<str>, &'static str), (&'static str, u64)>,
}

impl<'a> Kinds<'a> {
    /// Since the start, by site and version: the kind that most full handshakes used.
    fn of(observed: &'a Observed<'a>) -> Self {
        let mut seen: BTreeMap<_, (&'static str, u64)> = BTreeMap::new();
        for one in &observed.snapshot.handshakes {
            if one.labels.kind == "resumed" {
                continue;
            }
            let site = (Arc::clone(&one.labels.site), one.labels.version);
            let most = seen.entry(site).or_insert((one.labels.certificate, 0));
            if one.count > most.1 {
                *most = (one.labels.certificate, one.count);
            }
        }
        Self { observed, seen }
    }

    /// Where no full handshake was seen, the first certificate of the site.
    fn of_site(&self, site: &Arc<str>, version: &'static str) -> String {
        if let Some((kind, _)) = self.seen.get(&(Arc::clone(site), version)) {
            return (*kind).to_owned();
        }
        let certificates = &self.observed.snapshot.process.certificates;
        certificates
            .iter()
            .find(|one| one.site == *site)
            .map_or_else(|| NONE.to_owned(), |one| one.certificate.to_string())
    }
}

/// Cores needed at 0 % hits, from what one point of a graph holds: by version, and with the costs of the last
/// minute, else those since the start, where the point itself had no full handshake of the version.
pub(crate) fn cores_at_zero(
    observed: &Observed<'_>,
    point: &Interval,
    minute: &Totals,
) -> Option<f64> {
    let ever = observed.history.totals();
    if !observed.snapshot.process.ledger {
        return None;
    }
    let mut cores = point.cores(point.totals.worker_nanos);
    let of_any = micros_per(
        ever.versions.iter().map(|one| one.full_nanos).sum(),
        ever.full(),
    );
    let costs = minute.versions.iter().zip(&ever.versions);
    for (own, (last, ever)) in point.totals.versions.iter().zip(costs) {
        if own.resumed == 0 {
            continue;
        }
        let full = micros_per(own.full_nanos, own.full)
            .or_else(|| micros_per(last.full_nanos, last.full))
            .or_else(|| micros_per(ever.full_nanos, ever.full))
            .or(of_any)?;
        let resumed = micros_per(own.resumed_nanos, own.resumed)?;
        cores += point.rate(own.resumed) * (full - resumed).max(0.0) / 1e6;
    }
    Some(cores)
}

/// Microseconds per piece; `None` for none.
pub(crate) fn micros_per(nanos: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| nanos as f64 / 1e3 / count as f64)
}

/// The price as the views show it.
pub(crate) fn shown(price: PriceOfMiss) -> view::Price {
    view::Price {
        cores_now: price.cores_now,
        cores_there_are: price.cores_there_are,
        headroom_cores: price.headroom_cores,
        saved_cores: price.saved_cores,
        cores_at_half: price.cores_at_half,
        cores_at_zero: price.cores_at_zero,
        tls_cores_at_zero: price.tls_cores_at_zero,
        seconds_of_headroom: price.seconds_of_headroom,
        micros_per_miss: price.micros_per_miss,
        arithmetic: price.arithmetic,
        assumptions: price.assumptions,
    }
}
