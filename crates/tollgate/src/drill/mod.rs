//! `tollgate drill`: the command line of incidents on purpose.

mod consent;
mod named;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tollgate_lab::Look;
use tollgate_lab::bench::certificate_from_word;
use tollgate_lab::drill::{self, Drill, DrillError, DrillOptions, Target, Telling};
use tollgate_terms::CertificateKind;

use crate::load::words::duration;
use crate::progress::Progress;
use crate::say;
use named::InstanceArguments;

/// What `drill` takes.
#[derive(Debug, Args)]
pub struct DrillArguments {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tickets and session cache go off by a reload, and on again: cost, alarms, recovery.
    ResumptionOff(ResumptionOffArguments),
    /// The ECDSA certificate is renewed as RSA by a reload: do guard and alarm see it?
    RsaRenewal(RsaRenewalArguments),
    /// All held connections are lost and come back at once: how fast, at what memory.
    ReconnectStorm(ReconnectStormArguments),
    /// The process starts anew with other ticket keys: how long until clients resume.
    ColdStart(ColdStartArguments),
}

/// What all drills take.
#[derive(Debug, Args)]
struct CommonArguments {
    /// Length of an act, such as 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    act: Option<Duration>,
    /// How long to wait for recovery, and for alarms to go quiet.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "90s")]
    patience: Duration,
    /// Acts of a few seconds: shows that it works, too short for fine judgement.
    #[arg(long)]
    quick: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Clients that come and come back.
#[derive(Debug, Args)]
struct ClientArguments {
    /// New connections per second; if absent, 40 % of what an instance of our own can do without
    /// resumption, or 50 for a named one.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Share of clients that come back with something to resume.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    hit_rate: f64,
    /// After how long a client of an instance of our own comes back.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    return_after: Option<Duration>,
}

#[derive(Debug, Args)]
struct ResumptionOffArguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    clients: ClientArguments,
    /// Key of the certificate of an instance of our own: ecdsa, p384, ed25519, rsa2048, rsa3072, rsa4096.
    #[arg(long, value_name = "KIND", value_parser = certificate_from_word, default_value = "ecdsa")]
    cert: CertificateKind,
    #[command(flatten)]
    instance: InstanceArguments,
}

#[derive(Debug, Args)]
struct RsaRenewalArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// What the certificate is renewed with: p384, rsa2048, rsa3072, rsa4096.
    #[arg(long, value_name = "KIND", value_parser = certificate_from_word, default_value = "rsa2048")]
    to: CertificateKind,
    /// Full handshakes per second; 200 if absent, 60 with a key over 2048 bits.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
}

#[derive(Debug, Args)]
struct ReconnectStormArguments {
    /// How long to wait until all are back.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    patience: Duration,
    /// Connections that are held and come back, bounded by open files (ulimit -n).
    #[arg(long, value_name = "N")]
    held: Option<usize>,
    /// Share of clients that come back with a ticket.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    hit_rate: f64,
    /// Fewer connections: shows that it works.
    #[arg(long)]
    quick: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    instance: InstanceArguments,
}

#[derive(Debug, Args)]
struct ColdStartArguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    clients: ClientArguments,
}

/// Runs the command: 0 when all was as expected, 1 when something was not.
pub fn run(arguments: DrillArguments) -> ExitCode {
    let Some(what) = arguments.what else {
        say::result(&list());
        return ExitCode::SUCCESS;
    };
    match options(what) {
        Ok((options, json)) => conduct(&options, json),
        Err(code) => code,
    }
}

/// The drills that there are, a sentence each.
fn list() -> String {
    let mut text = String::from(
        "tollgate drill NAME: an incident on purpose, on an instance of its own unless --instance names one.\n\n",
    );
    for drill in Drill::ALL {
        text.push_str(&format!("  {:16} {}\n", drill.name(), drill.about()));
    }
    text.push_str("\n--quick takes some thirty seconds, a whole one two to four minutes; --help says what can be set.\n");
    text
}

fn options(what: What) -> Result<(DrillOptions, bool), ExitCode> {
    match what {
        What::ResumptionOff(arguments) => {
            let mut options = with_common(Drill::ResumptionOff, &arguments.common);
            set_clients(&mut options, &arguments.clients);
            options.certificate = arguments.cert;
            options.target = named::target(&arguments.instance, named::Changes::Resumption)?;
            Ok((options, arguments.common.json))
        }
        What::RsaRenewal(arguments) => {
            let mut options = with_common(Drill::RsaRenewal, &arguments.common);
            options.dearer = arguments.to;
            options.rate = arguments.rate;
            Ok((options, arguments.common.json))
        }
        What::ReconnectStorm(arguments) => {
            let mut options = DrillOptions::new(Drill::ReconnectStorm);
            options.held = arguments.held.unwrap_or(options.held);
            options.hit_rate = arguments.hit_rate;
            options.patience = arguments.patience;
            options.target = named::target(&arguments.instance, named::Changes::Nothing)?;
            let options = if arguments.quick {
                options.quick()
            } else {
                options
            };
            Ok((options, arguments.json))
        }
        What::ColdStart(arguments) => {
            let mut options = with_common(Drill::ColdStart, &arguments.common);
            set_clients(&mut options, &arguments.clients);
            Ok((options, arguments.common.json))
        }
    }
}

fn with_common(drill: Drill, common: &CommonArguments) -> DrillOptions {
    let mut options = DrillOptions::new(drill);
    options.patience = common.patience;
    if common.quick {
        options = options.quick();
    }
    options.act = common.act.unwrap_or(options.act);
    options
}

fn set_clients(options: &mut DrillOptions, clients: &ClientArguments) {
    options.rate = clients.rate;
    options.hit_rate = clients.hit_rate;
    options.return_after = clients.return_after.unwrap_or(options.return_after);
}

fn conduct(options: &DrillOptions, json: bool) -> ExitCode {
    if let Target::Named(named) = &options.target {
        say::note(&format!(
            "drilling {} ({})",
            named.target,
            named.console.url()
        ));
    }
    let stop = Arc::new(AtomicBool::new(false));
    if let Err(error) = stop_on_signal(Arc::clone(&stop)) {
        return say::broke(&format!("signals cannot be received: {error}"));
    }
    let progress = Progress::new(json);
    let told = |act: &str, what: &str, share: f64| {
        progress.stage(act);
        progress.at(what, share);
    };
    let drilled = drill::run(
        options,
        &Telling {
            progress: &told,
            stopped: &|| stop.load(Ordering::Relaxed),
        },
    );
    drop(progress);
    let report = match drilled {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    match json {
        false => say::result(&report.text(look())),
        true => match serde_json::to_string_pretty(&report) {
            Ok(text) => say::result(&format!("{text}\n")),
            Err(error) => return say::broke(&error.to_string()),
        },
    }
    ExitCode::from(if report.passed() { 0 } else { say::FINDINGS })
}

fn failed(error: &DrillError) -> ExitCode {
    match error.is_input() {
        true => {
            say::error(&error.to_string());
            ExitCode::from(say::WRONG_INPUT)
        }
        false => say::broke(&error.to_string()),
    }
}

/// Sets `stop` at Ctrl-C or a plain kill: what was changed is put back before the process ends.
fn stop_on_signal(stop: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut ended, mut pressed) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        )
    };
    std::thread::Builder::new()
        .name("drill-signals".into())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended.recv() => {}
                    _ = pressed.recv() => {}
                }
            });
            stop.store(true, Ordering::Relaxed);
        })?;
    Ok(())
}

/// Colours for a terminal that wants them.
fn look() -> Look {
    match io::stdout().is_terminal() && say::colors_wanted() {
        true => Look::Coloured,
        false => Look::Plain,
    }
}
