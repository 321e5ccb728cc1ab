//! From where on each alarm fires.

use std::time::Duration;

use crate::alarms::Alarm;

/// `alarms:` of the configuration; `None` or false is off.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmSettings {
    /// Resumed over all handshakes, 0 to 1. Default 0.7.
    pub hit_rate_below: Option<f64>,
    /// Full handshakes per second. Default 5000.
    pub fresh_per_second_above: Option<f64>,
    /// Full handshakes per second and core. Default off.
    pub fresh_per_second_per_core_above: Option<f64>,
    /// CPU of phases 1 to 3 over the cores there are, 0 to 1. Default 0.25.
    pub tls_cpu_above: Option<f64>,
    /// Cores needed at 0 % hits against the cores there are. Default on.
    pub cold_cache: bool,
    /// How many times fewer requests per handshake than within the last five minutes. Default 5.
    pub requests_per_handshake_fall: Option<f64>,
    /// Time left until a certificate ends. Default 14 days.
    pub certificate_expires_within: Option<Duration>,
    /// A dearer kind of certificate after a reload. Default on.
    pub certificate_dearer: bool,
    /// Handshakes with a ticket of an unknown key over all, 0 to 1. Default 0.01.
    pub unknown_keys_above: Option<f64>,
    /// Connections of the busiest worker over the mean. Default 1.2.
    pub worker_imbalance_above: Option<f64>,
    /// How long a condition must hold, or be gone. Default 30 s.
    pub hold: Duration,
}

impl Default for AlarmSettings {
    fn default() -> Self {
        Self {
            hit_rate_below: Some(0.7),
            fresh_per_second_above: Some(5_000.0),
            fresh_per_second_per_core_above: None,
            tls_cpu_above: Some(0.25),
            cold_cache: true,
            requests_per_handshake_fall: Some(5.0),
            certificate_expires_within: Some(Duration::from_secs(14 * 86_400)),
            certificate_dearer: true,
            unknown_keys_above: Some(0.01),
            worker_imbalance_above: Some(1.2),
            hold: Duration::from_secs(30),
        }
    }
}

impl AlarmSettings {
    /// The threshold of an alarm in its unit; `None` when it is off.
    ///
    /// Zero for those whose threshold is not a setting: the cores there are, and the former price.
    pub fn threshold(&self, alarm: Alarm) -> Option<f64> {
        match alarm {
            Alarm::HitRateLow => self.hit_rate_below,
            Alarm::FreshRateHigh => self.fresh_per_second_above,
            Alarm::FreshRatePerCoreHigh => self.fresh_per_second_per_core_above,
            Alarm::TlsCpuHigh => self.tls_cpu_above,
            Alarm::ColdCacheOverCapacity => self.cold_cache.then_some(0.0),
            Alarm::RequestsPerHandshakeFallen => self.requests_per_handshake_fall,
            Alarm::CertificateExpiring => self
                .certificate_expires_within
                .map(|left| left.as_secs_f64()),
            Alarm::CertificateDearer => self.certificate_dearer.then_some(0.0),
            Alarm::UnknownTicketKeys => self.unknown_keys_above,
            Alarm::WorkerImbalance => self.worker_imbalance_above,
        }
    }
}
