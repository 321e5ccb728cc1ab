//! Bars as SVG: places are shares of the width, so that text keeps its size on any screen.

use std::fmt::Write;

use tollgate_cost::{Measured, Unit};

use super::text;

/// Height of a line of text.
const LINE: usize = 16;
/// Height of the bar under the text, and the room around it.
const BAR: usize = 24;
/// Letters that fit beside the value on the narrowest screen.
const LETTERS: usize = 40;
/// Room below the rows for the numbers of the axis.
const AXIS: usize = 24;
/// Beyond this ratio of largest to smallest a linear axis hides the small ones.
const TOO_FAR: f64 = 30.0;

/// One row of a chart.
pub struct Bar {
    /// What it is.
    pub label: String,
    /// How long, with its spread.
    pub measured: Measured,
    /// Published values, lowest and highest.
    pub published: Option<(f64, f64)>,
}

/// A horizontal bar per row with its spread as a whisker and published values as an outlined band. The
/// axis is logarithmic when the rows are far apart, and says so. Empty without a row above zero.
pub fn bars(title: &str, rows: &[Bar], unit: Unit) -> String {
    let Some(axis) = Axis::over(rows) else {
        return String::new();
    };
    let labels: Vec<Vec<String>> = rows.iter().map(|row| lines(&row.label)).collect();
    let height = labels.iter().map(|lines| tall(lines)).sum::<usize>() + AXIS;
    let mut svg = format!(
        "<svg class=\"chart\" role=\"img\" width=\"100%\" height=\"{height}\" aria-label=\"{}\">\n",
        escaped(title)
    );
    let bottom = height - AXIS;
    for (at, label, anchor) in axis.ticks(unit) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{at:.2}%\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            height - 8,
            escaped(&label)
        );
    }
    let mut top = 0;
    for (row, lines) in rows.iter().zip(&labels) {
        svg.push_str(&bar(row, lines, top, &axis, unit));
        top += tall(lines);
    }
    svg.push_str("</svg>\n");
    if axis.logarithmic {
        svg.push_str(
            "<p class=\"note\">Logarithmic axis: each line is ten times the one before.</p>\n",
        );
    }
    svg
}

fn tall(lines: &[String]) -> usize {
    lines.len() * LINE + BAR
}

/// A label in lines that leave room for the value on a narrow screen.
fn lines(label: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in label.split(' ') {
        let full = lines.last().is_some_and(|line| {
            !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LETTERS
        });
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn bar(row: &Bar, lines: &[String], top: usize, axis: &Axis, unit: Unit) -> String {
    let (low, at, high) = (
        axis.place(row.measured.low),
        axis.place(row.measured.median),
        axis.place(row.measured.high),
    );
    let bar = top + lines.len() * LINE + 4;
    let mut svg = format!(
        "<text class=\"value\" x=\"100%\" y=\"{}\" text-anchor=\"end\">{}</text>",
        top + 14,
        escaped(&text::value(&row.measured, unit)),
    );
    for (place, line) in lines.iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{}\">{}</text>",
            top + 14 + place * LINE,
            escaped(line)
        );
    }
    let _ = writeln!(
        svg,
        "<rect class=\"bar\" x=\"0\" y=\"{bar}\" width=\"{at:.2}%\" height=\"12\" rx=\"2\"/>"
    );
    if row.measured.high > row.measured.low {
        let middle = bar + 6;
        let _ = writeln!(
            svg,
            "<line class=\"whisker\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"{middle}\" y2=\"{middle}\"/>\
             <line class=\"whisker\" x1=\"{low:.2}%\" x2=\"{low:.2}%\" y1=\"{a}\" y2=\"{b}\"/>\
             <line class=\"whisker\" x1=\"{high:.2}%\" x2=\"{high:.2}%\" y1=\"{a}\" y2=\"{b}\"/>",
            a = bar + 2,
            b = bar + 10,
        );
    }
    if let Some((from, to)) = row.published {
        let (from, to) = (axis.place(from), axis.place(to));
        let _ = writeln!(
            svg,
            "<rect class=\"published\" x=\"{from:.2}%\" y=\"{}\" width=\"{:.2}%\" height=\"16\"><title>published</title></rect>\
             <line class=\"published\" x1=\"{from:.2}%\" x2=\"{from:.2}%\" y1=\"{}\" y2=\"{}\"/>",
            bar - 2,
            (to - from).max(0.0),
            bar - 2,
            bar + 14,
        );
    }
    svg
}

/// From values to per cent of the width.
struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn over(rows: &[Bar]) -> Option<Self> {
        let values = || {
            rows.iter().flat_map(|row| {
                let published = row.published.map_or([0.0; 2], |(low, high)| [low, high]);
                [
                    row.measured.median,
                    row.measured.high,
                    published[0],
                    published[1],
                ]
            })
        };
        let most = values().fold(0.0, f64::max);
        let least = values()
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        if most <= 0.0 || !most.is_finite() {
            return None;
        }
        Some(if most / least > TOO_FAR {
            Self {
                // Half a decade to the left, so that the shortest bar is still a bar.
                from: 10_f64.powf((least / 2.0).log10().floor()),
                to: most * 1.1,
                logarithmic: true,
            }
        } else {
            Self {
                from: 0.0,
                to: most * 1.02,
                logarithmic: false,
            }
        })
    }

    fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).log10() / (self.to / self.from).log10()
        } else {
            value / self.to
        };
        (share * 100.0).clamp(0.0, 100.0)
    }

    /// Place, text and anchor of each line of the grid.
    fn ticks(&self, unit: Unit) -> Vec<(f64, String, &'static str)> {
        let values: Vec<f64> = if self.logarithmic {
            std::iter::successors(Some(self.from), |value| Some(value * 10.0))
                .take_while(|value| *value <= self.to)
                .collect()
        } else {
            let step = round_step(self.to / 5.0);
            (0..)
                .map(|place| f64::from(place) * step)
                .take_while(|value| *value <= self.to)
                .collect()
        };
        values
            .into_iter()
            .map(|value| {
                let at = self.place(value);
                let anchor = match at {
                    at if at < 4.0 => "start",
                    at if at > 92.0 => "end",
                    _ => "middle",
                };
                let label = if value == 0.0 {
                    "0".into()
                } else {
                    text::range(value, value, unit)
                };
                (at, label, anchor)
            })
            .collect()
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

/// Text that means itself in HTML and in an attribute.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
