//! What a load run found: counts, times, and what the handshakes really were.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;
use tollgate_terms::HandshakeFacts;

/// Everything that a run found. The JSON form is this struct, with units in the names.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    /// `tps`, `requests`, `download`, `upload`, `hold` or `mix`.
    pub mode: &'static str,
    /// `HOST:PORT` that was connected to.
    pub target: String,
    /// What ended the measured window: `time`, `operations` or `interrupt`.
    pub ended_by: Ending,
    /// Length of the measured window; for `hold`, how long opening took.
    pub seconds: f64,
    /// Operations finished in the window.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Bytes of response bodies taken in the window.
    pub body_bytes: u64,
    /// Bytes of request bodies that a response in the window has acknowledged.
    pub sent_bytes: u64,
    /// Operations that failed in the window, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Handshakes finished in the window; for connections that stay open all of the run.
    pub handshakes: Handshakes,
    /// Share of those handshakes that resumed; `None` when there was none.
    pub hit_rate: Option<f64>,
    /// Handshakes that should have resumed when no ticket was left.
    pub ran_out_of_tickets: u64,
    /// Requests sent as early data, when that was asked for.
    pub early_data: Option<EarlyDataCount>,
    /// What the server itself has counted, when its console was asked.
    pub server_handshakes: Option<ServerHandshakes>,
    /// Time of one whole operation, in an open loop from when it was due.
    pub operation_micros: Option<Spread>,
    /// Time from the first TLS byte to the end of the handshake.
    pub handshake_micros: Option<Spread>,
    /// How operation times were distributed.
    pub operation_histogram: Vec<Bar>,
    /// Operations that began more than a millisecond after they were due (open loop).
    pub late_starts: u64,
    /// Operations that were due and had not begun when the window ended (open loop).
    pub not_started: u64,
    /// What the watched processes took; `None` when none was watched.
    pub server: Option<ServerCost>,
    /// CPU time that this run itself took in the window, in seconds: near `seconds` it was the limit.
    pub client_cpu_seconds: f64,
    /// The same per operation, in microseconds.
    pub client_micros_per_operation: f64,
    /// Threads that shared the work.
    pub client_threads: usize,
    /// Whether this run's own threads were busy nearly all the time, so that the server may do more.
    pub limited_by_client: bool,
    /// The parts of a mix; empty for everything else.
    pub parts: Vec<PartResult>,
    /// What the parts of a mix cost one by one, when that was measured as well.
    pub additive: Option<Additive>,
    /// The window piece by piece.
    pub over_time: Vec<Moment>,
    /// What was asked for and not reached; empty for a run that is what it says.
    pub missed: Vec<String>,
}

/// What ended the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The time asked for was over.
    Time,
    /// The number of operations asked for was done.
    Operations,
    /// Somebody stopped the run; what is reported was measured until then.
    Interrupt,
}

/// One part of a mix.
#[derive(Clone, Debug, Serialize)]
pub struct PartResult {
    /// `tps`, `requests`, `download`, `upload` or `hold`.
    pub mode: &'static str,
    /// Operations per second that were asked for; `None` in a closed loop.
    pub asked_per_second: Option<f64>,
    /// Connections at a time; for `hold`, connections that were open at the end.
    pub connections: u64,
    /// Operations finished in the window.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Bytes of response bodies taken in the window.
    pub body_bytes: u64,
    /// Bytes of request bodies that a response has acknowledged.
    pub sent_bytes: u64,
    /// Operations that failed in the window, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Full and resumed handshakes of this part.
    pub handshakes: Handshakes,
    /// Time of one whole operation, in an open loop from when it was due.
    pub operation_micros: Option<Spread>,
    /// Operations that were due and had not begun when the window ended.
    pub not_started: u64,
}

/// The cost of a mix beside the sum of what its parts cost alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Additive {
    /// Server CPU per second of each part alone, in the order of the parts.
    pub alone_cores: Vec<f64>,
    /// Their sum: what a model that adds them up foretells.
    pub sum_cores: f64,
    /// Server CPU per second of all parts together.
    pub together_cores: f64,
    /// How far the sum is from the truth, as a share of the truth; positive when it is too high.
    pub error_share: f64,
}

impl Additive {
    pub(crate) fn of(alone_cores: Vec<f64>, together_cores: f64) -> Self {
        let sum_cores: f64 = alone_cores.iter().sum();
        Self {
            alone_cores,
            sum_cores,
            together_cores,
            error_share: (sum_cores - together_cores) / together_cores.max(1e-9),
        }
    }
}

/// Requests sent as early data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EarlyDataCount {
    /// Sent with the first flight.
    pub sent: u64,
    /// Taken by the server.
    pub accepted: u64,
    /// Not taken, and sent again after the handshake.
    pub rejected: u64,
    /// Resumptions whose ticket allowed no early data, or not so much.
    pub not_allowed: u64,
}

impl EarlyDataCount {
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.not_allowed += other.not_allowed;
    }
}

/// Handshakes as the server has counted them, beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerHandshakes {
    /// Full in the window.
    pub full: u64,
    /// Resumed in the window.
    pub resumed: u64,
    /// Share of the resumed in the window.
    pub hit_rate: Option<f64>,
    /// Full in the whole run, from its first connection to its last.
    pub full_in_run: u64,
    /// Resumed in the whole run.
    pub resumed_in_run: u64,
    /// What the client has counted in the whole run: full.
    pub client_full_in_run: u64,
    /// What the client has counted in the whole run: resumed.
    pub client_resumed_in_run: u64,
}

impl ServerHandshakes {
    /// Whether both ends have counted the same over the whole run.
    pub fn agrees(&self) -> bool {
        self.full_in_run == self.client_full_in_run
            && self.resumed_in_run == self.client_resumed_in_run
    }
}

/// One piece of the window.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// When it ended, counted from the begin of the window.
    pub at_seconds: f64,
    /// How long it was.
    pub seconds: f64,
    /// Operations finished in it.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Median time of an operation.
    pub p50_micros: Option<u64>,
    /// 99th percentile.
    pub p99_micros: Option<u64>,
    /// Operations that failed.
    pub failures: u64,
    /// Handshakes that were full.
    pub full: u64,
    /// Handshakes that were resumed.
    pub resumed: u64,
    /// Share of the resumed; `None` without any handshake.
    pub hit_rate: Option<f64>,
    /// Bytes of bodies, in both directions.
    pub body_bytes: u64,
    /// CPU time of the watched processes, in cores; `None` when none is watched.
    pub server_cores: Option<f64>,
    /// Times of operations in microseconds, and how many took so long; for adding up pieces.
    #[serde(skip)]
    pub times: Vec<(u64, u64)>,
}

/// Handshakes by what they were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Handshakes {
    /// Full, with or without a retry.
    pub full: u64,
    /// Resumed.
    pub resumed: u64,
    /// Each combination that was negotiated.
    pub kinds: Vec<HandshakeCount>,
}

/// How many handshakes were alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandshakeCount {
    /// `full`, `full_with_retry` or `resumed`.
    pub kind: &'static str,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// IANA name of the suite.
    pub suite: String,
    /// Name of the group; `None` without a key exchange.
    pub group: Option<String>,
    /// Kind of the certificate; `None` when resumed.
    pub certificate: Option<&'static str>,
    /// Scheme of the server's signature; `None` when resumed.
    pub signature: Option<String>,
    /// How many.
    pub count: u64,
}

impl Handshakes {
    /// Share of the resumed; `None` without any handshake.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.total() > 0).then(|| self.resumed as f64 / self.total() as f64)
    }

    pub(crate) fn add(&mut self, facts: &HandshakeFacts) {
        if facts.kind.is_resumed() {
            self.resumed += 1;
        } else {
            self.full += 1;
        }
        if let Some(known) = self.kinds.iter_mut().find(|known| known.is(facts)) {
            known.count += 1;
            return;
        }
        self.kinds.push(HandshakeCount {
            kind: facts.kind.name(),
            version: facts.version.name(),
            suite: facts.suite.to_string(),
            group: facts.group.map(|group| group.to_string()),
            certificate: facts.certificate.map(|kind| kind.name()),
            signature: facts.signature.map(|scheme| scheme.to_string()),
            count: 1,
        });
    }

    /// Adds what another thread or part has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        for kind in &other.kinds {
            let alike = |known: &&mut HandshakeCount| {
                HandshakeCount {
                    count: kind.count,
                    ..(**known).clone()
                } == *kind
            };
            match self.kinds.iter_mut().find(alike) {
                Some(known) => known.count += kind.count,
                None => self.kinds.push(kind.clone()),
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.full + self.resumed
    }
}

impl HandshakeCount {
    /// Compares without making a text: this runs once per handshake.
    fn is(&self, facts: &HandshakeFacts) -> bool {
        self.kind == facts.kind.name()
            && self.version == facts.version.name()
            && self.suite == facts.suite.name()
            && self.group.as_deref() == facts.group.map(|group| group.name())
            && self.certificate == facts.certificate.map(|kind| kind.name())
            && self.signature.as_deref() == facts.signature.map(|scheme| scheme.name())
    }
}

/// Percentiles of a time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    #[serde(rename = "p99_9")]
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

impl Spread {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        })
    }
}

/// How many operations took a time from one bound up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Least time, in microseconds.
    pub from_micros: u64,
    /// Where the next bar begins, in microseconds.
    pub to_micros: u64,
    /// How many.
    pub count: u64,
}

impl Bar {
    /// The bars of a histogram, six to a power of ten, from the first that holds anything to the last.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Vec<Self> {
        const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];
        let bounds: Vec<u64> = (0..9)
            .flat_map(|power| STEPS.map(|step| step * 10_u64.pow(power) / 10))
            .collect();
        let mut bars: Vec<Self> = bounds
            .windows(2)
            .filter(|pair| pair[0] < pair[1])
            .map(|pair| Self {
                from_micros: pair[0],
                to_micros: pair[1],
                count: 0,
            })
            .collect();
        for step in histogram.iter_recorded() {
            let value = step.value_iterated_to();
            if let Some(bar) = bars.iter_mut().find(|bar| value < bar.to_micros) {
                bar.count += step.count_at_value();
            }
        }
        let first = bars.iter().position(|bar| bar.count > 0);
        let last = bars.iter().rposition(|bar| bar.count > 0);
        match (first, last) {
            (Some(first), Some(last)) => bars.drain(first..=last).collect(),
            _ => Vec::new(),
        }
    }
}

/// What the watched processes took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerCost {
    /// CPU time in the program, in seconds.
    pub user_seconds: f64,
    /// CPU time in the kernel on its behalf, in seconds.
    pub system_seconds: f64,
    /// Program time per operation, in microseconds.
    pub user_micros_per_operation: f64,
    /// Kernel time per operation, in microseconds.
    pub system_micros_per_operation: f64,
    /// User memory before the connections were opened.
    pub memory_bytes_before: u64,
    /// User memory at the end, while they were still open.
    pub memory_bytes_after: u64,
    /// The difference by connection (`hold`).
    pub memory_bytes_per_connection: Option<f64>,
}

impl LoadResult {
    /// Whether the run was what it was asked to be.
    pub fn reached(&self) -> bool {
        self.missed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn bars_hold_every_operation_once() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).unwrap();
        for micros in 1..=5000 {
            histogram.record(micros).unwrap();
        }
        histogram.record(30_000_000).unwrap();
        let bars = Bar::of(&histogram);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 5001);
        assert_eq!(bars.first().unwrap().from_micros, 1);
        assert_eq!(bars.last().unwrap().from_micros, 30_000_000);
        assert!(
            bars.windows(2)
                .all(|two| two[0].to_micros == two[1].from_micros)
        );
    }

    #[test]
    fn the_additive_model_is_judged_by_the_truth() {
        let additive = Additive::of(vec![0.2, 0.3], 0.4);
        assert!((additive.sum_cores - 0.5).abs() < 1e-9);
        assert!((additive.error_share - 0.25).abs() < 1e-9);
    }
}
