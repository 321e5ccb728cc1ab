//! `tollgate cert`: what a chain weighs, and whether the RSA certificate can go.

mod rollout;
mod show;
mod windows;

use std::process::ExitCode;

use clap::Subcommand;

/// What `cert` takes.
#[derive(Debug, clap::Args)]
pub struct CertArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say what certificates are for, what they weigh, and whether they fit a server's first flight.
    Show(show::ShowArguments),
    /// Say how many full handshakes still use RSA at a running instance, what that costs, and whether the RSA
    /// certificate can go.
    Rollout(rollout::RolloutArguments),
}

/// Runs the command.
pub fn run(arguments: &CertArguments) -> ExitCode {
    match &arguments.what {
        What::Show(arguments) => show::run(arguments),
        What::Rollout(arguments) => rollout::run(arguments),
    }
}
