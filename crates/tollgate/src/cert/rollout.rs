//! `tollgate cert rollout [URL]`: from RSA to ECDSA without losing a client.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use tokio::task::LocalSet;
use tollgate_console::view::{Live, Past, Portion};

use super::windows::{DAY, Day, Period, days};
use crate::say;
use crate::top::complain;
use crate::top::visit::{Trouble, VisitArguments, Visitor};

/// The past that an instance keeps, in minutes.
const KEPT: &str = "/history.json?seconds=86400&points=1440";

/// What `cert rollout` takes.
#[derive(Debug, clap::Args)]
pub struct RolloutArguments {
    #[command(flatten)]
    visit: VisitArguments,
    /// Days in a row on which RSA must have stayed below the threshold.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=90))]
    days: u32,
    /// Share of full handshakes with RSA that may be lost, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    threshold: f64,
    /// Append what was seen to FILE and count what was seen before, so that a restart of the instance, or more days
    /// than it remembers, lose nothing. Run it from a timer, once an hour or so.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What was found, for people and programs.
#[derive(Debug, Serialize)]
struct Rollout {
    /// Whether the RSA certificate can go.
    safe: bool,
    /// What keeps it; empty when it is safe.
    missing: Vec<String>,
    threshold_share: f64,
    up_seconds: f64,
    /// Full handshakes since the start by kind of certificate.
    since_start: Vec<Kind>,
    /// RSA over all full handshakes since the start.
    rsa_share_since_start: Option<f64>,
    /// The same over the past that the instance keeps, a day at most.
    rsa_share_kept: Option<f64>,
    /// Cores that full handshakes with RSA took over the last minute.
    rsa_cores: Option<f64>,
    /// Days counted back from now.
    days: Vec<DayReport>,
}

#[derive(Debug, Serialize)]
struct Kind {
    certificate: String,
    full: u64,
    share: f64,
}

#[derive(Debug, Serialize)]
struct DayReport {
    days_ago: usize,
    observed_share: f64,
    full: f64,
    rsa_share: Option<f64>,
}

/// A line of the record: what one instance had counted since it started.
#[derive(Debug, Deserialize, Serialize)]
struct Recorded {
    at_seconds: f64,
    started_seconds: f64,
    rsa: u64,
    all: u64,
}

/// Runs the command: 0 when the RSA certificate can go, 1 when not yet, 2 and 3 as everywhere.
pub fn run(arguments: &RolloutArguments) -> ExitCode {
    if !(arguments.threshold > 0.0 && arguments.threshold <= 100.0) {
        say::error("--threshold is a percentage above 0, such as 0.1");
        return ExitCode::from(say::WRONG_INPUT);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let asked = LocalSet::new().block_on(&runtime, async {
        let mut visitor = Visitor::new(&arguments.visit)?;
        let live: Live = visitor.get("/live.json").await?;
        let past: Past = visitor.get(KEPT).await?;
        Ok::<_, Trouble>((live, past))
    });
    let (live, past) = match asked {
        Ok(asked) => asked,
        Err(trouble) => return complain(&trouble),
    };
    let recorded = match arguments.record.as_deref().map(|file| record(file, &live)) {
        None => Vec::new(),
        Some(Ok(recorded)) => recorded,
        Some(Err(error)) => {
            say::error(&error);
            return ExitCode::from(say::WRONG_INPUT);
        }
    };
    let rollout = judge(&live, &past, &recorded, arguments);
    match arguments.json {
        false => say::result(&rollout.text()),
        true => match serde_json::to_string_pretty(&rollout) {
            Ok(text) => say::result(&format!("{text}\n")),
            Err(error) => return say::broke(&error.to_string()),
        },
    }
    ExitCode::from(if rollout.safe { 0 } else { say::FINDINGS })
}

fn is_rsa(name: &str) -> bool {
    name.starts_with("rsa")
}

/// RSA and all full handshakes since the start.
fn totals(live: &Live) -> (u64, u64) {
    let sum = |wanted: &dyn Fn(&str) -> bool| {
        let kinds = live.mixes.certificates.iter();
        kinds
            .filter(|kind| wanted(&kind.name))
            .map(|kind| kind.total)
            .sum::<u64>()
    };
    (sum(&is_rsa), sum(&|_| true))
}

/// The same over the past that is kept.
fn kept(past: &Past) -> Period {
    let sum = |wanted: &dyn Fn(&str) -> bool| {
        let columns = past.certificates.iter().filter(|kind| wanted(&kind.name));
        columns.flat_map(|column| &column.values).sum::<f64>() * past.step_seconds
    };
    let first = past.at_seconds.first().copied().unwrap_or(0.0);
    Period {
        from: first - past.step_seconds,
        until: past.at_seconds.last().copied().unwrap_or(first),
        rsa: sum(&is_rsa),
        all: sum(&|_| true),
    }
}

/// Adds a line to the record and returns all of them.
fn record(file: &Path, live: &Live) -> Result<Vec<Recorded>, String> {
    let shown = file.display();
    let (rsa, all) = totals(live);
    let now = Recorded {
        at_seconds: live.at_seconds,
        started_seconds: live.instance.started_seconds,
        rsa,
        all,
    };
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("record {shown} cannot be read: {error}")),
    };
    let mut lines = Vec::new();
    for (line, number) in before.lines().zip(1..) {
        lines.push(serde_json::from_str(line).map_err(|error| {
            format!("record {shown}, line {number} is none of ours ({error}); name another file, or repair it")
        })?);
    }
    let text = serde_json::to_string(&now).map_err(|error| error.to_string())?;
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|error| format!("record {shown} cannot be written: {error}"))?;
    lines.push(now);
    Ok(lines)
}

/// What was observed, in pieces that do not overlap.
fn periods(live: &Live, past: &Past, recorded: &[Recorded]) -> Vec<Period> {
    let (rsa, all) = totals(live);
    if recorded.is_empty() {
        let kept = kept(past);
        let started = live.instance.started_seconds;
        if kept.all <= 0.0 || kept.from <= started {
            return vec![Period {
                from: started,
                until: live.at_seconds,
                rsa: rsa as f64,
                all: all as f64,
            }];
        }
        let older = Period {
            from: started,
            until: kept.from,
            rsa: (rsa as f64 - kept.rsa).max(0.0),
            all: (all as f64 - kept.all).max(0.0),
        };
        return vec![older, kept];
    }
    let same = |one: &Recorded, other: &Recorded| {
        // The clock may have been set a little since the process started.
        (one.started_seconds - other.started_seconds).abs() < 1.0
    };
    let mut periods = Vec::new();
    for (index, line) in recorded.iter().enumerate() {
        let before = index
            .checked_sub(1)
            .map(|before| &recorded[before])
            .filter(|before| same(before, line));
        let (from, rsa, all) = match before {
            None => (line.started_seconds, line.rsa, line.all),
            Some(before) => (
                before.at_seconds,
                line.rsa.saturating_sub(before.rsa),
                line.all.saturating_sub(before.all),
            ),
        };
        periods.push(Period {
            from,
            until: line.at_seconds,
            rsa: rsa as f64,
            all: all as f64,
        });
    }
    periods
}

fn judge(live: &Live, past: &Past, recorded: &[Recorded], wanted: &RolloutArguments) -> Rollout {
    let threshold = wanted.threshold / 100.0;
    let (rsa, all) = totals(live);
    let kept = kept(past);
    let found = days(&periods(live, past, recorded), live.at_seconds, wanted.days);
    let mut missing: Vec<String> = found
        .iter()
        .enumerate()
        .filter_map(|(back, day)| {
            let objection = day.objection(threshold)?;
            Some(format!("{}: {objection}", ago(back)))
        })
        .collect();
    let served = live.certificates.iter().map(|one| one.certificate.as_str());
    if served.clone().any(is_rsa) && !served.clone().any(|kind| !is_rsa(kind)) {
        missing.insert(
            0,
            "only RSA is served: put an ECDSA certificate beside it first".to_owned(),
        );
    }
    let of_rsa = |portion: &&Portion| is_rsa(&portion.name);
    let cores: Vec<f64> = live
        .mixes
        .certificates
        .iter()
        .filter(of_rsa)
        .filter_map(|portion| portion.cores)
        .collect();
    Rollout {
        safe: missing.is_empty(),
        missing,
        threshold_share: threshold,
        up_seconds: live.at_seconds - live.instance.started_seconds,
        since_start: live
            .mixes
            .certificates
            .iter()
            .map(|portion| Kind {
                certificate: portion.name.clone(),
                full: portion.total,
                share: portion.total as f64 / (all as f64).max(1.0),
            })
            .collect(),
        rsa_share_since_start: (all > 0).then(|| rsa as f64 / all as f64),
        rsa_share_kept: (kept.all > 0.0).then(|| kept.rsa / kept.all),
        rsa_cores: match (cores.is_empty(), rsa) {
            (false, _) => Some(cores.iter().sum()),
            (true, 0) => Some(0.0),
            (true, _) => None,
        },
        days: found
            .iter()
            .enumerate()
            .map(|(back, day): (usize, &Day)| DayReport {
                days_ago: back,
                observed_share: day.observed,
                full: day.all,
                rsa_share: day.share(),
            })
            .collect(),
    }
}

fn ago(back: usize) -> String {
    match back {
        0 => "last 24 hours".to_owned(),
        back => format!("{} to {} hours ago", back * 24, (back + 1) * 24),
    }
}

impl Rollout {
    fn text(&self) -> String {
        let mut text = String::new();
        let percent = |share: Option<f64>| match share {
            None => "–".to_owned(),
            Some(share) => format!("{:.3} %", share * 100.0),
        };
        let _ = writeln!(
            text,
            "full handshakes by certificate, since the start {:.1} days ago",
            self.up_seconds / DAY
        );
        for kind in &self.since_start {
            let _ = writeln!(
                text,
                "  {:<14} {:>12}  {:>9}",
                kind.certificate,
                kind.full,
                percent(Some(kind.share))
            );
        }
        let _ = writeln!(
            text,
            "RSA share           {} since the start, {} over the past that is kept",
            percent(self.rsa_share_since_start),
            percent(self.rsa_share_kept)
        );
        let cores = self
            .rsa_cores
            .map_or("–".to_owned(), |cores| format!("{cores:.4}"));
        let _ = writeln!(
            text,
            "RSA costs           {cores} cores, over the last minute"
        );
        for day in &self.days {
            let _ = writeln!(
                text,
                "{:<19} {} of {:.0}, {:.0} % observed",
                ago(day.days_ago),
                percent(day.rsa_share),
                day.full,
                day.observed_share * 100.0
            );
        }
        let limit = percent(Some(self.threshold_share));
        match self.safe {
            true => {
                let _ = writeln!(
                    text,
                    "safe to drop RSA: below {limit} on each of the last {} days",
                    self.days.len()
                );
            }
            false => {
                let _ = writeln!(text, "not yet safe to drop RSA:");
                for reason in &self.missing {
                    let _ = writeln!(text, "  - {reason}");
                }
            }
        }
        text
    }
}
