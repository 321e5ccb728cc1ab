//! Route and receivers for Alertmanager.

use tollgate_meter::alarms::{Alarm, Severity};

use super::rules::alert_name;

/// An example that is whole: it can be loaded as it is, and its parts put into a file that is there already.
pub fn routes() -> String {
    let names = |severity: Severity| -> String {
        Alarm::ALL
            .into_iter()
            .map(Alarm::definition)
            .filter(|definition| definition.severity == severity)
            .map(|definition| alert_name(definition.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    format!(
        r#"# Route and receivers for the alerts of Tollgate {version}, made by `tollgate export alertmanager`.
# Put the entries of `routes`, `receivers` and `inhibit_rules` into the file that is there, and the addresses of
# those who are to be told in place of the two below.
route:
  receiver: tollgate-tickets
  group_by: [alertname, job]
  routes:
    # Now: {critical}.
    - receiver: tollgate-pages
      matchers: ['alertname=~"Tollgate.+"', 'severity="{critical_word}"']
      group_by: [alertname, instance]
      group_wait: 10s
      group_interval: 1m
      repeat_interval: 1h
    # At the next occasion: {warning}.
    - receiver: tollgate-tickets
      matchers: ['alertname=~"Tollgate.+"', 'severity="{warning_word}"']
      group_by: [alertname, job]
      group_wait: 1m
      group_interval: 10m
      repeat_interval: 24h

# The rate of the instance says what the rate per core says, only louder.
inhibit_rules:
  - source_matchers: ['alertname="{fresh}"']
    target_matchers: ['alertname="{fresh_per_core}"']
    equal: [instance]

receivers:
  - name: tollgate-pages
    webhook_configs:
      - url: http://127.0.0.1:9000/pages
        send_resolved: true
  - name: tollgate-tickets
    webhook_configs:
      - url: http://127.0.0.1:9000/tickets
        send_resolved: true
"#,
        version = env!("CARGO_PKG_VERSION"),
        critical = names(Severity::Critical),
        warning = names(Severity::Warning),
        critical_word = Severity::Critical.name(),
        warning_word = Severity::Warning.name(),
        fresh = alert_name(Alarm::FreshRateHigh.name()),
        fresh_per_core = alert_name(Alarm::FreshRatePerCoreHigh.name()),
    )
}
