//! The report as text for people.

use std::fmt::Write as _;

use tollgate_review::logs::{Count, Interval, Report};

use super::Threshold;
use crate::top::text::{UNKNOWN, fixed, known, rate, seconds, share};

/// Signs of a full bar.
const BAR: usize = 20;
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// All of it. Writing to a text does not fail.
pub fn of(name: &str, report: &Report, threshold: Option<&Threshold>) -> String {
    let mut out = String::new();
    head(&mut out, name, report);
    if report.handshakes.all() > 0 {
        over_time(&mut out, report);
        table(&mut out, "TLS version", &report.by_version);
        table(&mut out, "cipher suite", &report.by_suite);
        table(&mut out, "site", &report.by_site);
        if report.sites_more > 0 {
            let _ = writeln!(out, " and {} more", number(report.sites_more as u64));
        }
        dips(&mut out, report);
    }
    missing(&mut out, report);
    if let Some(threshold) = threshold {
        judged(&mut out, report, threshold);
    }
    out
}

fn head(out: &mut String, name: &str, report: &Report) {
    let format = report.format.unwrap_or("no known format");
    let _ = writeln!(
        out,
        "{}  {format}: {} lines, {} understood, {} not",
        plain(name),
        number(report.lines_read),
        number(report.lines_understood),
        number(report.lines_strange),
    );
    for strange in &report.strange {
        let _ = writeln!(
            out,
            "  line {}: {}: {}",
            strange.line, strange.why, strange.text
        );
    }
    if let (Some(from), Some(until), Some(period)) =
        (&report.from, &report.until, report.period_seconds)
    {
        let _ = writeln!(out, " period      {from} to {until}, {}", seconds(period));
    }
    let all = &report.handshakes;
    let _ = write!(
        out,
        " handshakes  {}: {} full, {} resumed",
        number(all.all()),
        number(all.full),
        number(all.resumed),
    );
    if all.not_told > 0 {
        let _ = write!(out, ", {} not told which", number(all.not_told));
    }
    if report.handshakes_failed > 0 {
        let _ = write!(out, "; {} more failed", number(report.handshakes_failed));
    }
    let _ = writeln!(out, "\n counted     {}", report.counted_by);
    let mut apart = Vec::new();
    for (lines, what) in [
        (
            report.lines_of_known_connections,
            "on connections counted before",
        ),
        (report.lines_without_tls, "without TLS"),
        (report.lines_outside, "outside of the period"),
    ] {
        if lines > 0 {
            apart.push(format!("{} {what}", number(lines)));
        }
    }
    if !apart.is_empty() {
        let _ = writeln!(out, " other lines {}", apart.join(", "));
    }
    let _ = write!(out, " hit rate    {}", known(all.hit_rate, share));
    if let Some(worst) = report.worst.as_ref().filter(|_| report.intervals.len() > 1) {
        let _ = write!(
            out,
            "; median of intervals {}, worst {} in the {} from {}",
            known(report.hit_rate_median, share),
            known(worst.count.hit_rate, share),
            seconds(report.interval_seconds as f64),
            worst.start,
        );
    }
    out.push('\n');
}

fn over_time(out: &mut String, report: &Report) {
    if report.intervals.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n {:<20} {:>12} {:>12} {:>9}  intervals of {}",
        "from",
        "handshakes",
        "",
        "hit rate",
        seconds(report.interval_seconds as f64),
    );
    for interval in &report.intervals {
        let worst = report.worst.as_ref().filter(|_| report.intervals.len() > 1);
        row(out, interval, worst);
    }
}

fn row(out: &mut String, interval: &Interval, worst: Option<&Interval>) {
    let is_worst = worst.is_some_and(|worst| worst.start == interval.start);
    let line = format!(
        " {:<20} {:>12} {:>12} {:>9}  {}",
        interval.start,
        number(interval.count.all()),
        rate(interval.handshakes_per_second),
        known(interval.count.hit_rate, share),
        interval.count.hit_rate.map(bar).unwrap_or_default(),
    );
    let mark = if is_worst { "  worst" } else { "" };
    let _ = writeln!(out, "{}{mark}", line.trim_end());
}

/// A share as a bar, to an eighth of a sign.
fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    text
}

fn table(out: &mut String, what: &str, counts: &[Count]) {
    if counts.is_empty() {
        return;
    }
    let names = counts
        .iter()
        .map(|count| plain(&count.name).chars().count());
    let width = names.max().unwrap_or(0).max(what.len());
    let _ = writeln!(
        out,
        "\n {what:<width$} {:>12} {:>12} {:>12} {:>9}",
        "handshakes", "full", "resumed", "hit rate"
    );
    for count in counts {
        let _ = writeln!(
            out,
            " {:<width$} {:>12} {:>12} {:>12} {:>9}",
            plain(&count.name),
            number(count.all()),
            number(count.full),
            number(count.resumed),
            known(count.hit_rate, share),
        );
    }
}

fn dips(out: &mut String, report: &Report) {
    let Some(median) = report.hit_rate_median else {
        return;
    };
    if report.dips.is_empty() {
        let _ = writeln!(
            out,
            "\nno interval is more than 20 points below the median of {}",
            share(median)
        );
        return;
    }
    let _ = writeln!(
        out,
        "\nmore than 20 points below the median of {}:",
        share(median)
    );
    for dip in &report.dips {
        let _ = writeln!(
            out,
            " {} for {}: down to {}, at {} handshakes",
            dip.start,
            seconds(dip.seconds as f64),
            share(dip.hit_rate_lowest),
            rate(dip.handshakes_per_second),
        );
    }
}

fn missing(out: &mut String, report: &Report) {
    let Some(first) = report.missing.first() else {
        return;
    };
    let what: Vec<&str> = report.missing.iter().map(|missing| missing.what).collect();
    let _ = writeln!(out, "\nthe log does not tell {}; add", what.join(", "));
    for line in first.add.lines() {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(out, "and read it with\n    {}", first.read);
}

fn judged(out: &mut String, report: &Report, threshold: &Threshold) {
    let overall = known(report.handshakes.hit_rate, share);
    let asked = share(threshold.hit_rate);
    let _ = match (threshold.is_met, threshold.intervals_below.first()) {
        (true, _) => writeln!(out, "\nmet: {overall}, {asked} asked for"),
        (false, None) => writeln!(out, "\nmissed: {overall}, {asked} asked for"),
        (false, Some(first)) => writeln!(
            out,
            "\nmissed: {overall} in all, {asked} asked for; intervals that are lower: {}, the first from {first}",
            threshold.intervals_below.len()
        ),
    };
}

fn number(count: u64) -> String {
    fixed(count as f64, 0)
}

/// What a client sent, so that it cannot speak to the terminal.
fn plain(text: &str) -> String {
    if text.is_empty() {
        return UNKNOWN.to_owned();
    }
    let plain = |character: char| match character.is_control() {
        true => '\u{fffd}',
        false => character,
    };
    text.chars().take(60).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.5), "█".repeat(10));
        assert_eq!(bar(1.0), "█".repeat(20));
        assert_eq!(bar(0.025), "▌");
    }

    #[test]
    fn a_name_cannot_speak_to_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
