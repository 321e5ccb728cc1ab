//! `tollgate probe`: the command line, and what is printed.

mod arguments;

use std::fmt::Display;
use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;

use tokio::task::LocalSet;
use tollgate_lab::probe::diagnose::diagnose;
use tollgate_lab::probe::fleet::compare;
use tollgate_lab::probe::round_trips::climb;
use tollgate_lab::probe::{
    Connection, EarlyDataOutcome, Endpoint, Gathered, JsonLine, Look, ProbeError, ProbeOptions,
    Prober,
};
use tollgate_terms::TlsVersion;
use tollgate_tls::client::Intent;

use crate::say;
use arguments::{Compatible, Expected};

pub use arguments::ProbeArguments;

/// Runs the command.
pub fn run(arguments: ProbeArguments) -> ExitCode {
    let options = match arguments.options() {
        Ok(options) => options,
        Err(error) => return failed(&error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let local = LocalSet::new();
    local.block_on(&runtime, all(&arguments, options))
}

async fn all(arguments: &ProbeArguments, options: ProbeOptions) -> ExitCode {
    if arguments.looks.fleet {
        let fleet = compare(&options);
        return whole(arguments, fleet, |fleet| fleet.has_findings()).await;
    }
    if arguments.looks.diagnose {
        let diagnosis = diagnose(&options);
        return whole(arguments, diagnosis, |diagnosis| diagnosis.has_findings()).await;
    }
    if let Some(rtt) = arguments.looks.rtt {
        let ladder = climb(&options, rtt);
        return whole(arguments, ladder, |ladder| ladder.has_findings()).await;
    }
    let mut plain = match Plain::new(arguments, options) {
        Ok(plain) => plain,
        Err(error) => return failed(&error),
    };
    let interrupted = tokio::select! {
        ended = plain.rounds() => match ended {
            Ok(()) => false,
            Err(error) if plain.gathered_none() || arguments.how_often.repeat.is_none() => return failed(&error),
            Err(_) => false,
        },
        _ = tokio::signal::ctrl_c() => true,
    };
    plain.end(interrupted)
}

/// Something that is one result, printed at its end.
async fn whole<T: Display + JsonLine>(
    arguments: &ProbeArguments,
    work: impl Future<Output = Result<T, ProbeError>>,
    has_findings: impl Fn(&T) -> bool,
) -> ExitCode {
    let result = tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => return say::broke("interrupted; nothing is known yet"),
    };
    match result {
        Err(error) => failed(&error),
        Ok(result) => {
            match arguments.output.json {
                true => json(&result),
                false => say::result(&result.to_string()),
            }
            match has_findings(&result) {
                true => ExitCode::from(say::FINDINGS),
                false => ExitCode::SUCCESS,
            }
        }
    }
}

/// An initial connection and those that resume, as often as asked for.
struct Plain<'a> {
    arguments: &'a ProbeArguments,
    prober: Prober,
    gathered: Gathered,
    /// What was expected of the last round and did not come.
    missed: Vec<String>,
    printed: bool,
}

impl<'a> Plain<'a> {
    fn new(arguments: &'a ProbeArguments, options: ProbeOptions) -> Result<Self, ProbeError> {
        Ok(Self {
            arguments,
            prober: Prober::new(options)?,
            gathered: Gathered::default(),
            missed: Vec::new(),
            printed: false,
        })
    }

    fn gathered_none(&self) -> bool {
        self.gathered.summary().connections == 0
    }

    async fn rounds(&mut self) -> Result<(), ProbeError> {
        let mut endpoints = self.prober.endpoints().await?;
        let often = &self.arguments.how_often;
        let mut last = None;
        for _ in 0..often.repeat.unwrap_or(1) {
            for number in 0..=often.resumptions {
                let intent = match number {
                    0 => Intent::Full,
                    _ => Intent::Resume,
                };
                match self.prober.connect_any(intent, &endpoints).await {
                    Ok(connection) => {
                        stay_with(&mut endpoints, &connection);
                        self.show(&connection);
                        self.gathered.add(&connection);
                        self.expect(number, &connection);
                    }
                    Err(error) => {
                        self.gathered.add_failure(error.to_string());
                        last = Some(error);
                        // Without repetition the first failure is the result.
                        if often.repeat.is_none() {
                            break;
                        }
                    }
                }
            }
        }
        match last {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn show(&mut self, connection: &Connection) {
        let output = &self.arguments.output;
        if output.json {
            json(connection);
            return;
        }
        if self.arguments.how_often.repeat.is_some() && !output.is_verbose() {
            return;
        }
        let text = match output.compat {
            Some(Compatible::Tlshake) => connection.tlshake(),
            None => connection.text(Look {
                colors: std::io::stdout().is_terminal() && say::colors_wanted(),
                chain: output.chain || output.is_verbose(),
            }),
        };
        let gap = match self.printed {
            true => "\n",
            false => "",
        };
        self.printed = true;
        say::result(&format!("{gap}{text}"));
    }

    fn expect(&mut self, number: usize, connection: &Connection) {
        for expected in &self.arguments.output.expect {
            let met = match expected {
                Expected::Tls13 => connection.version == TlsVersion::Tls13,
                Expected::Resumed => number == 0 || connection.is_resumed(),
                Expected::EarlyData => {
                    number == 0 || connection.early_data == EarlyDataOutcome::Accepted
                }
            };
            if !met {
                let text = format!(
                    "connection {} was expected to be {}: it was {}, {}, early data {}",
                    number + 1,
                    expected.words(),
                    connection.kind_text(),
                    connection.version,
                    connection.early_data
                );
                if !self.missed.contains(&text) {
                    self.missed.push(text);
                }
            }
        }
    }

    /// The summary, what was missed, and the exit code.
    fn end(&self, interrupted: bool) -> ExitCode {
        let summary = self.gathered.summary();
        if self.arguments.how_often.repeat.is_some() || interrupted {
            if interrupted {
                say::note("interrupted; this is what was done until then");
            }
            match self.arguments.output.json {
                true => json(&serde_json::json!({ "summary": summary })),
                false if self.printed => say::result(&format!("\n{summary}")),
                false => say::result(&summary.to_string()),
            }
        }
        for missed in &self.missed {
            say::error(missed);
        }
        match (
            summary.connections,
            self.missed.is_empty(),
            summary.failed.is_empty(),
        ) {
            (0, ..) => ExitCode::from(say::BROKE),
            (_, true, true) => ExitCode::SUCCESS,
            (..) => ExitCode::from(say::FINDINGS),
        }
    }
}

/// The endpoint that answered first stays the one: another may not know its tickets.
fn stay_with(endpoints: &mut Vec<Endpoint>, connection: &Connection) {
    endpoints.retain(|endpoint| endpoint.to_string() == connection.endpoint);
}

fn json(value: &impl JsonLine) {
    say::result(&format!("{}\n", value.json_line()));
}

fn failed(error: &ProbeError) -> ExitCode {
    say::error(&error.to_string());
    match error.is_wrong_input() {
        true => ExitCode::from(say::WRONG_INPUT),
        false => ExitCode::from(say::BROKE),
    }
}
