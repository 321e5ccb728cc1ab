//! Alerting rules for Prometheus.

use std::fmt::Write as _;
use std::path::Path;

use tollgate_meter::alarms::{Alarm, AlarmSettings, Definition};

use super::quoted;

/// One rule for each alarm that is on. They look at metrics alone: at what happens, not at what is configured.
pub fn rules(settings: &AlarmSettings, config: Option<&Path>) -> String {
    let thresholds = config.map_or_else(
        || "the defaults".to_owned(),
        |path| format!("those of {}", path.display()),
    );
    let mut text = format!(
        "# Alerting rules for Tollgate {}, made by `tollgate export prometheus-rules`.\n\
         # Thresholds are {thresholds}; what each alarm means and what to do is in docs/alarms.md.\n\
         groups:\n  - name: tollgate\n    rules:\n",
        env!("CARGO_PKG_VERSION")
    );
    for alarm in Alarm::ALL {
        let Some(threshold) = settings.threshold(alarm) else {
            continue;
        };
        rule(alarm.definition(), threshold, settings, &mut text);
    }
    text
}

fn rule(definition: &Definition, threshold: f64, settings: &AlarmSettings, text: &mut String) {
    let hold = if definition.held {
        settings.hold.as_secs()
    } else {
        0
    };
    let expression = definition.promql(threshold).replace('\n', "\n          ");
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "      - alert: {}\n        expr: |-\n          {expression}\n        for: {hold}s\n        labels:\n          \
         severity: {}\n          alarm: {}\n        annotations:\n          summary: {}\n          description: {}\n          \
         advice: {}\n",
        alert_name(definition.name),
        definition.severity.name(),
        definition.name,
        quoted(&format!(
            "{{{{ $labels.instance }}}}: {}",
            definition.sentence
        )),
        quoted(&description(definition, threshold)),
        quoted(&Definition::whole(definition.advice)),
    );
}

/// `hit_rate_low` as `TollgateHitRateLow`.
pub fn alert_name(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_uppercase())
    });
    format!("Tollgate{}", words.collect::<String>())
}

/// What was seen, for those who read it on a telephone.
fn description(definition: &Definition, threshold: f64) -> String {
    let seen = match definition.alarm {
        Alarm::HitRateLow => format!(
            "{{{{ $value | humanizePercentage }}}} of handshakes resume; the threshold is {}",
            percent(threshold)
        ),
        Alarm::FreshRateHigh => {
            format!("{{{{ $value | humanize }}}} full handshakes/s; the threshold is {threshold}")
        }
        Alarm::FreshRatePerCoreHigh => format!(
            "{{{{ $value | humanize }}}} full handshakes/s and core; the threshold is {threshold}"
        ),
        Alarm::TlsCpuHigh => format!(
            "TLS takes {{{{ $value | humanizePercentage }}}} of the cores; the threshold is {}",
            percent(threshold)
        ),
        Alarm::ColdCacheOverCapacity => {
            "without resumption {{ $value | humanize }} cores would be needed, more than there are".to_owned()
        }
        Alarm::RequestsPerHandshakeFallen => format!(
            "{{{{ $value | humanize }}}} times fewer requests per handshake than within the last five minutes; the threshold is {threshold}"
        ),
        Alarm::CertificateExpiring => {
            "the {{ $labels.certificate }} certificate of {{ $labels.site }} ends in {{ $value | humanizeDuration }}".to_owned()
        }
        Alarm::CertificateDearer => {
            "site {{ $labels.subject }} has a dearer kind of certificate since a reload".to_owned()
        }
        Alarm::UnknownTicketKeys => format!(
            "{{{{ $value | humanizePercentage }}}} of handshakes come with a ticket of an unknown key; the threshold is {}",
            percent(threshold)
        ),
        Alarm::WorkerImbalance => format!(
            "the busiest worker gets {{{{ $value | humanize }}}} times the mean of new connections; the threshold is {threshold}"
        ),
    };
    format!(
        "{} {}",
        Definition::whole(&seen),
        Definition::whole(definition.reason)
    )
}

fn percent(share: f64) -> String {
    // 0.07 * 100 is 7.000000000000001.
    let percent = (share * 1e6).round() / 1e4;
    format!("{percent} %")
}
