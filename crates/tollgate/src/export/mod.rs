//! `tollgate export`: files for the monitoring that is there already, made from the tables that the console and
//! the alarms themselves are made from.

mod alertmanager;
mod grafana;
mod panels;
mod rules;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_meter::alarms::AlarmSettings;

use crate::say;
use crate::serve::setup::{self, Origin};

/// What `export` takes.
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A Grafana dashboard: import it, and choose the Prometheus that scrapes the console.
    Grafana(Target),
    /// Alerting rules for Prometheus, one for each alarm that is on.
    PrometheusRules(Target),
    /// Route and receiver for Alertmanager, to take from.
    Alertmanager(Out),
}

#[derive(Debug, Args)]
struct Target {
    /// Configuration file whose thresholds count, usually tls.yaml; without one the defaults do.
    config: Option<PathBuf>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, Args)]
struct Out {
    /// File to write; without one it goes to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &ExportArguments) -> ExitCode {
    let made = match &arguments.what {
        What::Grafana(target) => {
            settings(target).map(|settings| (grafana::dashboard(&settings), &target.out))
        }
        What::PrometheusRules(target) => settings(target).map(|settings| {
            (
                rules::rules(&settings, target.config.as_deref()),
                &target.out,
            )
        }),
        What::Alertmanager(out) => Ok((alertmanager::routes(), out)),
    };
    match made {
        Ok((text, Out { out: None })) => {
            say::result(&text);
            ExitCode::SUCCESS
        }
        Ok((text, Out { out: Some(path) })) => write(path, &text),
        Err(complaint) => {
            say::plain_error(&complaint);
            ExitCode::from(say::WRONG_INPUT)
        }
    }
}

/// The thresholds of the configuration that is named, else the defaults.
fn settings(target: &Target) -> Result<AlarmSettings, String> {
    let Some(path) = &target.config else {
        return Ok(AlarmSettings::default());
    };
    let (read, _) = setup::read(&Origin::File(path.clone()), say::error_colors())?;
    Ok(setup::alarm_settings(&read.config.alarms))
}

fn write(path: &Path, text: &str) -> ExitCode {
    match std::fs::write(path, text) {
        Ok(()) => {
            say::note(&format!("{} written", path.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say::error(&format!(
                "{} cannot be written: {error}; name a file in a folder that is there and writable",
                path.display()
            ));
            ExitCode::from(say::WRONG_INPUT)
        }
    }
}

/// A text in quotation marks, as YAML and JSON both read it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
