//! Another configuration in place of the one in force.

use std::net::TcpListener;
use std::sync::Arc;

use tollgate_config::{Config, LogTarget};
use tollgate_edge::ConsoleFiles;
use tollgate_journal::Journal;

use super::console::{Console, ConsoleError};
use super::setup::{self, Complaint};
use super::start::resolved;
use super::webhook::{Receiver, Webhook};
use super::{Parent, notify, watch};
use crate::say;

/// What becomes of the console.
pub(super) enum NextConsole {
    /// There is none.
    Off,
    /// It stays where it is, guarded by these.
    Same(ConsoleFiles),
    /// Another one takes its place.
    Other(Console),
}

impl Parent {
    /// Binds what the next configuration's console needs, while the present one goes on.
    pub(super) fn next_console(
        &self,
        config: &Config,
        files: Option<ConsoleFiles>,
        inherited: Option<TcpListener>,
    ) -> Result<NextConsole, ConsoleError> {
        let (Some(wanted), Some(files)) = (&config.console, files) else {
            return Ok(NextConsole::Off);
        };
        let address = wanted.address.value;
        match &self.console {
            Some(console) if console.configured == address => Ok(NextConsole::Same(files)),
            _ => Console::open(address, files, inherited, &self.observer).map(NextConsole::Other),
        }
    }

    /// Whom alarms are told to from now on.
    pub(super) fn listen_for_alarms(&mut self, receiver: Option<Receiver>) {
        self.webhook = receiver.map(|receiver| Webhook::start(receiver, &self.tallies.host));
    }

    pub(super) fn adopt_console(&mut self, next: NextConsole) {
        match next {
            NextConsole::Off => self.console = None,
            NextConsole::Other(console) => self.console = Some(console),
            NextConsole::Same(files) => {
                if let Some(console) = &mut self.console
                    && let Err(error) = console.reconfigure(files)
                {
                    say::error(&error.to_string());
                }
            }
        }
    }

    pub(super) async fn reload_and_say(&mut self, allow_dearer: bool) -> Result<String, Complaint> {
        notify::reloading();
        let outcome = self.reload(allow_dearer).await;
        match &outcome {
            Ok(text) => {
                self.tallies.reloads_done += 1;
                say::plain_error(text);
                notify::reloaded("serving the new configuration");
            }
            Err(complaint) => {
                self.tallies.reloads_refused += 1;
                say::plain_error(complaint);
                say::error("the configuration was not loaded; the one before stays in force");
                notify::reloaded("the new configuration was refused; serving the one before");
            }
        }
        outcome
    }

    /// Everything is read and bound before anything changes; then all of it changes at once.
    pub(super) async fn reload(&mut self, allow_dearer: bool) -> Result<String, Complaint> {
        let color = say::error_colors();
        let (read, warnings) = setup::read(&self.origin, color)?;
        let lifetimes = setup::lifetimes(&read.config.resumption)?;
        let built = setup::build(&self.origin, &read, warnings, &self.resumption, color)?;
        let (live, mut text) = (built.live, built.warnings);
        live.inherit_addresses(self.edge.live());
        let live = resolved(live).await;
        if read.config.workers != self.config.workers {
            text.push_str("tollgate: warning: workers: takes effect at the next start or upgrade (SIGUSR2), not by a reload\n");
        }
        let journal = self.next_journal(&read.config)?;
        let console = self
            .next_console(&read.config, built.console, None)
            .map_err(|error| format!("tollgate: error: {error}\n"))?;
        let before = Arc::clone(self.edge.live());
        let log = journal
            .as_ref()
            .or(self.journal.as_ref())
            .filter(|_| read.config.log.target != LogTarget::Off);
        self.edge
            .reload(&read.config, live, log)
            .map_err(|error| format!("tollgate: error: {error}\n"))?;
        text.push_str(
            &self
                .dearer
                .reloaded(&before, self.edge.live(), allow_dearer),
        );
        self.adopt(read.config, journal);
        self.adopt_console(console);
        self.ring = self.ring.with_lifetimes(lifetimes);
        self.resumption.set_ring(&self.ring);
        self.resumption
            .reconfigure(setup::resumption_settings(&self.config.resumption));
        self.observer
            .borrow_mut()
            .reconfigure(setup::alarm_settings(&self.config.alarms));
        self.listen_for_alarms(built.webhook);
        self.health.abort();
        self.health = watch(&self.edge, &self.health_sender);
        text.push_str(&format!(
            "tollgate: configuration {} is in force\n",
            self.edge.live().hash
        ));
        Ok(text)
    }

    /// The log to write from now on; `None` keeps the present one, reopened.
    pub(super) fn next_journal(&self, config: &Config) -> Result<Option<Journal>, Complaint> {
        let same = config.log.target == self.config.log.target
            && config.log.format == self.config.log.format;
        match &self.journal {
            Some(journal) if same => {
                journal.reopen();
                Ok(None)
            }
            Some(_) | None => setup::journal(config),
        }
    }

    pub(super) fn adopt(&mut self, config: Config, journal: Option<Journal>) {
        let turned_off = config.log.target == LogTarget::Off;
        if journal.is_some() || turned_off {
            self.dropped_before += self.journal.as_ref().map_or(0, Journal::dropped);
            self.journal = journal;
        }
        let control_moved = config.control != self.config.control;
        self.config = config;
        if control_moved {
            self.control = None;
            self.open_control(false);
        }
    }
}
