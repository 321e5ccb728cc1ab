//! What was counted, put together to a result, and judged by what was asked for.

use std::time::{Duration, Instant};

use tollgate_terms::CipherSuite;

use super::control::counting;
use super::options::{MixPart, Mode};
use super::result::{
    Bar, Ending, LoadResult, Moment, PartResult, ServerCost, ServerHandshakes, Spread,
};
use super::tally::{self, Counts};
use super::{Conductor, Used};
use crate::watch::{Cpu, Watched};

/// How far the share of resumed handshakes may be from what was asked for.
const HIT_RATE_TOLERANCE: f64 = 0.005;

/// A thread that is busy for this share of the time is busy all the time.
const BUSY: f64 = 0.93;

/// What a window took, on both sides.
pub(crate) struct Measurement {
    pub(crate) elapsed: Duration,
    pub(crate) server: Cpu,
    pub(crate) client: Duration,
    pub(crate) memory_before: u64,
    pub(crate) memory_after: u64,
    pub(crate) server_handshakes: Option<ServerHandshakes>,
    pub(crate) over_time: Vec<Moment>,
    pub(crate) ending: Ending,
}

/// One piece of the window.
pub(crate) fn moment(
    counts: &Counts,
    began: Instant,
    from: Used,
    to: Used,
    server: &Watched,
) -> Moment {
    let seconds = (to.at - from.at).as_secs_f64().max(1e-9);
    let times = counts.operation.recorded();
    Moment {
        at_seconds: (to.at - began).as_secs_f64(),
        seconds,
        operations: counts.operations,
        per_second: counts.operations as f64 / seconds,
        p50_micros: times.map(|times| times.value_at_quantile(0.5)),
        p99_micros: times.map(|times| times.value_at_quantile(0.99)),
        failures: counts.failed(),
        full: counts.handshakes.full,
        resumed: counts.handshakes.resumed,
        hit_rate: counts.handshakes.hit_rate(),
        body_bytes: counts.body_bytes + counts.sent_bytes,
        times: times.map(tally::pairs).unwrap_or_default(),
        server_cores: (!server.is_empty())
            .then(|| to.server.since(from.server).total().as_secs_f64() / seconds),
    }
}

impl Conductor {
    /// The result of a run that is over.
    pub(crate) fn report(&self, measured: Measurement) -> LoadResult {
        let options = &self.plan.options;
        let by_part: Vec<Counts> = self
            .tallies
            .iter()
            .map(|tallies| {
                let mut sum = Counts::new();
                for tally in tallies {
                    sum.add(&counting(tally).counts);
                }
                sum
            })
            .collect();
        let mut whole = Counts::new();
        for counts in &by_part {
            whole.add(counts);
        }
        let seconds = measured.elapsed.as_secs_f64().max(1e-9);
        let times = whole.operation.recorded();
        let client_micros = measured.client.as_secs_f64() * 1e6;
        let mut missed = Vec::new();
        for (part, counts) in self.plan.parts.iter().zip(&by_part) {
            let found = self.missed(part, counts).into_iter();
            match options.mode {
                Mode::Mix => {
                    missed.extend(found.map(|what| format!("{}: {what}", part.mode.name())))
                }
                _ => missed.extend(found),
            }
        }
        missed.extend(self.disagreement(measured.server_handshakes.as_ref(), &whole));
        LoadResult {
            mode: options.mode.name(),
            target: options.target.clone(),
            ended_by: measured.ending,
            seconds,
            operations: whole.operations,
            per_second: whole.operations as f64 / seconds,
            body_bytes: whole.body_bytes,
            sent_bytes: whole.sent_bytes,
            failures: whole.failures.clone(),
            hit_rate: whole.handshakes.hit_rate(),
            handshakes: whole.handshakes.clone(),
            ran_out_of_tickets: whole.ran_out,
            early_data: (options.early_data_rate > 0.0).then_some(whole.early_data),
            server_handshakes: measured.server_handshakes,
            operation_micros: times.and_then(Spread::of),
            handshake_micros: whole.handshake.recorded().and_then(Spread::of),
            operation_histogram: times.map(Bar::of).unwrap_or_default(),
            late_starts: whole.late_starts,
            not_started: whole.not_started,
            server: self.cost(&measured, &whole),
            client_cpu_seconds: measured.client.as_secs_f64(),
            client_micros_per_operation: client_micros / whole.operations.max(1) as f64,
            client_threads: options.threads,
            limited_by_client: measured.client.as_secs_f64() > BUSY * seconds * self.own_cores(),
            parts: match options.mode {
                Mode::Mix => self.parts(&by_part, seconds),
                _ => Vec::new(),
            },
            additive: None,
            over_time: measured.over_time,
            missed,
        }
    }

    /// Cores that this run can keep busy.
    fn own_cores(&self) -> f64 {
        let options = &self.plan.options;
        let there = std::thread::available_parallelism().map_or(1, usize::from);
        match options.pin {
            Some(_) => 1.0,
            None => options.threads.min(there) as f64,
        }
    }

    fn cost(&self, measured: &Measurement, whole: &Counts) -> Option<ServerCost> {
        if self.server.is_empty() {
            return None;
        }
        let operations = whole.operations.max(1) as f64;
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / operations;
        let grown = measured.memory_after as f64 - measured.memory_before as f64;
        Some(ServerCost {
            user_seconds: measured.server.user.as_secs_f64(),
            system_seconds: measured.server.system.as_secs_f64(),
            user_micros_per_operation: micros(measured.server.user),
            system_micros_per_operation: micros(measured.server.system),
            memory_bytes_before: measured.memory_before,
            memory_bytes_after: measured.memory_after,
            memory_bytes_per_connection: (whole.held > 0 && self.plan.options.mode == Mode::Hold)
                .then(|| grown / whole.held as f64),
        })
    }

    fn parts(&self, by_part: &[Counts], seconds: f64) -> Vec<PartResult> {
        let parts = self.plan.parts.iter().zip(by_part);
        parts
            .map(|(part, counts)| PartResult {
                mode: part.mode.name(),
                asked_per_second: part.rate,
                connections: match part.mode {
                    Mode::Hold => counts.held,
                    _ => part.connections as u64,
                },
                operations: counts.operations,
                per_second: counts.operations as f64 / seconds,
                body_bytes: counts.body_bytes,
                sent_bytes: counts.sent_bytes,
                failures: counts.failures.clone(),
                handshakes: counts.handshakes.clone(),
                operation_micros: counts.operation.recorded().and_then(Spread::of),
                not_started: counts.not_started,
            })
            .collect()
    }

    /// Where a part was not what was asked for.
    fn missed(&self, part: &MixPart, counts: &Counts) -> Vec<String> {
        let options = &self.plan.options;
        let mut missed = Vec::new();
        if matches!(part.mode, Mode::Tps | Mode::Hold) {
            missed.extend(self.hit_rate_missed(counts));
            missed.extend(self.early_data_missed(counts));
        }
        let wanted = options.wanted_suites();
        for kind in &counts.handshakes.kinds {
            let is = |suite: &CipherSuite| suite.name() == kind.suite;
            if !wanted.is_empty() && !wanted.iter().any(is) {
                missed.push(format!("{} was negotiated", kind.suite));
            }
        }
        let mixed_hold = part.mode == Mode::Hold && options.mode == Mode::Mix;
        if counts.operations == 0 && counts.body_bytes == 0 && !mixed_hold {
            missed.push("no operation was finished".into());
        }
        let failed = counts.failed();
        if failed > 0 {
            missed.push(format!("{failed} operations failed"));
        }
        // What falls due in the last moment is nobody's fault.
        let spare = part.rate.map_or(0.0, |rate| (rate / 100.0).max(1.0));
        if counts.not_started as f64 > spare {
            missed.push(format!(
                "{} operations were due and could not be started; allow more connections or ask for a lower rate",
                counts.not_started
            ));
        }
        let wanted = match (part.mode, options.mode) {
            (Mode::Hold, Mode::Hold) => options.count as u64,
            (Mode::Hold, _) => part.connections as u64,
            _ => 0,
        };
        if counts.held < wanted {
            missed.push(format!("{} connections of {wanted} were held", counts.held));
        }
        missed
    }

    fn hit_rate_missed(&self, counts: &Counts) -> Option<String> {
        let total = counts.handshakes.total();
        let resumed = counts.handshakes.resumed as f64;
        let wanted = self.plan.options.hit_rate;
        // A handshake that was on its way at the end does not count, and could have been either.
        let edge = 1.0 + counts.unfinished as f64;
        let allowed = (HIT_RATE_TOLERANCE * total as f64).max(edge);
        let rate = counts.handshakes.hit_rate()?;
        ((resumed - wanted * total as f64).abs() > allowed).then(|| {
            let why = match counts.ran_out {
                0 => "the server declined to resume".into(),
                times => format!(
                    "there was no ticket left {times} times; the server gives too few, or the warm-up is too short to gather them"
                ),
            };
            format!("a hit rate of {wanted:.3} was asked for, {rate:.3} was reached: {why}")
        })
    }

    fn early_data_missed(&self, counts: &Counts) -> Option<String> {
        let wanted = self.plan.options.early_data_rate;
        let (resumed, sent) = (
            counts.handshakes.resumed as f64,
            counts.early_data.sent as f64,
        );
        if wanted == 0.0 || resumed == 0.0 {
            return None;
        }
        let allowed = (HIT_RATE_TOLERANCE * resumed).max(1.0 + counts.unfinished as f64);
        ((sent - wanted * resumed).abs() > allowed).then(|| {
            let why = match counts.early_data.not_allowed {
                0 => String::new(),
                times => format!(": {times} tickets did not allow it"),
            };
            format!(
                "a share of {wanted:.3} of early data was asked for, {:.3} was reached{why}",
                sent / resumed
            )
        })
    }

    fn disagreement(&self, server: Option<&ServerHandshakes>, whole: &Counts) -> Vec<String> {
        let Some(server) = server else {
            return Vec::new();
        };
        let mut missed = Vec::new();
        if !server.agrees() {
            missed.push(format!(
                "the server has counted {} full and {} resumed handshakes, this run {} and {}; does somebody else connect to it?",
                server.full_in_run,
                server.resumed_in_run,
                server.client_full_in_run,
                server.client_resumed_in_run
            ));
        }
        if let (Some(theirs), Some(ours)) = (server.hit_rate, whole.handshakes.hit_rate())
            && self.plan.options.mode == Mode::Tps
        {
            let edge = (2 * self.plan.options.connections) as f64;
            let total = whole.handshakes.total() as f64;
            if (theirs - ours).abs() > HIT_RATE_TOLERANCE.max(edge / total) {
                missed.push(format!(
                    "the server has counted a hit rate of {theirs:.3}, this run one of {ours:.3}"
                ));
            }
        }
        missed
    }
}
