//! The text for people.

use std::fmt::Write as _;

use comfy_table::Table;

use super::report::{Act, Bound, Expectation, Report};
use crate::Look;
use crate::bench::text::{indented, plain_table, right};

/// Longest line of running text.
const WIDTH: usize = 100;

impl Report {
    /// The whole report for people.
    pub fn text(&self, look: Look) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, look);
        text
    }

    fn write(&self, f: &mut String, look: Look) -> std::fmt::Result {
        writeln!(f, "{}  {}", look.strong(self.drill), look.faint(self.about))?;
        writeln!(f, " instance  {}", self.instance)?;
        writeln!(f, " load      {}", self.load)?;
        if !self.acts.is_empty() {
            writeln!(f, "\n{}", indented(&acts(&self.acts)).trim_end())?;
        }
        self.write_storm(f)?;
        self.write_forecast(f)?;
        self.write_course(f, look)?;
        for said in &self.said {
            paragraph(f, " said      ", said)?;
        }
        writeln!(
            f,
            "\n{}",
            indented(&expectations(&self.expectations)).trim_end()
        )?;
        for note in &self.notes {
            paragraph(f, " note  ", note)?;
        }
        let failed = self
            .expectations
            .iter()
            .filter(|expected| !expected.passed)
            .count();
        match failed {
            0 => writeln!(f, "\n{}", look.good("passed")),
            1 => writeln!(f, "\n{}", look.bad("failed: 1 expectation was not met")),
            some => writeln!(
                f,
                "\n{}",
                look.bad(&format!("failed: {some} expectations were not met"))
            ),
        }
    }

    fn write_storm(&self, f: &mut String) -> std::fmt::Result {
        let Some(storm) = &self.storm else {
            return Ok(());
        };
        let mut table = plain_table();
        table.set_header(["all at once", ""]);
        let mut row = |what: &str, value: String| {
            table.add_row([what.into(), right(value)]);
        };
        row("connections lost and back", storm.connections.to_string());
        row(
            "handshakes/s at the peak",
            format!("{:.0}", storm.peak_handshakes_per_second),
        );
        row(
            "until all were back",
            format!("{:.2} s", storm.all_back_seconds),
        );
        row("back, median", millis(storm.p50_micros));
        row("back, 99th percentile", millis(storm.p99_micros));
        row("handshakes that resumed", percent(storm.hit_rate));
        row(
            "most handshakes in flight seen",
            storm.most_handshakes_in_flight.to_string(),
        );
        row(
            "their memory then (phase 4)",
            bytes(storm.handshake_bytes_at_peak),
        );
        row(
            "memory of the process, held",
            bytes(storm.memory_held_bytes.map(|n| n as f64)),
        );
        row(
            "memory of the process, most",
            bytes(storm.memory_peak_bytes.map(|n| n as f64)),
        );
        writeln!(f, "\n{}", indented(&table).trim_end())
    }

    fn write_forecast(&self, f: &mut String) -> std::fmt::Result {
        let Some(forecast) = &self.forecast else {
            return Ok(());
        };
        writeln!(
            f,
            "\n forecast  {:.3} cores without resumption at {:.0} handshakes/s; at the {:.0}/s that came, {:.3}",
            forecast.cores_at_zero,
            forecast.for_handshakes_per_second,
            forecast.handshakes_per_second,
            forecast.foretold_cores,
        )?;
        writeln!(
            f,
            " reality   {:.3} cores: the forecast was {:.1} % too {}",
            forecast.used_cores,
            100.0 * forecast.error_share.abs(),
            if forecast.error_share < 0.0 {
                "low"
            } else {
                "high"
            }
        )?;
        for line in &forecast.arithmetic {
            paragraph(f, "           ", line)?;
        }
        Ok(())
    }

    /// Alarms, and the curve of the hit rate.
    fn write_course(&self, f: &mut String, look: Look) -> std::fmt::Result {
        if !self.curve.is_empty() {
            writeln!(f)?;
            let rates: Vec<Option<f64>> = self.curve.iter().map(|point| point.hit_rate).collect();
            writeln!(
                f,
                " hit rate  {}  0 to 100 %, a second each",
                look.chart(&sparks(&rates, 1.0))
            )?;
            let most = self
                .curve
                .iter()
                .filter_map(|point| point.cores)
                .fold(0.0, f64::max);
            let cores: Vec<Option<f64>> = self.curve.iter().map(|point| point.cores).collect();
            if most > 0.0 {
                writeln!(
                    f,
                    " cores     {}  0 to {most:.2}",
                    look.chart(&sparks(&cores, most))
                )?;
            }
        }
        for alarm in &self.alarms {
            let subject = match alarm.subject.as_str() {
                "" => String::new(),
                subject => format!(" of {subject}"),
            };
            let quiet = match alarm.quiet_after_seconds {
                Some(seconds) => format!("quiet again {seconds:.1} s after it was put right"),
                None => "still firing at the end".to_owned(),
            };
            writeln!(
                f,
                " alarm     {}{subject} fired after {:.1} s, {quiet}",
                look.strong(&alarm.name),
                alarm.raised_after_seconds
            )?;
        }
        Ok(())
    }
}

/// The acts side by side: a row for each figure.
fn acts(acts: &[Act]) -> Table {
    let mut table = plain_table();
    let names = acts.iter().map(|act| right(&act.name));
    table.set_header(std::iter::once("".into()).chain(names));
    let mut row = |what: &str, value: &dyn Fn(&Act) -> String| {
        if acts.iter().any(|act| value(act) != "-") {
            let values = acts.iter().map(|act| right(value(act)));
            table.add_row(std::iter::once(what.into()).chain(values));
        }
    };
    row("seconds", &|act| format!("{:.1}", act.seconds));
    row("connections/s", &|act| format!("{:.1}", act.per_second));
    row("failed", &|act| act.failures.to_string());
    row("time, median", &|act| millis(act.p50_micros));
    row("time, 99th percentile", &|act| millis(act.p99_micros));
    row("resumed", &|act| percent(act.hit_rate));
    row("cores: 1 asymmetric", &|act| cores(act.cores.asymmetric));
    row("cores: 2 derivation", &|act| cores(act.cores.derivation));
    row("cores: 3 records", &|act| cores(act.cores.records));
    row("cores: not TLS", &|act| cores(act.cores.not_tls));
    row("cores: all workers", &|act| cores(act.cores.workers));
    row("cores: process, by the kernel", &|act| {
        act.process_cores.map_or("-".into(), cores)
    });
    row("CPU per full handshake", &|act| {
        act.micros_per_full
            .map_or("-".into(), |micros| format!("{micros:.0} µs"))
    });
    row("alarms firing", &|act| match act.alarms.as_slice() {
        [] => "-".to_owned(),
        names => names.join("\n"),
    });
    table
}

fn expectations(expectations: &[Expectation]) -> Table {
    let mut table = plain_table();
    table.set_header(
        ["expected", "", "", ""]
            .map(|text| text.into())
            .into_iter()
            .collect::<Vec<comfy_table::Cell>>(),
    );
    for expected in expectations {
        let bound = match expected.bound {
            Bound::AtLeast => "at least",
            Bound::AtMost => "at most",
        };
        table.add_row([
            comfy_table::Cell::new(&expected.what),
            right(
                expected
                    .value
                    .map_or("never".into(), |value| with_unit(value, expected.unit)),
            ),
            comfy_table::Cell::new(format!(
                "{bound} {}",
                with_unit(expected.limit, expected.unit)
            )),
            comfy_table::Cell::new(if expected.passed { "pass" } else { "FAIL" }),
        ]);
    }
    table
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "share" => format!("{:.1} %", 100.0 * value),
        "seconds" => format!("{value:.1} s"),
        "factor" => format!("{value:.1}"),
        "micros" => format!("{value:.0} µs"),
        _ => format!("{value:.0}"),
    }
}

fn cores(cores: f64) -> String {
    format!("{cores:.3}")
}

fn millis(micros: Option<u64>) -> String {
    micros.map_or("-".into(), |micros| match micros {
        1_000_000.. => format!("{:.2} s", micros as f64 / 1e6),
        _ => format!("{:.2} ms", micros as f64 / 1e3),
    })
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", 100.0 * share))
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map_or("-".into(), |bytes| {
        tollgate_terms::Bytes(bytes as u64).to_string()
    })
}

/// One character for each value, in eighths of `full`; a blank where nothing is known.
fn sparks(values: &[Option<f64>], full: f64) -> String {
    const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // A long drill takes several seconds to a character.
    let each = values.len().div_ceil(WIDTH - 30).max(1);
    let of = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().filter_map(|value| *value).collect();
        if known.is_empty() {
            return ' ';
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        EIGHTHS[((mean / full * 8.0) as usize).min(7)]
    };
    values.chunks(each).map(of).collect()
}

/// Words after a label, broken into lines that are indented alike.
fn paragraph(f: &mut String, label: &str, text: &str) -> std::fmt::Result {
    let indent = label.chars().count();
    let mut column = indent;
    write!(f, "{label}")?;
    for (number, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > WIDTH {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        } else if number > 0 {
            write!(f, " ")?;
            column += 1;
        }
        write!(f, "{word}")?;
        column += length;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparks_go_from_empty_to_full_and_leave_gaps() {
        assert_eq!(
            sparks(&[Some(0.0), None, Some(0.5), Some(1.0)], 1.0),
            "▁ ▅█"
        );
        assert!(sparks(&vec![Some(1.0); 500], 1.0).chars().count() <= WIDTH);
    }

    #[test]
    fn a_paragraph_is_indented_under_its_label() {
        let mut text = String::new();
        let words = vec!["words"; 40].join(" ");
        let _ = paragraph(&mut text, " note  ", &words);
        assert!(text.lines().count() > 1);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("       words"))
        );
    }

    #[test]
    fn an_expectation_that_never_came_is_a_failure() {
        let expected = Expectation::at_most("alarm fires after", None, 5.0, "seconds");
        assert!(!expected.passed);
        let table = expectations(&[expected]).to_string();
        assert!(
            table.contains("never") && table.contains("at most 5.0 s") && table.contains("FAIL"),
            "{table}"
        );
    }
}
