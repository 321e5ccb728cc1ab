//! `tollgate serve`: one process from its first line of configuration to its last connection.
//!
//! The main thread holds the parent: signals, control socket, console, health, keys and reloads.
//! It never touches a client's byte; the workers of `edge` do that.

mod console;
mod control;
mod dearer;
mod demo;
mod drive;
mod facts;
mod handover;
mod heap;
mod notify;
mod observer;
mod reload;
pub mod setup;
mod signals;
mod start;
mod upgrade;
mod webhook;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tollgate_config::Config;
use tollgate_edge::{Edge, HealthChange, Sockets};
use tollgate_journal::Journal;
use tollgate_keys::Ring;
use tollgate_meter::alarms::{Change, State};
use tollgate_tls::{Clock, Resumption};

use crate::{ServeArguments, say};
use console::Console;
use control::Control;
use dearer::Dearer;
use drive::Drive;
use facts::Tallies;
use handover::Program;
use observer::{Observer, now_seconds};
use setup::{Complaint, Origin};
use signals::Signals;
use webhook::Webhook;

/// How often the coarse clock moves and ticket keys are looked at.
const TICK: Duration = Duration::from_secs(1);

/// How long a kept HTTP/1.1 connection may wait for its next request once the drain has begun.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// Why the run ended before its time.
enum Failure {
    /// The configuration, or what it names.
    Input(Complaint),
    /// The host.
    Broke(String),
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Self::Input(complaint)
    }
}

/// Runs the command until the process is told to end.
pub fn run(arguments: ServeArguments) -> ExitCode {
    let program = Program::this();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async move {
        let mut parent = Parent::start(arguments, program).await?;
        parent.serve().await;
        parent.end().await;
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(complaint)) => {
            say::plain_error(&complaint);
            ExitCode::from(say::WRONG_INPUT)
        }
        Err(Failure::Broke(reason)) => say::broke(&reason),
    }
}

/// The process's one parent.
struct Parent {
    program: Program,
    origin: Origin,
    config: Config,
    edge: Edge,
    clock: Clock,
    resumption: Arc<Resumption>,
    ring: Ring,
    journal: Option<Journal>,
    dropped_before: u64,
    observer: Rc<RefCell<Observer>>,
    drive: Option<Drive>,
    dearer: Dearer,
    webhook: Option<Webhook>,
    console: Option<Console>,
    control: Option<Control>,
    control_requests: mpsc::UnboundedReceiver<control::Request>,
    control_sender: mpsc::UnboundedSender<control::Request>,
    health: JoinHandle<()>,
    health_changes: mpsc::UnboundedReceiver<HealthChange>,
    health_sender: mpsc::UnboundedSender<HealthChange>,
    tallies: Tallies,
    replaced: bool,
}

impl Parent {
    async fn serve(&mut self) {
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => return say::error(&format!("signals cannot be received: {error}")),
        };
        let mut ticks = tokio::time::interval(TICK);
        ticks.reset();
        let mut resolve = tokio::time::interval(tollgate_edge::RESOLVE_INTERVAL);
        resolve.reset();
        let mut watchdog = notify::watchdog_interval().map(tokio::time::interval);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.tick().await,
                _ = resolve.tick() => self.resolve(),
                () = beat(&mut watchdog) => notify::alive(),
                _ = signals.hang_up.recv() => drop(self.reload_and_say(false).await),
                _ = signals.upgrade.recv() => if self.upgrade().await { return },
                _ = signals.terminate.recv() => return,
                _ = signals.interrupt.recv() => return,
                Some(change) = self.health_changes.recv() => self.pass_on(&change),
                Some(request) = self.control_requests.recv() => {
                    let answer = self.reload_and_say(request.allow_dearer).await;
                    // Whoever asked may have left; the reload stands all the same.
                    let _ = request.answer.send(answer);
                }
                asked = console::asked(&mut self.console) => {
                    let snapshot = facts::snapshot(&self.edge, &self.tallies(), &self.resumption).await;
                    asked.answer(snapshot);
                }
            }
        }
    }

    fn tallies(&self) -> Tallies {
        let dropped = self.journal.as_ref().map_or(0, Journal::dropped);
        Tallies {
            lines_dropped: self.dropped_before + dropped,
            ledger: self.config.ledger,
            ..self.tallies.clone()
        }
    }

    async fn tick(&mut self) {
        let now = setup::now();
        self.clock.set(now);
        if let Some(next) = self.ring.turn(now, setup::key_material) {
            self.ring = next;
            self.resumption.set_ring(&self.ring);
        }
        let snapshot = facts::snapshot(&self.edge, &self.tallies(), &self.resumption).await;
        let changes = self
            .observer
            .borrow_mut()
            .take(now_seconds(), snapshot, self.dearer.seen());
        for change in &changes {
            say_change(change);
            if let Some(webhook) = &self.webhook {
                webhook.tell(change);
            }
        }
        if let Some(console) = &self.console {
            console.publish();
        }
    }

    /// Looks host names up again without waiting for the answer.
    fn resolve(&self) {
        let live = Arc::clone(self.edge.live());
        if live.hosts().next().is_none() {
            return;
        }
        tokio::task::spawn_blocking(move || {
            for failed in tollgate_edge::resolve(&live) {
                say::warning(&format!(
                    "host name {failed}; its last addresses stay in use"
                ));
            }
        });
    }

    fn pass_on(&self, change: &HealthChange) {
        let state = if change.up { "up" } else { "down" };
        say::note(&format!(
            "backend {} of {} is {state}: {}",
            change.backend, change.site, change.why
        ));
        self.edge.checked(&change.site, &change.backend, change.up);
    }

    /// Accepts no more, lets connections end within `timeouts: drain`, and leaves.
    async fn end(mut self) {
        if let Some(control) = &mut self.control {
            control.handed_on = self.replaced;
        }
        if !self.replaced {
            notify::stopping();
            remove_socket_files(self.edge.sockets());
        }
        self.health.abort();
        self.drive = None;
        if self.replaced {
            // The other process answers at the same address.
            self.console = None;
        } else if let Some(console) = &self.console {
            console.dismiss();
        }
        let limit = self.config.timeouts.drain;
        self.edge.drain(DRAIN_GRACE.min(limit / 2));
        let tallies = self.tallies();
        let answers = async {
            loop {
                let asked = console::asked(&mut self.console).await;
                asked.answer(facts::snapshot(&self.edge, &tallies, &self.resumption).await);
            }
        };
        let left = tokio::select! {
            left = self.edge.drained(limit) => left,
            () = answers => 0,
        };
        if left > 0 {
            say::warning(&format!(
                "{left} connections were still open after {limit:?} and are closed now"
            ));
        }
        self.edge.finish();
        if let Some(journal) = &self.journal {
            journal.flush();
        }
        say::note("ended");
    }
}

/// An alarm's beginning and end in the log.
fn say_change(change: &Change) {
    let about = match change.subject.as_str() {
        "" => String::new(),
        subject => format!(" ({subject})"),
    };
    match change.state {
        State::Firing => say::warning(&format!(
            "alarm {}{about}: {}",
            change.name, change.sentence
        )),
        State::Quiet | State::Pending => say::note(&format!(
            "alarm {}{about} is quiet again: {}",
            change.name, change.sentence
        )),
    }
}

/// Ready when systemd wants to hear that we live; never where it does not.
async fn beat(watchdog: &mut Option<tokio::time::Interval>) {
    match watchdog {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

fn watch(edge: &Edge, changes: &mpsc::UnboundedSender<HealthChange>) -> JoinHandle<()> {
    spawn_local(tollgate_edge::watch_health(
        Arc::clone(edge.live()),
        changes.clone(),
    ))
}

fn remove_socket_files(sockets: &Sockets) {
    for address in sockets.keys() {
        if let tollgate_config::ListenAddress::UnixPath(path) = address {
            let path: &PathBuf = path;
            // Already gone is as good as removed.
            let _ = std::fs::remove_file(path);
        }
    }
}
