//! `tollgate serve`: one process from its first line of configuration to its last connection.
//!
//! The main thread holds the parent: signals, control socket, console, health, keys and reloads.
//! It never touches a client's byte; the workers of `edge` do that.

mod console;
mod control;
mod demo;
mod facts;
mod handover;
mod heap;
mod notify;
pub mod setup;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tollgate_config::{Config, LogTarget};
use tollgate_edge::{Edge, HealthChange, Listening, Live, Sockets, address_name};
use tollgate_journal::Journal;
use tollgate_keys::Ring;
use tollgate_tls::{Clock, Resumption};

use crate::{ServeArguments, say};
use console::Console;
use control::Control;
use facts::Tallies;
use handover::{Inheritance, Program, Successor};
use setup::{Complaint, Origin};

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
    async fn start(arguments: ServeArguments, program: Program) -> Result<Self, Failure> {
        tollgate_edge::raise_descriptor_limit();
        let origin = origin(arguments).await?;
        let color = say::error_colors();
        let (read, warnings) = setup::read(&origin, color)?;
        let inheritance = Inheritance::receive()
            .map_err(|error| Failure::Broke(format!("hand-over from the old process: {error}")))?;
        let ring = match inheritance
            .as_ref()
            .and_then(|inherited| inherited.ring.clone())
        {
            Some(ring) => ring.with_lifetimes(setup::lifetimes(&read.config.resumption)?),
            None => setup::fresh_ring(&read.config.resumption)?,
        };
        let clock = Clock::new(setup::now());
        let resumption = Resumption::new(
            clock.clone(),
            setup::resumption_settings(&read.config.resumption),
            &ring,
        );
        let (live, warnings) = setup::build(&origin, &read, warnings, &resumption, color)?;
        say::plain_error(&warnings);
        let live = resolved(live).await;
        let journal = setup::journal(&read.config)?;
        let (sockets, inherited_console, successor) = inherited(inheritance)?;
        let replaces = successor.is_some();
        let config = read.config;
        let edge = Edge::start(&config, live, journal.as_ref(), sockets, heap::of_threads())
            .map_err(|error| Failure::Broke(error.to_string()))?;
        let (control_sender, control_requests) = mpsc::unbounded_channel();
        let (health_sender, health_changes) = mpsc::unbounded_channel();
        let health = watch(&edge, &health_sender);
        let mut parent = Self {
            program,
            origin,
            config,
            edge,
            clock,
            resumption,
            ring,
            journal,
            dropped_before: 0,
            console: None,
            control: None,
            control_requests,
            control_sender,
            health,
            health_changes,
            health_sender,
            tallies: Tallies::default(),
            replaced: false,
        };
        parent.open_console(inherited_console)?;
        parent.open_control(replaces);
        parent.announce();
        if let Some(inheritance) = successor {
            inheritance.ready();
        }
        Ok(parent)
    }

    fn open_console(&mut self, inherited: Option<std::net::TcpListener>) -> Result<(), Failure> {
        let Some(address) = self.config.console.as_ref().map(|console| console.address.value) else {
            self.console = None;
            return Ok(());
        };
        if self
            .console
            .as_ref()
            .is_some_and(|console| console.configured == address)
        {
            return Ok(());
        }
        self.console = Some(
            Console::open(address, inherited).map_err(|error| Failure::Broke(error.to_string()))?,
        );
        Ok(())
    }

    /// Without a control socket everything works but `tollgate reload`; SIGHUP does the same.
    fn open_control(&mut self, replace: bool) {
        let Some(path) = self
            .config
            .control
            .as_ref()
            .map(|control| control.value.clone())
        else {
            self.control = None;
            return;
        };
        match Control::listen(&path, replace) {
            Ok(mut control) => {
                control.answer(self.control_sender.clone());
                self.control = Some(control);
            }
            Err(error) => say::warning(&format!(
                "control socket {}: {error}; tollgate reload cannot reach this process, SIGHUP can \
                 (set control: to a path of its own, or to off)",
                path.display()
            )),
        }
    }

    fn announce(&self) {
        let allowed = self.edge.connections_allowed();
        let demo = matches!(self.origin, Origin::Demo(_));
        if allowed < self.config.limits.connections && !demo {
            say::warning(&format!(
                "file descriptors allow {allowed} connections at a time, limits: connections says {}; \
                 raise LimitNOFILE (systemd) or ulimit -n",
                self.config.limits.connections
            ));
        }
        for (address, sockets) in self.edge.sockets() {
            say::note(&format!("listening on {}", bound_name(address, sockets)));
        }
        if let Some(console) = &self.console {
            say::note(&format!("metrics on http://{}/metrics", console.address));
        }
        say::note(&format!(
            "ready, {} workers, configuration {}",
            self.edge.workers(),
            self.edge.live().hash
        ));
        if demo {
            say::result(demo::TRY_NEXT);
        }
        notify::ready(allowed);
    }

    async fn serve(&mut self) {
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => return say::error(&format!("signals cannot be received: {error}")),
        };
        let mut ticks = tokio::time::interval(TICK);
        let mut resolve = tokio::time::interval(tollgate_edge::RESOLVE_INTERVAL);
        resolve.reset();
        let mut watchdog = notify::watchdog_interval().map(tokio::time::interval);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.tick(),
                _ = resolve.tick() => self.resolve(),
                () = beat(&mut watchdog) => notify::alive(),
                _ = signals.hang_up.recv() => drop(self.reload_and_say().await),
                _ = signals.upgrade.recv() => if self.upgrade().await { return },
                _ = signals.terminate.recv() => return,
                _ = signals.interrupt.recv() => return,
                Some(change) = self.health_changes.recv() => self.pass_on(&change),
                Some(request) = self.control_requests.recv() => {
                    let answer = self.reload_and_say().await;
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
            ..self.tallies
        }
    }

    fn tick(&mut self) {
        let now = setup::now();
        self.clock.set(now);
        if let Some(next) = self.ring.turn(now, setup::key_material) {
            self.ring = next;
            self.resumption.set_ring(&self.ring);
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

    async fn reload_and_say(&mut self) -> Result<String, Complaint> {
        notify::reloading();
        let outcome = self.reload().await;
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
    async fn reload(&mut self) -> Result<String, Complaint> {
        let color = say::error_colors();
        let (read, warnings) = setup::read(&self.origin, color)?;
        let lifetimes = setup::lifetimes(&read.config.resumption)?;
        let (live, mut text) =
            setup::build(&self.origin, &read, warnings, &self.resumption, color)?;
        live.inherit_addresses(self.edge.live());
        let live = resolved(live).await;
        for dearer in tollgate_edge::dearer_certificates(self.edge.live(), &live) {
            text.push_str(&format!("tollgate: warning: {dearer}\n"));
        }
        if read.config.workers != self.config.workers {
            text.push_str("tollgate: warning: workers: takes effect at the next start or upgrade (SIGUSR2), not by a reload\n");
        }
        let journal = self.next_journal(&read.config)?;
        let log = journal
            .as_ref()
            .or(self.journal.as_ref())
            .filter(|_| read.config.log.target != LogTarget::Off);
        self.edge
            .reload(&read.config, live, log)
            .map_err(|error| format!("tollgate: error: {error}\n"))?;
        self.adopt(read.config, journal);
        self.ring = self.ring.with_lifetimes(lifetimes);
        self.resumption.set_ring(&self.ring);
        self.resumption
            .reconfigure(setup::resumption_settings(&self.config.resumption));
        self.health.abort();
        self.health = watch(&self.edge, &self.health_sender);
        text.push_str(&format!(
            "tollgate: configuration {} is in force\n",
            self.edge.live().hash
        ));
        Ok(text)
    }

    /// The log to write from now on; `None` keeps the present one, reopened.
    fn next_journal(&self, config: &Config) -> Result<Option<Journal>, Complaint> {
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

    fn adopt(&mut self, config: Config, journal: Option<Journal>) {
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
        if let Err(Failure::Broke(reason) | Failure::Input(reason)) = self.open_console(None) {
            say::error(&reason);
        }
    }

    /// Starts the program at our path anew and hands it everything; true when it serves in our place.
    async fn upgrade(&mut self) -> bool {
        let console = self
            .console
            .as_ref()
            .and_then(|console| console.socket.try_clone().ok());
        let started = Successor::start(
            &self.program,
            self.edge.sockets(),
            console.as_ref(),
            &self.ring,
        );
        let successor = match started {
            Ok(successor) => successor,
            Err(error) => {
                say::error(&format!(
                    "upgrade: the new process could not be started: {error}; this one serves on"
                ));
                return false;
            }
        };
        say::note(&format!(
            "upgrade: process {} is taking over",
            successor.id()
        ));
        match tokio::task::spawn_blocking(move || successor.wait_until_ready()).await {
            Ok(Ok(id)) => {
                say::note(&format!("upgrade: process {id} serves; this one drains"));
                self.replaced = true;
                true
            }
            Ok(Err(reason)) => {
                say::error(&format!("upgrade: {reason}; this process serves on"));
                false
            }
            Err(error) => {
                say::error(&format!("upgrade: {error}; this process serves on"));
                false
            }
        }
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
        let limit = self.config.timeouts.drain;
        self.edge.drain(DRAIN_GRACE.min(limit / 2));
        let left = self.edge.drained(limit).await;
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

struct Signals {
    hang_up: Signal,
    upgrade: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Ready when systemd wants to hear that we live; never where it does not.
async fn beat(watchdog: &mut Option<tokio::time::Interval>) {
    match watchdog {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

async fn origin(arguments: ServeArguments) -> Result<Origin, Failure> {
    if let Some(path) = arguments.config {
        return Ok(Origin::File(path));
    }
    let backend = console::demo_backend()
        .await
        .map_err(|error| Failure::Broke(format!("demo backend: {error}")))?;
    demo::Demo::new(backend, setup::now())
        .map(Origin::Demo)
        .map_err(|error| Failure::Broke(error.to_string()))
}

/// Looks up the backends' host names on a thread that may wait.
async fn resolved(live: Live) -> Live {
    if live.hosts().next().is_none() {
        return live;
    }
    let looked_up = tokio::task::spawn_blocking(move || {
        let failed = tollgate_edge::resolve(&live);
        (live, failed)
    });
    match looked_up.await {
        Ok((live, failed)) => {
            for name in failed {
                say::warning(&format!(
                    "backend host name {name}; requests for it fail until it resolves"
                ));
            }
            live
        }
        // The closure neither panics nor is cancelled; if it were, there is nothing to serve with.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn watch(edge: &Edge, changes: &mpsc::UnboundedSender<HealthChange>) -> JoinHandle<()> {
    spawn_local(tollgate_edge::watch_health(
        Arc::clone(edge.live()),
        changes.clone(),
    ))
}

type Inherited = (Sockets, Option<std::net::TcpListener>, Option<Inheritance>);

/// Sockets of the process that this one replaces, else those that systemd handed in.
fn inherited(inheritance: Option<Inheritance>) -> Result<Inherited, Failure> {
    if let Some(mut inheritance) = inheritance {
        let sockets = std::mem::take(&mut inheritance.sockets);
        let console = inheritance.console.take();
        return Ok((sockets, console, Some(inheritance)));
    }
    let mut given = listenfd::ListenFd::from_env();
    let mut sockets = Sockets::new();
    for number in 0..given.len() {
        let taken = match given.take_tcp_listener(number) {
            Ok(Some(tcp)) => Ok(std::os::fd::OwnedFd::from(tcp)),
            _ => match given.take_unix_listener(number) {
                Ok(Some(unix)) => Ok(std::os::fd::OwnedFd::from(unix)),
                Ok(None) => continue,
                Err(error) => Err(error),
            },
        };
        let (address, listening) = taken.and_then(Listening::adopt).map_err(|error| {
            Failure::Broke(format!("socket {number} handed in by systemd cannot be used: {error}; it must be a stream socket that listens"))
        })?;
        say::note(&format!("socket for {} handed in", address_name(&address)));
        sockets.entry(address).or_default().push(listening);
    }
    Ok((sockets, None, None))
}

/// The address as configured, or as bound where the configuration says port 0.
fn bound_name(address: &tollgate_config::ListenAddress, sockets: &[Listening]) -> String {
    match (address, sockets.first()) {
        (tollgate_config::ListenAddress::Ip(ip), Some(Listening::Tcp(listener)))
            if ip.port() == 0 =>
        {
            listener
                .local_addr()
                .map_or_else(|_| ip.to_string(), |bound: SocketAddr| bound.to_string())
        }
        _ => address_name(address),
    }
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
