//! `tollgate bench`: the command line of the six phases and of the experiments around them.

mod experiments;
mod sheet;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_lab::bench::BenchError;

use crate::say;

pub(crate) use sheet::read as read_sheet;

/// What `bench` takes.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    sheet: SheetArguments,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Published figures beside this machine's.
    Folk(FolkArguments),
    /// Signatures, key exchange and ciphers per second, as `openssl speed` has them.
    Primitives(PrimitivesArguments),
    /// Four regimes: full, resumed, bulk with AES-128-GCM, bulk with ChaCha20; over loopback and in memory.
    Regimes(experiments::RegimesArguments),
    /// Handshakes per second: suites and certificates by cores.
    Tps(experiments::TpsArguments),
    /// What each kind of certificate costs for the same load.
    Certs(experiments::CertsArguments),
    /// The same in CPU cycles, where the system lets them be counted.
    Cycles(experiments::CertsArguments),
    /// Memory during a burst of connections and after it, by allocator setting.
    Allocators(experiments::AllocatorsArguments),
    /// Memory per idle connection: TCP and HTTP mode, with and without TLS.
    Mem(experiments::MemArguments),
    /// A backend over TCP, a unix socket and an abstract one.
    Uds(experiments::UdsArguments),
    /// An application: plaintext, its own TLS, and Tollgate in front; worth it or not.
    App(experiments::AppArguments),
}

/// What measuring a sheet takes.
#[derive(Debug, Args)]
pub struct SheetArguments {
    /// Measure this phase alone: 1 asymmetric, 2 derivation, 3 records, 4 handshake memory,
    /// 5 connection memory, 6 resumption. May be given several times or as a list.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = phase)]
    phase: Vec<u8>,
    /// Directory for sheet.json and report.html; the current one for a whole sheet if absent, and no
    /// files for single phases or --json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The sheet as JSON on standard output instead of tables.
    #[arg(long)]
    json: bool,
    /// Set an older sheet beside the one that is measured.
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,
    /// With --compare: exit code 1 when a figure is worse by more than this factor and told apart.
    #[arg(long, value_name = "RATIO", requires = "compare", value_parser = ratio)]
    at_most: Option<f64>,
    /// Read this sheet instead of measuring one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["phase", "no_aes_hardware", "quick"])]
    sheet: Option<PathBuf>,
    /// Measure records once more without the CPU's instructions for AES, and print the ratio.
    #[arg(long, alias = "no-aesni")]
    no_aes_hardware: bool,
    /// A tenth of the time, with wider spreads.
    #[arg(long)]
    quick: bool,
    /// Print the JSON Schema of the sheet and measure nothing.
    #[arg(long, exclusive = true)]
    schema: bool,
}

#[derive(Debug, Args)]
struct FolkArguments {
    /// Sheet to take this machine's figures from; a short one is measured if absent.
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct PrimitivesArguments {
    /// Run this program too and print the ratio; only openssl is known.
    #[arg(long, value_name = "PROGRAM", value_parser = ["openssl"])]
    compare: Option<String>,
    /// Sheet to take this machine's figures from; phases 1 and 3 are measured if absent.
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// A tenth of the time, with wider spreads.
    #[arg(long, conflicts_with = "sheet")]
    quick: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: BenchArguments) -> ExitCode {
    match arguments.what {
        None => sheet::run(&arguments.sheet),
        Some(What::Folk(arguments)) => tables::folk(&arguments),
        Some(What::Primitives(arguments)) => tables::primitives(&arguments),
        Some(What::Regimes(arguments)) => experiments::regimes(arguments),
        Some(What::Tps(arguments)) => experiments::tps(&arguments),
        Some(What::Certs(arguments)) => experiments::certs(arguments, false),
        Some(What::Cycles(arguments)) => experiments::certs(arguments, true),
        Some(What::Allocators(arguments)) => experiments::allocators(arguments),
        Some(What::Mem(arguments)) => experiments::mem(&arguments),
        Some(What::Uds(arguments)) => experiments::uds(&arguments),
        Some(What::App(arguments)) => experiments::app(arguments),
    }
}

/// A result that was made JSON, on standard output.
fn print_json(json: serde_json::Result<String>) -> Result<(), ExitCode> {
    match json {
        Ok(text) => {
            say::result(&format!("{text}\n"));
            Ok(())
        }
        Err(error) => Err(say::broke(&error.to_string())),
    }
}

/// What could not be measured.
fn broke(error: &BenchError) -> ExitCode {
    say::broke(&error.to_string())
}

fn phase(text: &str) -> Result<u8, String> {
    let known = tollgate_lab::bench::phases();
    match text.parse() {
        Ok(phase) if known.contains(&phase) => Ok(phase),
        _ => Err(format!(
            "{text:?} is no phase; there are {}",
            known
                .iter()
                .map(|phase| format!(
                    "{phase} ({})",
                    tollgate_cost::PHASES[usize::from(*phase) - 1]
                ))
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if ratio >= 1.0 && f64::is_finite(ratio) => Ok(ratio),
        _ => Err(format!(
            "{text:?} is no factor; 1.1 lets a figure be a tenth worse"
        )),
    }
}
