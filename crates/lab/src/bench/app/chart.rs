//! The experiment as a picture: latency over plaintext, a group of bars for each payload.

use std::fmt::Write;

use super::{AppResult, text};
use crate::bench::figures::{digits, micros};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 360.0;
/// Share of a group's width that is left free beside its bars.
const GAP: f64 = 0.25;

/// Works in light and dark; every colour is told from its neighbours without red and green.
const STYLE: &str = "\
svg{font:14px system-ui,sans-serif;background:#fff}text{fill:#222}\
.grid{stroke:#ddd}.one{stroke:#222;stroke-dasharray:4 3}.bar{stroke:#222;stroke-width:2;fill:none}\
.w0{fill:#9aa5b1}.w1{fill:#d97706}.w2{fill:#2563eb}.w3{fill:#0d9488}.w4{fill:#7c3aed}\
@media (prefers-color-scheme:dark){svg{background:#16181d}text{fill:#e6e6e6}.grid{stroke:#333}\
.one,.bar{stroke:#e6e6e6}.w0{fill:#6b7684}}";

/// The whole file.
pub(super) fn svg(result: &AppResult) -> String {
    let cells = || result.ways.iter().flat_map(|way| &way.cells);
    // By the medians: one wild repetition shall not press every bar down; its error bar ends at the top.
    let highest = cells()
        .map(|cell| cell.over_plain.median)
        .fold(1.0, f64::max);
    let scale = Scale::up_to(1.2 * highest);
    let y = |ratio: f64| BOTTOM - (BOTTOM - TOP) * scale.place(ratio);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>Latency of a request over that of plaintext</title>\n<style>{STYLE}</style>\n\
         <text x=\"16\" y=\"24\" font-weight=\"600\">Latency of a request, times that of plaintext{}</text>\n",
        if scale.logarithmic {
            " (logarithmic)"
        } else {
            ""
        }
    );
    for ratio in scale.lines() {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y(ratio) + 5.0,
            digits(ratio),
            y = y(ratio)
        );
    }
    legend(&mut svg, result);
    groups(&mut svg, result, &y);
    let _ = writeln!(
        svg,
        "<line class=\"one\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
        y = y(1.0)
    );
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{}\">{}: {}</text>\n</svg>",
        HEIGHT - 12.0,
        escaped(result.verdict.way),
        escaped(result.verdict.worth.words())
    );
    svg
}

fn legend(svg: &mut String, result: &AppResult) {
    let width = (WIDTH - 32.0) / result.ways.len().max(1) as f64;
    for (index, way) in result.ways.iter().enumerate() {
        let x = 16.0 + width * index as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"w{index}\" x=\"{x:.1}\" y=\"36\" width=\"12\" height=\"12\"/>\
             <text x=\"{:.1}\" y=\"47\" font-size=\"13\">{}</text>",
            x + 17.0,
            escaped(way.name)
        );
    }
}

fn groups(svg: &mut String, result: &AppResult, y: &dyn Fn(f64) -> f64) {
    let payloads = result.ways.first().map_or(0, |way| way.cells.len());
    let group = (WIDTH - LEFT) / payloads.max(1) as f64;
    let bar = group * (1.0 - GAP) / result.ways.len().max(1) as f64;
    for (index, way) in result.ways.iter().enumerate() {
        for (payload, cell) in way.cells.iter().enumerate() {
            let left = LEFT + group * (payload as f64 + GAP / 2.0) + bar * index as f64;
            let middle = left + bar / 2.0;
            let ratio = &cell.over_plain;
            let _ = writeln!(
                svg,
                "<g><title>{}, {}: {} ± {} (deviation of single requests), {} times plaintext</title>\
                 <rect class=\"w{index}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <path class=\"bar\" d=\"M{middle:.1} {low:.1}V{high:.1}M{a:.1} {low:.1}H{b:.1}M{a:.1} {high:.1}H{b:.1}\"/></g>",
                escaped(way.name),
                text::bytes(cell.payload_bytes),
                micros(cell.latency_micros.median),
                micros(cell.deviation_micros),
                digits(ratio.median),
                y(ratio.median),
                bar - 2.0,
                BOTTOM - y(ratio.median),
                low = y(ratio.low),
                high = y(ratio.high),
                a = middle - 4.0,
                b = middle + 4.0,
            );
        }
    }
    let Some(first) = result.ways.first() else {
        return;
    };
    for (payload, cell) in first.cells.iter().enumerate() {
        let middle = LEFT + group * (payload as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\">plain {}</text>",
            BOTTOM + 18.0,
            text::bytes(cell.payload_bytes),
            BOTTOM + 34.0,
            micros(cell.latency_micros.median)
        );
    }
}

/// Beyond this ratio a linear scale hides the small bars.
const TOO_FAR: f64 = 20.0;
/// Where a logarithmic scale begins.
const LOWEST: f64 = 0.1;

/// From ratios to heights.
struct Scale {
    top: f64,
    logarithmic: bool,
}

impl Scale {
    fn up_to(highest: f64) -> Self {
        let logarithmic = highest > TOO_FAR;
        Self {
            top: match logarithmic {
                true => 10_f64.powf(highest.log10().ceil()),
                false => scale_end(highest),
            },
            logarithmic,
        }
    }

    /// 0 at the bottom, 1 at the top; what is beyond either stays there.
    fn place(&self, ratio: f64) -> f64 {
        let place = match self.logarithmic {
            true => (ratio.max(LOWEST) / LOWEST).log10() / (self.top / LOWEST).log10(),
            false => ratio / self.top,
        };
        place.clamp(0.0, 1.0)
    }

    fn lines(&self) -> Vec<f64> {
        if !self.logarithmic {
            return (0..=4)
                .map(|step| self.top * f64::from(step) / 4.0)
                .collect();
        }
        let mut lines = vec![LOWEST];
        while let Some(last) = lines.last()
            && last * 9.0 < self.top
        {
            lines.push(last * 10.0);
        }
        lines
    }
}

/// The end of a scale that holds `highest`: 1, 2, 4 or 8 times a power of ten, so that quarters are round.
fn scale_end(highest: f64) -> f64 {
    let power = 10_f64.powf(highest.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= highest);
    step.unwrap_or(10.0) * power
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_apart_bars_get_a_scale_of_powers_of_ten() {
        let scale = Scale::up_to(167.0);
        assert!(scale.logarithmic);
        let lines = scale.lines();
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!((scale.place(1000.0) - 1.0).abs() < 1e-9 && scale.place(0.01) == 0.0);
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9);
        assert!((Scale::up_to(3.0).place(2.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_scale_holds_the_highest_and_ends_at_a_round_number() {
        for (highest, end) in [
            (1.0, 1.0),
            (1.3, 2.0),
            (3.9, 4.0),
            (4.1, 8.0),
            (8.5, 10.0),
            (17.0, 20.0),
        ] {
            assert!((scale_end(highest) - end).abs() < 1e-9, "{highest}");
        }
    }
}
