//! The answer: terms by phase, what they add up to, and what is needed when resumption is lost.

use super::{
    AtHits, Binding, CoresTerm, Input, Known, KnownBytes, MemoryTerm, Missing, Origin, Plan,
    UnitCosts, Waiting, Workload,
};
use crate::price::{round, shown};

/// How much `workload` needs at these `costs`.
///
/// # Errors
///
/// Every cost that the workload needs and that is not known, with the two ways to have it.
pub fn plan(workload: &Workload, costs: &UnitCosts) -> Result<Plan, Vec<Missing>> {
    let missing = missing(workload, costs);
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut sum = Sum {
        plan: Plan::default(),
        workload,
        costs,
    };
    sum.handshakes();
    sum.records();
    sum.plan.cores = total(&sum.plan.cores_by_phase);
    sum.at_other_hits();
    sum.memory();
    sum.binds();
    sum.waiting();
    sum.notes();
    Ok(sum.plan)
}

fn missing(workload: &Workload, costs: &UnitCosts) -> Vec<Missing> {
    let rate = workload.handshakes_per_second();
    let hits = workload.hits.unwrap_or(0.0);
    let in_flight =
        workload.in_flight.is_some() || (workload.handshake_seconds.is_some() && rate > 0.0);
    let no_bulk = workload.gigabits_per_second.is_some() && costs.nanos_per_byte.is_none();
    let no_answers = workload.bytes_per_request.is_some() && costs.request_nanos_per_byte.is_none();
    let choice = &costs.choice;
    let needed = [
        (
            rate > 0.0 && hits < 1.0 && costs.full_micros.is_none(),
            "the cost of a full handshake",
            choice.handshake("full"),
            "--cost-handshake TIME",
        ),
        (
            rate > 0.0 && hits > 0.0 && costs.resumed_micros.is_none(),
            "the cost of a resumed handshake",
            choice.handshake("resumed"),
            "--cost-resumed TIME",
        ),
        (
            no_bulk || no_answers,
            "the cost of a byte sent",
            choice.record(16_384),
            "--ns-per-byte NUMBER",
        ),
        (
            in_flight && costs.handshake_bytes.is_none(),
            "the memory of a handshake in flight",
            choice.handshake_memory()[1].clone(),
            "--handshake-bytes SIZE",
        ),
        (
            workload.connections.is_some() && costs.connection_bytes.is_empty(),
            "the memory of a connection",
            choice.connection_memory("user"),
            "--connection-bytes SIZE",
        ),
    ];
    needed
        .into_iter()
        .filter(|(is, ..)| *is)
        .map(|(_, what, figure, option)| Missing {
            what: what.into(),
            figure,
            option: option.into(),
        })
        .collect()
}

/// The plan as it grows.
struct Sum<'a> {
    plan: Plan,
    workload: &'a Workload,
    costs: &'a UnitCosts,
}

impl Sum<'_> {
    fn input(&mut self, what: &str, value: String, origin: &Origin) {
        self.plan.inputs.push(Input {
            what: what.into(),
            value,
            origin: origin.clone(),
        });
    }

    fn term(&mut self, phase: &str, what: &str, cores: f64, arithmetic: String, from: &[&Origin]) {
        let cores = round(cores, 6);
        self.plan.cores_by_phase.push(CoresTerm {
            phase: phase.into(),
            what: what.into(),
            cores,
            arithmetic: format!("{arithmetic} = {} cores", shown(cores)),
            from: short(from),
        });
    }

    fn handshakes(&mut self) {
        let (workload, costs) = (self.workload, self.costs);
        let rate = workload.handshakes_per_second();
        if rate <= 0.0 {
            return;
        }
        self.rate_inputs(rate);
        let hits = match workload.hits {
            Some(hits) => {
                self.input("hit rate", shown(hits), &workload.origin);
                hits
            }
            None => {
                let why = "no hit rate was given, so no handshake resumes".into();
                self.input("hit rate", "0".into(), &Origin::Assumed { why });
                0.0
            }
        };
        if let Some(full) = &costs.full_micros {
            self.input(
                "full handshake",
                format!("{} µs", shown(full.value)),
                &full.origin,
            );
            self.plan.full_per_second_per_core =
                (full.value > 0.0).then(|| round(1e6 / full.value, 1));
        }
        if let Some(resumed) = &costs.resumed_micros {
            self.input(
                "resumed handshake",
                format!("{} µs", shown(resumed.value)),
                &resumed.origin,
            );
        }
        if !self.taken_apart(rate, hits) {
            self.whole(rate, hits);
        }
    }

    fn rate_inputs(&mut self, rate: f64) {
        let workload = self.workload;
        let (each, requests) = (
            workload.connections_per_request,
            workload.requests_per_second,
        );
        match (each, requests) {
            (Some(each), Some(requests)) if each > 0.0 => {
                let own = match workload.connections_per_second {
                    Some(own) if own > 0.0 => format!("{} + ", shown(own)),
                    Some(_) | None => String::new(),
                };
                let value = format!(
                    "{own}{} x {} = {}/s",
                    shown(requests),
                    shown(each),
                    shown(rate)
                );
                self.input("handshakes", value, &workload.origin);
            }
            _ => self.input("handshakes", format!("{}/s", shown(rate)), &workload.origin),
        }
    }

    /// Phases by themselves, when the sheet took the handshakes apart; says whether it did.
    fn taken_apart(&mut self, rate: f64, hits: f64) -> bool {
        let costs = self.costs;
        let part = |whole: &Option<Known>, part: Option<f64>, share: f64| match (whole, part) {
            (Some(whole), Some(part)) if part <= whole.value => {
                Some((whole.value, part, Some(whole.origin.clone())))
            }
            _ => (share <= 0.0).then_some((0.0, 0.0, None)),
        };
        let full = part(&costs.full_micros, costs.full_asymmetric_micros, 1.0 - hits);
        let resumed = part(&costs.resumed_micros, costs.resumed_asymmetric_micros, hits);
        let (Some((full, full_part, one)), Some((resumed, resumed_part, other))) = (full, resumed)
        else {
            return false;
        };
        let from: Vec<&Origin> = [Some(&self.workload.origin), one.as_ref(), other.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let (rest, resumed_rest) = (round(full - full_part, 3), round(resumed - resumed_part, 3));
        let parts = [
            ("1", "key exchange and signature", full_part, resumed_part),
            (
                "2",
                "key schedule, transcript, messages, tickets",
                rest,
                resumed_rest,
            ),
        ];
        for (phase, what, full, resumed) in parts {
            let (sum, micros) = mixed(hits, full, resumed);
            let line = format!("{}/s x {sum} µs / 1000000", shown(rate));
            self.term(phase, what, rate * micros / 1e6, line, &from);
        }
        true
    }

    /// Full and resumed handshakes, each as a whole.
    fn whole(&mut self, rate: f64, hits: f64) {
        let (workload, costs) = (self.workload, self.costs);
        let kinds = [
            (
                "full handshakes",
                &costs.full_micros,
                1.0 - hits,
                format!("(1 - {})", shown(hits)),
            ),
            (
                "resumed handshakes",
                &costs.resumed_micros,
                hits,
                shown(hits),
            ),
        ];
        for (what, cost, share, share_said) in kinds {
            let Some(cost) = cost else { continue };
            if share <= 0.0 {
                continue;
            }
            let share_said = match share >= 1.0 {
                true => String::new(),
                false => format!(" x {share_said}"),
            };
            let line = format!(
                "{}/s{share_said} x {} µs / 1000000",
                shown(rate),
                shown(cost.value)
            );
            let cores = rate * share * cost.value / 1e6;
            self.term("1, 2", what, cores, line, &[&workload.origin, &cost.origin]);
        }
    }

    fn records(&mut self) {
        let (workload, costs) = (self.workload, self.costs);
        if let (Some(gigabits), Some(cost)) = (workload.gigabits_per_second, &costs.nanos_per_byte)
        {
            let nanos = nanos(cost.value);
            self.input(
                "application data sent",
                format!("{} Gb/s", shown(gigabits)),
                &workload.origin,
            );
            self.input(
                "byte sent in long records",
                format!("{nanos} ns"),
                &cost.origin,
            );
            let bytes = gigabits * 1e9 / 8.0;
            let line = format!(
                "{} Gb/s x 1000000000 / 8 x {nanos} ns / 1000000000",
                shown(gigabits)
            );
            let from = [&workload.origin, &cost.origin];
            self.term(
                "3",
                "records of bulk data",
                bytes * cost.value / 1e9,
                line,
                &from,
            );
        }
        if let (Some(requests), Some(bytes), Some(cost)) = (
            workload.requests_per_second,
            workload.bytes_per_request,
            &costs.request_nanos_per_byte,
        ) {
            let nanos = nanos(cost.value);
            self.input(
                "requests",
                format!("{}/s", shown(requests)),
                &workload.origin,
            );
            self.input("bytes per request", shown(bytes), &workload.origin);
            self.input("byte of an answer", format!("{nanos} ns"), &cost.origin);
            let line = format!(
                "{}/s x {} bytes x {nanos} ns / 1000000000",
                shown(requests),
                shown(bytes)
            );
            let from = [&workload.origin, &cost.origin];
            self.term(
                "3",
                "records of answers",
                requests * bytes * cost.value / 1e9,
                line,
                &from,
            );
        }
    }

    fn at_other_hits(&mut self) {
        let rate = self.workload.handshakes_per_second();
        if rate <= 0.0 {
            return;
        }
        let records = self
            .plan
            .cores_by_phase
            .iter()
            .filter(|term| term.phase == "3");
        let records = round(records.map(|term| term.cores).sum(), 6);
        let value = |cost: &Option<Known>| cost.as_ref().map(|cost| cost.value);
        let full = value(&self.costs.full_micros);
        let resumed = value(&self.costs.resumed_micros);
        for (hits, resumed) in [(0.5, resumed), (0.0, Some(resumed.unwrap_or(0.0)))] {
            let (cores, arithmetic) = match (full, resumed) {
                (Some(full), Some(resumed)) => {
                    let (sum, micros) = mixed(hits, full, resumed);
                    let cores = round(rate * micros / 1e6 + records, 6);
                    let records_said = match records > 0.0 {
                        true => format!(" + {} of records", shown(records)),
                        false => String::new(),
                    };
                    let line = format!(
                        "{}/s x {sum} µs / 1000000{records_said} = {} cores",
                        shown(rate),
                        shown(cores)
                    );
                    (Some(cores), line)
                }
                (None, _) => (None, "not known without the cost of a full handshake: --cost-handshake TIME or --sheet FILE".into()),
                (_, None) => (None, "not known without the cost of a resumed handshake: --cost-resumed TIME or --sheet FILE".into()),
            };
            self.plan.at_hits.push(AtHits {
                hits,
                cores,
                arithmetic,
            });
        }
    }

    fn memory(&mut self) {
        let (workload, costs) = (self.workload, self.costs);
        if let Some(each) = &costs.handshake_bytes
            && let Some((count, said)) = in_flight(workload)
        {
            self.input("handshakes in flight", said, &workload.origin);
            self.memory_term("4", "handshakes in flight", count, each);
        }
        if let Some(count) = workload.connections {
            self.input("connections", shown(count), &workload.origin);
            for each in &costs.connection_bytes {
                self.memory_term("5", "connections", count, each);
            }
        }
        let sum = |of: fn(&MemoryTerm) -> f64| self.plan.memory_by_phase.iter().map(of).sum();
        (self.plan.memory_low_bytes, self.plan.memory_high_bytes) =
            (sum(|term| term.low_bytes), sum(|term| term.high_bytes));
    }

    fn memory_term(&mut self, phase: &str, what: &str, count: f64, each: &KnownBytes) {
        let (low, high) = (round(count * each.low, 0), round(count * each.high, 0));
        let span = |low: f64, high: f64| match low == high {
            true => shown(low),
            false => format!("{} to {}", shown(low), shown(high)),
        };
        let value = format!("{} bytes", span(each.low, each.high));
        self.input(&format!("{what}, each: {}", each.what), value, &each.origin);
        self.plan.memory_by_phase.push(MemoryTerm {
            phase: phase.into(),
            what: format!("{what}: {}", each.what),
            low_bytes: low,
            high_bytes: high,
            arithmetic: format!(
                "{} x {} bytes = {} bytes",
                shown(count),
                span(each.low, each.high),
                span(low, high)
            ),
            from: short(&[&self.workload.origin, &each.origin]),
        });
    }

    /// The largest term of CPU; of memory when there is none of CPU.
    fn binds(&mut self) {
        let of_cores = self.plan.cores_by_phase.iter();
        let of_memory = self.plan.memory_by_phase.iter();
        let cores = of_cores.map(|term| (&term.phase, &term.what, term.cores));
        let memory = of_memory.map(|term| (&term.phase, &term.what, term.high_bytes));
        let (word, unit, all, largest) = match self.plan.cores > 0.0 {
            true => ("CPU", "cores", self.plan.cores, largest(cores)),
            false => (
                "memory",
                "bytes",
                self.plan.memory_high_bytes,
                largest(memory),
            ),
        };
        self.plan.binds = largest.filter(|_| all > 0.0).map(|(phase, what, part)| {
            let share = round(part / all, 4);
            Binding {
                what: format!("{word}: phase {phase}, {what}"),
                share,
                arithmetic: format!(
                    "{} / {} {unit} = {} %",
                    shown(part),
                    shown(all),
                    shown(round(share * 100.0, 2))
                ),
            }
        });
    }

    fn notes(&mut self) {
        let phases = &self.plan.cores_by_phase;
        let records = phases.iter().any(|term| term.phase == "3");
        if !phases.is_empty() {
            self.plan.notes.push(
                "this is the CPU of TLS alone: kernel, HTTP and relaying are not in it".into(),
            );
        }
        if records {
            self.plan.notes.push(
                "~ only bytes that are sent are counted; those received are taken as none".into(),
            );
        }
        let costs = self.costs;
        let kernel = costs
            .connection_bytes
            .iter()
            .any(|each| each.what == "kernel memory");
        let measured = costs
            .connection_bytes
            .iter()
            .any(|each| matches!(each.origin, Origin::Sheet { .. }));
        if self.workload.connections.is_some() && measured && !kernel {
            self.plan.notes.push(format!(
                "kernel memory of connections is not in it: the sheet has no {}",
                costs.choice.connection_memory("kernel")
            ));
        }
    }

    fn waiting(&mut self) {
        let workload = self.workload;
        let (Some(seconds), Some(rate)) =
            (workload.round_trip_seconds, workload.requests_per_second)
        else {
            return;
        };
        self.input(
            "round trip",
            format!("{} s", shown(seconds)),
            &workload.origin,
        );
        if self
            .plan
            .inputs
            .iter()
            .all(|input| input.what != "requests")
        {
            self.input("requests", format!("{}/s", shown(rate)), &workload.origin);
        }
        let sum = round(rate * seconds, 6);
        self.plan.waiting = Some(Waiting {
            seconds_per_second: sum,
            arithmetic: format!(
                "{}/s x {} s = {} s/s",
                shown(rate),
                shown(seconds),
                shown(sum)
            ),
        });
    }
}

fn largest<'a>(
    terms: impl Iterator<Item = (&'a String, &'a String, f64)>,
) -> Option<(&'a String, &'a String, f64)> {
    terms.max_by(|one, other| one.2.total_cmp(&other.2))
}

/// What the average handshake takes, with the sum as text.
fn mixed(hits: f64, full: f64, resumed: f64) -> (String, f64) {
    let said = match hits {
        hits if hits <= 0.0 => shown(full),
        hits if hits >= 1.0 => shown(resumed),
        hits => format!(
            "((1 - {}) x {} + {} x {})",
            shown(hits),
            shown(full),
            shown(hits),
            shown(resumed)
        ),
    };
    (said, (1.0 - hits) * full + hits * resumed)
}

/// Given, or the rate times how long each takes (Little's law).
fn in_flight(workload: &Workload) -> Option<(f64, String)> {
    if let Some(count) = workload.in_flight {
        return Some((count, shown(count)));
    }
    let (rate, seconds) = (
        workload.handshakes_per_second(),
        workload.handshake_seconds?,
    );
    let count = round(rate * seconds, 3);
    (rate > 0.0).then(|| {
        let said = format!(
            "{}/s x {} s = {}",
            shown(rate),
            shown(seconds),
            shown(count)
        );
        (count, said)
    })
}

/// Nanoseconds of a byte as text.
fn nanos(value: f64) -> String {
    shown(round(value, 6))
}

fn total(terms: &[CoresTerm]) -> f64 {
    round(terms.iter().map(|term| term.cores).sum(), 6)
}

/// Each origin once.
fn short(origins: &[&Origin]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for origin in origins {
        let short = origin.short();
        if !all.contains(&short) {
            all.push(short);
        }
    }
    all
}
