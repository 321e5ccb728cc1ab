//! What a drill found. The JSON form is these structs, with units in the names.

use serde::Serialize;

/// Everything that a drill found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The word on the command line.
    pub drill: &'static str,
    /// What happens in it, in a sentence.
    pub about: &'static str,
    /// Which instance was drilled.
    pub instance: String,
    /// What it was driven with.
    pub load: String,
    /// The acts, in their order.
    pub acts: Vec<Act>,
    /// Alarms that fired in the drill.
    pub alarms: Vec<AlarmSeen>,
    /// When clients resumed again, for drills that cost them their tickets.
    pub recovery: Vec<Recovery>,
    /// What the instance foretold, beside what came.
    pub forecast: Option<Forecast>,
    /// What coming back at once was like.
    pub storm: Option<Storm>,
    /// What the instance said to the changes, for people.
    pub said: Vec<String>,
    /// The table: what was expected, what came, and whether that is good enough.
    pub expectations: Vec<Expectation>,
    /// What must be known to read it.
    pub notes: Vec<String>,
    /// The drill second by second.
    pub curve: Vec<Point>,
}

impl Report {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.expectations.iter().all(|expected| expected.passed)
    }
}

/// One act: a stretch of steady load.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Act {
    /// `before`, `during`, `after` and the like.
    pub name: String,
    /// How long it was measured.
    pub seconds: f64,
    /// Operations done: connection, handshake, request, response.
    pub operations: u64,
    /// The same per second.
    pub per_second: f64,
    /// Operations that failed.
    pub failures: u64,
    /// Median time of an operation, from when it was due.
    pub p50_micros: Option<u64>,
    /// 99th percentile of the same.
    pub p99_micros: Option<u64>,
    /// Resumed over all handshakes, as counted at the client.
    pub hit_rate: Option<f64>,
    /// The same as the instance counted it.
    pub instance_hit_rate: Option<f64>,
    /// CPU of the instance's workers by phase.
    pub cores: ActCores,
    /// CPU of the instance's whole process as the kernel counts it, where that is this machine's.
    pub process_cores: Option<f64>,
    /// CPU of phases 1 and 2 per full handshake, in an act without resumed ones.
    pub micros_per_full: Option<f64>,
    /// Alarms that were firing at its end.
    pub alarms: Vec<String>,
}

/// CPU in cores: seconds of CPU time per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ActCores {
    /// Phase 1: key exchange and signatures.
    pub asymmetric: f64,
    /// Phase 2: the rest of handshakes.
    pub derivation: f64,
    /// Phase 3: records.
    pub records: f64,
    /// Kernel, HTTP, relaying.
    pub not_tls: f64,
    /// All CPU of the workers.
    pub workers: f64,
}

impl ActCores {
    /// Phases 1 to 3 together.
    pub fn tls(&self) -> f64 {
        self.asymmetric + self.derivation + self.records
    }
}

/// An alarm that fired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlarmSeen {
    /// Its name.
    pub name: String,
    /// What it is about, if there can be several.
    pub subject: String,
    /// Seconds from the change until it fired.
    pub raised_after_seconds: f64,
    /// Seconds from the change back until it was quiet; `None` when it still fired at the end.
    pub quiet_after_seconds: Option<f64>,
    /// What it said.
    pub sentence: String,
}

/// How long it took until clients resumed again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// Share of handshakes of one second that had to resume.
    pub hit_rate: f64,
    /// Seconds until that was so; `None` when it was not in the time there was.
    pub seconds: Option<f64>,
}

/// What the instance foretold, beside what came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Cores of the workers if no handshake resumed, as read from the instance before the change.
    pub cores_at_zero: f64,
    /// Handshakes per second that this was for.
    pub for_handshakes_per_second: f64,
    /// Handshakes per second that there really were without resumption.
    pub handshakes_per_second: f64,
    /// The forecast for that rate.
    pub foretold_cores: f64,
    /// Cores that the workers really used.
    pub used_cores: f64,
    /// `foretold_cores` over `used_cores`, less 1: positive when it was too high.
    pub error_share: f64,
    /// How the instance came to it.
    pub arithmetic: Vec<String>,
}

impl Forecast {
    /// Sets `cores_at_zero`, which was for a rate of `for_rate`, beside what was used at `rate`.
    pub(super) fn of(cores_at_zero: f64, for_rate: f64, rate: f64, used_cores: f64) -> Self {
        let foretold_cores = cores_at_zero * rate / for_rate.max(1e-9);
        Self {
            cores_at_zero,
            for_handshakes_per_second: for_rate,
            handshakes_per_second: rate,
            foretold_cores,
            used_cores,
            error_share: foretold_cores / used_cores.max(1e-9) - 1.0,
            arithmetic: Vec::new(),
        }
    }
}

/// What coming back at once was like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Storm {
    /// Connections that were held and lost.
    pub connections: u64,
    /// Handshakes in the busiest tenth of a second, per second.
    pub peak_handshakes_per_second: f64,
    /// Seconds until the last one was back with an answer to a request.
    pub all_back_seconds: f64,
    /// Median time until a connection was back.
    pub p50_micros: Option<u64>,
    /// 99th percentile of the same.
    pub p99_micros: Option<u64>,
    /// Connections that did not come back.
    pub failures: u64,
    /// Share of them that resumed.
    pub hit_rate: Option<f64>,
    /// Most handshakes in flight that the instance was seen with.
    pub most_handshakes_in_flight: u64,
    /// Most bytes that handshakes in flight were seen to hold (phase 4).
    pub handshake_bytes_at_peak: Option<f64>,
    /// Memory of the process while connections were held.
    pub memory_held_bytes: Option<u64>,
    /// Most memory of the process in the storm.
    pub memory_peak_bytes: Option<u64>,
}

/// What was expected, what came, and whether that is good enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// What it is about.
    pub what: String,
    /// What came; `None` when it did not come at all.
    pub value: Option<f64>,
    /// Which side of the limit is good.
    pub bound: Bound,
    /// The limit.
    pub limit: f64,
    /// Unit of both: `share`, `seconds`, `count`, `factor` or `micros`.
    pub unit: &'static str,
    /// Whether it is good enough.
    pub passed: bool,
}

/// Which side of a limit is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The limit and more.
    AtLeast,
    /// The limit and less.
    AtMost,
}

impl Expectation {
    pub(super) fn at_least(
        what: impl Into<String>,
        value: Option<f64>,
        limit: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            what: what.into(),
            value,
            bound: Bound::AtLeast,
            limit,
            unit,
            passed: value.is_some_and(|value| value >= limit),
        }
    }

    pub(super) fn at_most(
        what: impl Into<String>,
        value: Option<f64>,
        limit: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            bound: Bound::AtMost,
            passed: value.is_some_and(|value| value <= limit),
            ..Self::at_least(what, value, limit, unit)
        }
    }
}

/// One second of a drill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the change; negative before it.
    pub at_seconds: f64,
    /// Operations per second.
    pub per_second: f64,
    /// Resumed over all handshakes.
    pub hit_rate: Option<f64>,
    /// 99th percentile of the time of an operation.
    pub p99_micros: Option<u64>,
    /// Operations that failed.
    pub failures: u64,
    /// CPU of the workers.
    pub cores: Option<f64>,
}
