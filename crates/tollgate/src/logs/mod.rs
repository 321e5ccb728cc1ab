//! `tollgate logs`: what access logs say of resumption, ours and those of others.

mod read;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tollgate_review::logs::{ENOUGH_HANDSHAKES, Format, Moment, Options, Report, Tally};

use crate::load::words;
use crate::say;

/// What `logs` takes.
#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Access logs, in any order; - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format: tollgate, json, logfmt, nginx or haproxy [default: that of the first line that fits one].
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Text of nginx's log_format or HAProxy's log-format, as the configuration has it between its quotes.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    log_format: Option<String>,
    /// Width of an interval, such as 1m [default: 10 s to 1 d, so that there are at most about 40].
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    every: Option<Duration>,
    /// Leave out what was before this time, such as 2026-11-21T18:00:00Z; UTC without an offset.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Leave out this time and what was after it.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
    /// Exit with 1 if the hit rate is lower than this share, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = words::share)]
    below: Option<f64>,
    /// Judge each interval with at least 20 handshakes as well.
    #[arg(long, requires = "below")]
    each_interval: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Said {
    #[serde(flatten)]
    report: Report,
    /// What `--below` asked for.
    threshold: Option<Threshold>,
}

/// A hit rate that was asked for, and what missed it.
#[derive(Debug, Serialize)]
struct Threshold {
    hit_rate: f64,
    is_met: bool,
    /// Beginnings of the intervals that are lower, where each was to be judged.
    intervals_below: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &LogsArguments) -> ExitCode {
    let wrong = |text: &str| {
        say::error(text);
        ExitCode::from(say::WRONG_INPUT)
    };
    let options = match options(arguments) {
        Ok(options) => options,
        Err(complaint) => return wrong(&complaint),
    };
    let mut tally = Tally::new(options);
    match read::all(&arguments.files, &mut tally) {
        Ok(()) => {}
        Err(read::Failure::Input(text)) => return wrong(&text),
        Err(read::Failure::Broke(text)) => return say::broke(&text),
    }
    let report = tally.report();
    let judged = arguments
        .below
        .map(|share| threshold(&report, share, arguments.each_interval));
    let (threshold, complaint) = match judged.transpose() {
        Ok(threshold) => (threshold, None),
        Err(complaint) => (None, Some(complaint)),
    };
    let said = Said { report, threshold };
    if arguments.json {
        match serde_json::to_string_pretty(&said) {
            Ok(json) => say::result(&(json + "\n")),
            Err(error) => return say::broke(&error.to_string()),
        }
    } else {
        let threshold = said.threshold.as_ref();
        say::result(&text::of(&name(arguments), &said.report, threshold));
    }
    if said.report.lines_understood == 0 {
        return wrong(
            "no line could be read; name the format with --format, or give its text with --log-format",
        );
    }
    match (complaint, &said.threshold) {
        (Some(complaint), _) => wrong(&complaint),
        (None, Some(threshold)) if !threshold.is_met => ExitCode::from(say::FINDINGS),
        (None, _) => ExitCode::SUCCESS,
    }
}

fn name(arguments: &LogsArguments) -> String {
    match &arguments.files[..] {
        [one] if one.as_os_str() == "-" => "standard input".to_owned(),
        [one] => one.display().to_string(),
        more => format!("{} files", more.len()),
    }
}

fn options(arguments: &LogsArguments) -> Result<Options, String> {
    let format = Format::named(arguments.format.as_deref(), arguments.log_format.as_deref())
        .map_err(|error| error.to_string())?;
    let every_seconds = match arguments.every {
        None => None,
        Some(every) if every < Duration::from_secs(1) || every.subsec_nanos() > 0 => {
            return Err("--every takes whole seconds, 1s at least".to_owned());
        }
        Some(every) => i64::try_from(every.as_secs()).ok(),
    };
    Ok(Options {
        format,
        every_seconds,
        since: arguments.since,
        until: arguments.until,
    })
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| {
        "no time; give one such as 2026-11-21T18:00:00Z, 2026-11-21 or 21/Nov/2026:18:00:00 +0100".to_owned()
    })
}

/// Judges what was asked for; an error when the log does not tell it.
fn threshold(report: &Report, share: f64, each_interval: bool) -> Result<Threshold, String> {
    let Some(overall) = report.handshakes.hit_rate else {
        return Err(format!(
            "--below {share} cannot be judged: no line tells whether its handshake resumed"
        ));
    };
    let is_low = |rate: Option<f64>| rate.is_some_and(|rate| rate < share);
    let intervals_below: Vec<String> = report
        .intervals
        .iter()
        .filter(|interval| each_interval && is_low(interval.count.hit_rate))
        .filter(|interval| interval.count.full + interval.count.resumed >= ENOUGH_HANDSHAKES)
        .map(|interval| interval.start.clone())
        .collect();
    Ok(Threshold {
        hit_rate: share,
        is_met: overall >= share && intervals_below.is_empty(),
        intervals_below,
    })
}
