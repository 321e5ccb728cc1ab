//! `tollgate check`: everything that `serve` would read, and all findings at once.

use std::process::ExitCode;
use std::sync::Arc;

use tollgate_edge::Live;
use tollgate_terms::UnixTime;
use tollgate_tls::{Clock, Resumption};

use crate::serve::setup::{self, Built, Origin};
use crate::{CheckArguments, say};

/// Runs the command.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    let origin = Origin::File(arguments.config.clone());
    match examine(&origin) {
        Ok(built) => {
            say::plain_error(&built.warnings);
            say::result(&summary(&origin.name(), &built.live, setup::now()));
            ExitCode::from(if built.warnings.is_empty() {
                0
            } else {
                say::FINDINGS
            })
        }
        Err(findings) => {
            say::plain_error(&findings);
            ExitCode::from(say::WRONG_INPUT)
        }
    }
}

fn examine(origin: &Origin) -> Result<Built, String> {
    let color = say::error_colors();
    let (read, warnings) = setup::read(origin, color)?;
    let ring = setup::fresh_ring(&read.config.resumption)?;
    let settings = setup::resumption_settings(&read.config.resumption);
    let resumption: Arc<Resumption> = Resumption::new(Clock::new(setup::now()), settings, &ring);
    setup::build(origin, &read, warnings, &resumption, color)
}

/// What would be served, a line per listener, site and certificate.
fn summary(name: &str, live: &Live, now: UnixTime) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for listener in &live.listeners {
        let _ = writeln!(text, "listener  {}", listener.label);
    }
    for site in &live.sites {
        let backends: Vec<&str> = site
            .backends
            .iter()
            .map(|backend| &*backend.label)
            .collect();
        let _ = writeln!(text, "site      {} -> {}", site.label, backends.join(", "));
        for certificate in &site.certificates {
            let days = certificate.not_after.since(now).as_secs() / 86_400;
            let _ = writeln!(
                text,
                "          {} certificate, {days} days left",
                certificate.kind
            );
        }
    }
    let _ = writeln!(text, "{name} is good");
    text
}
