//! The binary: command line, assembly, printing, exit codes.
//!
//! Exit codes: 0 fine, 1 findings or a threshold missed, 2 wrong input, 3 the run itself broke.

mod check;
mod load;
mod reload;
mod say;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// jemalloc: steady, small here, and able to tell what each connection holds.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
    /// Drive a TLS endpoint and count what was really negotiated.
    Load(Box<load::LoadArguments>),
}

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// Configuration file, usually tls.yaml.
    #[arg(required_unless_present = "demo", conflicts_with = "demo")]
    pub config: Option<PathBuf>,
    /// Serve a demo on 127.0.0.1: https on 8443, TLS over TCP on 8444, metrics on 9180.
    #[arg(long)]
    pub demo: bool,
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Load(arguments) => load::run(*arguments),
    }
}
