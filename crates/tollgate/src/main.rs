//! The binary: command line, assembly, printing, exit codes.
//!
//! Exit codes: 0 fine, 1 findings or a threshold missed, 2 wrong input, 3 the run itself broke.

mod bench;
mod cert;
mod check;
mod drill;
mod export;
mod load;
mod logs;
mod plan;
mod probe;
mod progress;
mod reload;
mod say;
mod serve;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// jemalloc: steady, small here, and able to tell what each connection holds.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// For comparison: see `bench/allocators`.
#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Terminates TLS, and knows what TLS costs.
#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the sites of a configuration file, or a demo that needs none.
    Serve(ServeArguments),
    /// Read everything that `serve` would, and print all findings at once.
    Check(CheckArguments),
    /// Make a running instance read its configuration again.
    Reload(ReloadArguments),
    /// Show what a running instance says of itself, live, in a terminal.
    Top(top::TopArguments),
    /// Say what a certificate chain weighs, and whether the RSA certificate can go.
    Cert(cert::CertArguments),
    /// Connect to a TLS endpoint, resume, and say what was really negotiated.
    #[command(version)]
    Probe(Box<probe::ProbeArguments>),
    /// Drive a TLS endpoint and count what was really negotiated.
    Load(Box<load::LoadArguments>),
    /// Measure what TLS costs on this machine: six phases, and experiments around them.
    Bench(Box<bench::BenchArguments>),
    /// Work out how much a workload needs: cores and memory by phase, nodes, and what the loss of resumption would take.
    Plan(Box<plan::PlanArguments>),
    /// Read access logs of Tollgate, nginx or HAProxy: hit rate over time, dips, and what the log does not tell.
    Logs(logs::LogsArguments),
    /// Bring about an incident: resumption off, a dearer certificate, all clients back at once, a cold start.
    Drill(Box<drill::DrillArguments>),
    /// Write files for Grafana, Prometheus and Alertmanager, made from the same tables as console and alarms.
    Export(export::ExportArguments),
}

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// Configuration file, usually tls.yaml.
    #[arg(required_unless_present = "demo", conflicts_with = "demo")]
    pub config: Option<PathBuf>,
    /// Serve a demo on 127.0.0.1: https on 8443, TLS over TCP on 8444, console on 9180.
    #[arg(long)]
    pub demo: bool,
    /// Let the demo drive a small load of its own, so that the console has something to show.
    #[arg(long, requires = "demo")]
    pub drive: bool,
    /// Sheet written by `tollgate bench`, for costs that this process has not measured itself yet.
    #[arg(long, value_name = "FILE")]
    pub sheet: Option<PathBuf>,
}

/// What `check` takes.
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// Configuration file, usually tls.yaml.
    pub config: PathBuf,
}

/// What `reload` takes.
#[derive(Debug, clap::Args)]
pub struct ReloadArguments {
    /// Configuration file of the instance; it names the control socket.
    #[arg(default_value = "tls.yaml")]
    pub config: PathBuf,
    /// Control socket, if it is not the one that the configuration file names.
    #[arg(long)]
    pub control: Option<PathBuf>,
    /// A certificate that costs more CPU than the one it replaces is meant: the alarm certificate_dearer stays quiet.
    #[arg(long)]
    pub allow_dearer_certificate: bool,
}

/// A process that another one started for itself alone ends with it, however that one ends: the variable
/// `TOLLGATE_END_WITH` holds the other's process id.
fn end_with_starter() {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let Some(starter) = std::env::var("TOLLGATE_END_WITH").ok() else {
        return;
    };
    // Refused or not, there is nothing else to be done; then the signal for the old parent is missed.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.as_deref() != Some(starter.as_str()) {
        std::process::exit(i32::from(say::BROKE));
    }
}

fn main() -> ExitCode {
    end_with_starter();
    let arguments = Arguments::parse();
    match arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Cert(arguments) => cert::run(&arguments),
        Command::Probe(arguments) => probe::run(*arguments),
        Command::Load(arguments) => load::run(*arguments),
        Command::Bench(arguments) => bench::run(*arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Logs(arguments) => logs::run(&arguments),
        Command::Drill(arguments) => drill::run(*arguments),
        Command::Export(arguments) => export::run(&arguments),
    }
}
