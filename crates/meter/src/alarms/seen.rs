//! What alarms are judged by.

/// Handshakes per second from which on a share of them says something: 60 in the minute that is looked at.
pub const ENOUGH_PER_SECOND: f64 = 1.0;

/// What was seen over the last minute, or since the start when that is less; plain data, filled in by the binary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Length of the interval that the counts below are of.
    pub seconds: f64,
    /// Full handshakes, those with a retry among them.
    pub full: u64,
    /// Resumed handshakes.
    pub resumed: u64,
    /// Handshakes that were full because the ticket's key is not held here.
    pub unknown_keys: u64,
    /// Requests over handshakes in HTTP mode; `None` without any.
    pub requests_per_handshake: Option<f64>,
    /// CPU of phases 1 to 3 in cores; `None` when the ledger is off.
    pub tls_cores: Option<f64>,
    /// Cores that the workers would need at 0 % hits; `None` when that is not known.
    pub cores_at_zero: Option<f64>,
    /// Cores that this process may use.
    pub cores_there_are: f64,
    /// Connections accepted in the interval, one number per worker.
    pub accepted_by_worker: Vec<u64>,
    /// Certificates that are served.
    pub certificates: Vec<SeenCertificate>,
    /// Sites whose certificate a reload made dearer, not yet taken back or allowed.
    pub dearer: Vec<SeenDearer>,
}

/// A certificate that is served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenCertificate {
    /// Site and kind: `shop.example ecdsa-p256`.
    pub subject: String,
    /// Its end, in seconds since 1970.
    pub expires: f64,
}

/// A site whose certificate became dearer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenDearer {
    /// The site.
    pub subject: String,
    /// What it was, what it is, what that costs: one sentence.
    pub sentence: String,
    /// CPU microseconds of one signature before; `None` when it could not be measured.
    pub before_micros: Option<f64>,
    /// CPU microseconds of one signature now.
    pub after_micros: Option<f64>,
}

impl Seen {
    /// Handshakes per second.
    pub(super) fn handshakes_per_second(&self) -> f64 {
        self.per_second(self.full + self.resumed)
    }

    /// `count` over the interval.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// `count` over all handshakes; `None` when there are too few to say.
    pub(super) fn share(&self, count: u64) -> Option<f64> {
        (self.handshakes_per_second() >= ENOUGH_PER_SECOND)
            .then(|| count as f64 / (self.full + self.resumed) as f64)
    }
}
