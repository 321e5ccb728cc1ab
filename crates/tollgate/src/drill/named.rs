//! A running instance, named on the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tollgate_config::Config;
use tollgate_lab::drill::{Change, ConsoleAt, Named, Target, without_resumption};

use super::consent;
use crate::say;
use crate::serve::setup::{self, Origin};

/// Which running instance is drilled, if not one of our own.
#[derive(Debug, Args)]
pub struct InstanceArguments {
    /// Drill a running instance, named by its console, such as http://127.0.0.1:9180. Asks first.
    #[arg(long, value_name = "CONSOLE", requires = "target")]
    instance: Option<String>,
    /// HOST:PORT of the instance where it takes clients.
    #[arg(long, value_name = "HOST:PORT", requires = "instance")]
    target: Option<String>,
    /// Its tls.yaml, on this machine: changed for the drill and put back after it.
    #[arg(long, value_name = "FILE", requires = "instance")]
    config: Option<PathBuf>,
    /// Name to send as server_name; the host of --target if absent.
    #[arg(long, value_name = "NAME", requires = "instance")]
    server_name: Option<String>,
    /// Take any certificate of the instance.
    #[arg(long, requires = "instance")]
    insecure: bool,
    /// PEM file with the authorities to trust; the system's if absent.
    #[arg(
        long,
        value_name = "FILE",
        requires = "instance",
        conflicts_with = "insecure"
    )]
    ca: Option<PathBuf>,
    /// File with the token that the console wants.
    #[arg(long, value_name = "FILE", requires = "instance")]
    token_file: Option<PathBuf>,
    /// Yes: do it to the running instance without asking.
    #[arg(long, requires = "instance")]
    yes: bool,
}

/// What a drill changes about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing: it is load alone.
    Nothing,
    /// Resumption goes off and on again.
    Resumption,
}

/// What the arguments name, after a yes; our own if they name none.
pub fn target(arguments: &InstanceArguments, changes: Changes) -> Result<Target, ExitCode> {
    let (Some(url), Some(target)) = (&arguments.instance, &arguments.target) else {
        return Ok(Target::Own);
    };
    named(arguments, url, target, changes)
        .map(|named| Target::Named(Box::new(named)))
        .map_err(|complaint| {
            say::error(complaint.trim_end().trim_start_matches("tollgate: error: "));
            ExitCode::from(say::WRONG_INPUT)
        })
}

fn named(
    arguments: &InstanceArguments,
    url: &str,
    target: &str,
    changes: Changes,
) -> Result<Named, String> {
    let token = arguments.token_file.as_deref().map(token).transpose()?;
    let console = ConsoleAt::new(url, token)?;
    let change = match (changes, &arguments.config) {
        (Changes::Nothing, _) => None,
        (Changes::Resumption, Some(config)) => Some(change(config)?),
        (Changes::Resumption, None) => {
            return Err(
                "resumption is turned off in the instance's own file; name it with --config tls.yaml, on the machine \
                 where the instance runs"
                    .into(),
            );
        }
    };
    let happens = match &change {
        Some(change) => format!(
            "Clients of {target} will not resume for the time of the drill: {} is rewritten, reloaded and put back.",
            change.config.display()
        ),
        None => format!("{target} will be put under load."),
    };
    if !arguments.yes {
        consent::asked(console.host(), &happens)?;
    }
    Ok(Named {
        console,
        target: target.to_owned(),
        server_name: arguments.server_name.clone(),
        insecure: arguments.insecure,
        ca: arguments.ca.clone(),
        change,
    })
}

fn token(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("no token can be read from {} ({error})", path.display()))?;
    match text.trim() {
        "" => Err(format!("{} holds no token", path.display())),
        token => Ok(token.to_owned()),
    }
}

/// The file as it is and as it is in the drill, read and compared as the instance would read them.
fn change(path: &Path) -> Result<Change, String> {
    let (read, _) = setup::read(&Origin::File(path.to_owned()), say::error_colors())?;
    let control = read.config.control.as_ref().map(|control| control.value.clone()).ok_or(
        "control: is off in this configuration, so a drill cannot make the instance reload; give it a path",
    )?;
    let changed = without_resumption(&read.text).map_err(|error| error.to_string())?;
    let base = path.parent().unwrap_or(Path::new("."));
    let name = path.display().to_string();
    let drilled = tollgate_config::read(&name, &changed, base).map_err(|findings| {
        tollgate_config::render(&name, &changed, &findings, say::error_colors())
    })?;
    if !is_off_and_else_the_same(&read.config, &drilled.config) {
        return Err(format!(
            "{name} cannot be edited safely; write `resumption:` on a line of its own and its fields below it"
        ));
    }
    Ok(Change {
        config: path.to_owned(),
        control,
        original: read.text,
        changed,
    })
}

/// Whether the edited file turns resumption off and leaves its other fields alone.
fn is_off_and_else_the_same(before: &Config, drilled: &Config) -> bool {
    let (before, drilled) = (&before.resumption, &drilled.resumption);
    !drilled.tickets
        && drilled.session_cache_entries == 0
        && drilled.lifetime == before.lifetime
        && drilled.key_issue == before.key_issue
        && drilled.key_accept == before.key_accept
}
