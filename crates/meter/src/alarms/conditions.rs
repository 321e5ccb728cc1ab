//! What each alarm looks at: pure, from what was seen to a value beside its threshold.

use crate::alarms::definitions::{Alarm, enough_connections};
use crate::alarms::seen::Seen;
use crate::alarms::settings::AlarmSettings;
use crate::alarms::state::AlarmState;

/// How far beyond the threshold, on its good side, a value must be before the condition counts as gone.
const MARGIN: f64 = 0.05;

/// On which side of the threshold the trouble is.
#[derive(Clone, Copy, Debug)]
enum Side {
    Above,
    Below,
}

/// A value beside its threshold.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Which alarm.
    pub alarm: Alarm,
    /// What it is about where there can be several; else empty.
    pub subject: String,
    /// What was seen; `None` when there is too little to say.
    pub value: Option<f64>,
    /// From where on it fires.
    pub threshold: f64,
    /// What was seen, in words.
    pub sentence: String,
    side: Side,
}

impl Condition {
    /// Whether this is about the alarm and subject of `state`.
    pub fn is_of(&self, state: &AlarmState) -> bool {
        state.name == self.alarm.name() && state.subject == self.subject
    }

    /// Whether the value is beyond the threshold.
    pub fn holds(&self) -> bool {
        self.value.is_some_and(|value| match self.side {
            Side::Above => value > self.threshold,
            Side::Below => value < self.threshold,
        })
    }

    /// Whether the value is back on the good side, with a margin; so it is where nothing can be said.
    pub fn is_gone(&self) -> bool {
        let margin = MARGIN * self.threshold;
        self.value.is_none_or(|value| match self.side {
            Side::Above => value <= self.threshold - margin,
            // A share cannot be above 1: near it the margin is half of what is left.
            Side::Below if self.threshold <= 1.0 => {
                value >= self.threshold + margin.min((1.0 - self.threshold) / 2.0)
            }
            Side::Below => value >= self.threshold + margin,
        })
    }
}

/// Every condition that is to be judged, in the order of the definitions.
///
/// `before` is what requests per handshake were.
pub fn all(settings: &AlarmSettings, now: f64, seen: &Seen, before: Option<f64>) -> Vec<Condition> {
    Alarm::ALL
        .into_iter()
        .filter_map(|alarm| Some((alarm, settings.threshold(alarm)?)))
        .flat_map(|(alarm, threshold)| of_alarm(alarm, threshold, now, seen, before))
        .collect()
}

fn of_alarm(
    alarm: Alarm,
    threshold: f64,
    now: f64,
    seen: &Seen,
    before: Option<f64>,
) -> Vec<Condition> {
    match alarm {
        Alarm::CertificateExpiring => certificates(now, threshold, seen),
        Alarm::CertificateDearer => dearer(seen),
        Alarm::HitRateLow
        | Alarm::FreshRateHigh
        | Alarm::FreshRatePerCoreHigh
        | Alarm::TlsCpuHigh
        | Alarm::ColdCacheOverCapacity
        | Alarm::RequestsPerHandshakeFallen
        | Alarm::UnknownTicketKeys
        | Alarm::WorkerImbalance => vec![of_instance(alarm, threshold, seen, before)],
    }
}

/// The alarms that an instance has once.
fn of_instance(alarm: Alarm, threshold: f64, seen: &Seen, before: Option<f64>) -> Condition {
    let per_core = |value: f64| (seen.cores_there_are > 0.0).then(|| value / seen.cores_there_are);
    let fresh = seen.per_second(seen.full);
    let (value, threshold) = match alarm {
        Alarm::HitRateLow => (seen.share(seen.resumed), threshold),
        Alarm::FreshRateHigh => (Some(fresh), threshold),
        Alarm::FreshRatePerCoreHigh => (per_core(fresh), threshold),
        Alarm::TlsCpuHigh => (seen.tls_cores.and_then(per_core), threshold),
        Alarm::ColdCacheOverCapacity => (
            seen.cores_at_zero.filter(|_| seen.cores_there_are > 0.0),
            seen.cores_there_are,
        ),
        Alarm::RequestsPerHandshakeFallen => (fall(seen, before), threshold),
        Alarm::UnknownTicketKeys => (seen.share(seen.unknown_keys), threshold),
        Alarm::WorkerImbalance => (imbalance(threshold, seen), threshold),
        Alarm::CertificateExpiring | Alarm::CertificateDearer => (None, threshold),
    };
    Condition {
        alarm,
        subject: String::new(),
        value,
        threshold,
        sentence: value.map_or_else(
            || "too little was seen to say".to_owned(),
            |value| sentence(alarm, value, threshold),
        ),
        side: if alarm == Alarm::HitRateLow {
            Side::Below
        } else {
            Side::Above
        },
    }
}

fn sentence(alarm: Alarm, value: f64, threshold: f64) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    match alarm {
        Alarm::HitRateLow => format!(
            "{} of handshakes resumed over the last minute; the threshold is {}",
            percent(value),
            percent(threshold)
        ),
        Alarm::FreshRateHigh => format!(
            "{value:.1} full handshakes/s over the last minute; the threshold is {threshold}"
        ),
        Alarm::FreshRatePerCoreHigh => format!(
            "{value:.1} full handshakes/s and core over the last minute; the threshold is {threshold}"
        ),
        Alarm::TlsCpuHigh => format!(
            "TLS took {} of the cores over the last minute; the threshold is {}",
            percent(value),
            percent(threshold)
        ),
        Alarm::ColdCacheOverCapacity => format!(
            "without resumption the load of the last minute would need {value:.2} cores; there are {threshold}"
        ),
        Alarm::RequestsPerHandshakeFallen => format!(
            "{value:.1} times fewer requests per handshake than within five minutes before; the threshold is {threshold}"
        ),
        Alarm::UnknownTicketKeys => format!(
            "{} of handshakes came with a ticket of an unknown key over the last minute; the threshold is {}",
            percent(value),
            percent(threshold)
        ),
        Alarm::WorkerImbalance => format!(
            "the busiest worker got {value:.2} times the mean of new connections over the last minute; the threshold is {threshold}"
        ),
        Alarm::CertificateExpiring | Alarm::CertificateDearer => String::new(),
    }
}

/// How many times fewer requests per handshake than before.
fn fall(seen: &Seen, before: Option<f64>) -> Option<f64> {
    seen.share(0)?;
    let ratio = seen.requests_per_handshake.filter(|ratio| *ratio > 0.0)?;
    Some(before? / ratio)
}

fn imbalance(threshold: f64, seen: &Seen) -> Option<f64> {
    let workers = seen.accepted_by_worker.len() as f64;
    let all: u64 = seen.accepted_by_worker.iter().sum();
    let most = *seen.accepted_by_worker.iter().max()?;
    let mean = all as f64 / workers;
    (workers > 1.0 && mean >= enough_connections(threshold)).then(|| most as f64 / mean)
}

fn certificates(now: f64, threshold: f64, seen: &Seen) -> Vec<Condition> {
    let days = |seconds: f64| seconds / 86_400.0;
    seen.certificates
        .iter()
        .map(|certificate| {
            let left = certificate.expires - now;
            Condition {
                alarm: Alarm::CertificateExpiring,
                subject: certificate.subject.clone(),
                value: Some(left),
                threshold,
                sentence: if left > 0.0 {
                    format!(
                        "the certificate of {} ends in {:.1} days; the threshold is {:.1}",
                        certificate.subject,
                        days(left),
                        days(threshold)
                    )
                } else {
                    format!(
                        "the certificate of {} ended {:.1} days ago",
                        certificate.subject,
                        days(-left)
                    )
                },
                side: Side::Below,
            }
        })
        .collect()
}

/// One for each site that became dearer; a quiet one without a subject when none did.
fn dearer(seen: &Seen) -> Vec<Condition> {
    let of = |subject: &str, value, threshold, sentence: &str| Condition {
        alarm: Alarm::CertificateDearer,
        subject: subject.to_owned(),
        value,
        threshold,
        sentence: sentence.to_owned(),
        side: Side::Above,
    };
    if seen.dearer.is_empty() {
        let sentence = "no reload made a certificate dearer, or it was taken back or allowed";
        return vec![of("", None, 0.0, sentence)];
    }
    seen.dearer
        .iter()
        .map(|site| {
            // Dearer it is whatever was measured: where a neighbour disturbed the measurement, or there is
            // none, the order of kinds stands.
            let (before, after) = match (site.before_micros, site.after_micros) {
                (Some(before), Some(after)) if after > before => (before, after),
                _ => (0.0, 1.0),
            };
            of(&site.subject, Some(after), before, &site.sentence)
        })
        .collect()
}
