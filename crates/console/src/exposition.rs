//! The two text formats that Prometheus reads: families, samples and their escapes.
//!
//! Written here and not left to a library: the one at hand writes OpenMetrics only and wants a registry of live
//! metrics, where this is a view of plain data in both formats.

use std::fmt::{Display, Write};

use tollgate_meter::{BOUNDS_MICROS, Distribution, Histogram};

use crate::definitions::{MetricDefinition, MetricKind, definitions};

/// Which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

/// The text so far.
#[derive(Debug)]
pub(crate) struct Exposition {
    dialect: Dialect,
    text: String,
}

/// A family that takes samples.
pub(crate) struct Family<'a> {
    text: &'a mut String,
    definition: MetricDefinition,
}

impl Exposition {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            text: String::with_capacity(32 * 1024),
        }
    }

    /// Begins a family.
    pub(crate) fn family(&mut self, definition: MetricDefinition) -> Family<'_> {
        let (family, word) = match self.dialect {
            Dialect::Prometheus => (definition.name, prometheus_word(definition.kind)),
            Dialect::OpenMetrics => open_metrics_family(definition),
        };
        let help = definition.help;
        line(&mut self.text, format_args!("# HELP {family} {help}"));
        line(&mut self.text, format_args!("# TYPE {family} {word}"));
        if self.dialect == Dialect::OpenMetrics
            && let Some(unit) = definition.unit()
        {
            line(&mut self.text, format_args!("# UNIT {family} {unit}"));
        }
        Family {
            text: &mut self.text,
            definition,
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
    /// Adds a sample. `values` are those of the labels of the definition, in its order.
    pub(crate) fn sample(&mut self, values: &[&str], value: impl Display) {
        self.sample_of("", values, None, value);
    }

    /// Adds a sample of CPU time in seconds.
    pub(crate) fn nanos(&mut self, values: &[&str], nanos: u64) {
        self.sample(values, nanos as f64 / 1e9);
    }

    /// Adds the samples of a histogram of times: cumulative buckets in seconds, sum and count.
    pub(crate) fn histogram(&mut self, values: &[&str], histogram: &Histogram) {
        let bounds = BOUNDS_MICROS.iter().map(|&micros| micros as f64 / 1e6);
        let (counts, sum) = (&histogram.buckets, histogram.sum_seconds());
        self.buckets(
            values,
            bounds.zip(counts.iter().copied()),
            histogram.count(),
            sum,
        );
    }

    /// Adds the samples of a distribution. `factor` turns its unit into that of the metric.
    pub(crate) fn distribution(
        &mut self,
        values: &[&str],
        distribution: &Distribution,
        factor: f64,
    ) {
        let bounds = distribution
            .bounds
            .iter()
            .map(|&bound| bound as f64 * factor);
        let sum = distribution.sum as f64 * factor;
        let counts = distribution.counts.iter().copied();
        self.buckets(values, bounds.zip(counts), distribution.count(), sum);
    }

    fn buckets(
        &mut self,
        values: &[&str],
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            self.sample_of("_bucket", values, Some(&decimal(bound)), below);
        }
        self.sample_of("_bucket", values, Some("+Inf"), count);
        self.sample_of("_sum", values, None, sum);
        self.sample_of("_count", values, None, count);
    }

    fn sample_of(
        &mut self,
        ending: &str,
        values: &[&str],
        bound: Option<&str>,
        value: impl Display,
    ) {
        self.text.push_str(self.definition.name);
        self.text.push_str(ending);
        let mut separator = '{';
        let labels = self.definition.labels.iter().copied();
        for (name, value) in labels
            .zip(values.iter().copied())
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

/// The word for a kind in Prometheus text. An information is a gauge there.
fn prometheus_word(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge | MetricKind::Info => "gauge",
        MetricKind::Histogram => "histogram",
    }
}

/// A family's name and kind in OpenMetrics, where the name has no ending.
///
/// A counter that shares its name, but for the ending, with a gauge would be one family with it: there it is a
/// family of its own whose kind is not told.
fn open_metrics_family(definition: MetricDefinition) -> (&'static str, &'static str) {
    let name = definition.name;
    match definition.kind {
        MetricKind::Counter => {
            let base = name.trim_end_matches("_total");
            match definitions().iter().any(|other| other.name == base) {
                true => (name, "unknown"),
                false => (base, "counter"),
            }
        }
        MetricKind::Gauge => (name, "gauge"),
        MetricKind::Info => (name.trim_end_matches("_info"), "info"),
        MetricKind::Histogram => (name, "histogram"),
    }
}

/// A decimal with a point: `0.00005`, `1.0`.
fn decimal(number: f64) -> String {
    let text = number.to_string();
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
