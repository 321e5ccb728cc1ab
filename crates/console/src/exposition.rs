//! The two text formats that Prometheus reads: families, samples and their escapes.
//!
//! Written here and not left to a library: the one at hand writes OpenMetrics only and wants a registry of live
//! metrics, where this is a view of plain data in both formats.

use std::fmt::{Display, Write};

use tollgate_meter::{BOUNDS_MICROS, Histogram};

/// Which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

/// What kind of family, and with that the ending of its samples' name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    /// A counter that shares its name, but for the ending, with a gauge. In OpenMetrics the two would be one
    /// family, so there it is a family of its own whose kind is not told.
    CounterBesideGauge,
    Gauge,
    Info,
    Histogram,
}

/// Labels of a sample.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text so far.
#[derive(Debug)]
pub(crate) struct Exposition {
    dialect: Dialect,
    text: String,
}

/// A family that takes samples.
pub(crate) struct Family<'a> {
    text: &'a mut String,
    /// Name of its samples, ending included; of a histogram the name without ending.
    name: String,
}

impl Exposition {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            text: String::with_capacity(16 * 1024),
        }
    }

    /// Begins a family. `name` has no ending: `_total` and `_info` are added here.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let ending = match kind {
            Kind::Counter | Kind::CounterBesideGauge => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        let sample = format!("{name}{ending}");
        // OpenMetrics names a family without the ending of its samples, Prometheus with it.
        let (family, word) = match (self.dialect, kind) {
            (Dialect::OpenMetrics, Kind::Counter) => (name, "counter"),
            (Dialect::OpenMetrics, Kind::Info) => (name, "info"),
            (Dialect::OpenMetrics, Kind::CounterBesideGauge) => (&*sample, "unknown"),
            (Dialect::Prometheus, Kind::Counter | Kind::CounterBesideGauge) => {
                (&*sample, "counter")
            }
            (Dialect::Prometheus, Kind::Info) => (&*sample, "gauge"),
            (_, Kind::Gauge) => (name, "gauge"),
            (_, Kind::Histogram) => (name, "histogram"),
        };
        line(&mut self.text, format_args!("# HELP {family} {help}"));
        line(&mut self.text, format_args!("# TYPE {family} {word}"));
        if self.dialect == Dialect::OpenMetrics && family.ends_with("_seconds") {
            line(&mut self.text, format_args!("# UNIT {family} seconds"));
        }
        Family {
            text: &mut self.text,
            name: sample,
        }
    }

    pub(crate) fn finish(mut self) -> String {
        if self.dialect == Dialect::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub(crate) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.sample_of("", labels, None, value);
    }

    /// Adds the samples of a histogram of times: cumulative buckets in seconds, sum and count.
    pub(crate) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let mut below = 0;
        for (&count, bound) in histogram.buckets.iter().zip(BOUNDS_MICROS) {
            below += count;
            self.sample_of("_bucket", labels, Some(&seconds(bound)), below);
        }
        let count = histogram.count();
        self.sample_of("_bucket", labels, Some("+Inf"), count);
        self.sample_of("_sum", labels, None, histogram.sum_seconds());
        self.sample_of("_count", labels, None, count);
    }

    fn sample_of(
        &mut self,
        ending: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: impl Display,
    ) {
        self.text.push_str(&self.name);
        self.text.push_str(ending);
        let mut separator = '{';
        for (name, value) in labels
            .iter()
            .copied()
            .chain(bound.map(|bound| ("le", bound)))
        {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(value, self.text);
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
        line(self.text, format_args!(" {value}"));
    }
}

/// Seconds as a decimal with a point: `0.00005`, `1.0`.
fn seconds(micros: u64) -> String {
    let text = (micros as f64 / 1e6).to_string();
    if text.contains('.') {
        text
    } else {
        text + ".0"
    }
}

fn escape(value: &str, text: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(content);
    text.push('\n');
}
