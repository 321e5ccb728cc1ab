//! The data plane: accept, route, relay, drain, reload.
//!
//! A byte's way is one trip, shown in `trip`: `Accepted -> Hello -> Handshaken -> Paired -> Closed`.
//! The other rooms return facts; the connection that ends gives one account of them to the meter
//! and the journal. Reads clocks and sockets; reads files only before a configuration is swapped in.

mod accept;
mod account;
mod client_stream;
mod connection;
mod dearer;
mod dial;
mod gateway;
mod health;
mod lease;
mod ledger;
mod listen;
mod live;
mod relay;
mod roster;
mod shared;
mod sources;
mod trip;
mod visitor;
mod wire;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::sync::{mpsc, oneshot};
use tollgate_config::{AcceptMode, Config, Limits, ListenAddress};
use tollgate_journal::Journal;

pub use dearer::{DearerCertificate, dearer_certificates, still_dearer};
pub use health::{Change as HealthChange, RESOLVE_INTERVAL, resolve, watch_health};
pub use ledger::ThreadHeap;
pub use listen::{ListenError, Listening, Sockets, address_name};
pub use live::{CertificateSummary, Live, LiveSite, Target, site_id, site_label};
pub use sources::{ConsoleFiles, Loaded, Sources};
pub use tollgate_balance::State as BackendState;
pub use worker::{Command, Report};

use shared::Shared;
use worker::Seat;

/// Descriptors kept for listeners, logs, the console and the runtime.
const RESERVED_DESCRIPTORS: u64 = 64;

/// Why the data plane could not start or change.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// A listener could not be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The host refused a thread or a descriptor.
    #[error("workers could not be started: {0}")]
    Host(#[from] io::Error),
}

struct WorkerHandle {
    commands: mpsc::UnboundedSender<Command>,
    thread: JoinHandle<io::Result<()>>,
}

/// The running data plane.
pub struct Edge {
    workers: Vec<WorkerHandle>,
    sockets: Sockets,
    shared: Arc<Shared>,
    live: Arc<Live>,
    accept: AcceptMode,
}

impl Edge {
    /// Starts workers and listens; `inherited` sockets are used where their address is configured. By
    /// `heap`, the ledger tells how much memory connections hold; without it, it does not.
    ///
    /// # Errors
    /// When an address cannot be had or the host refuses threads; nothing is left running then.
    pub fn start(
        config: &Config,
        live: Live,
        journal: Option<&Journal>,
        mut inherited: Sockets,
        heap: Option<ThreadHeap>,
    ) -> Result<Self, EdgeError> {
        let count = config.workers.count.unwrap_or_else(cores).max(1);
        let sockets = open_sockets(config, count, &mut inherited)?;
        let live = Arc::new(live);
        let shared = Arc::new(Shared::default());
        share_connections(&shared, &live.limits, count);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let mut workers = Vec::new();
        for (index, commands) in receivers.into_iter().enumerate() {
            let seat = Seat {
                index,
                live: Arc::clone(&live),
                shared: Arc::clone(&shared),
                commands,
                peers: senders.clone(),
                accept: config.workers.accept,
                heap,
            };
            let commands = senders[index].clone();
            let thread = match hire(seat, config.workers.pin) {
                Ok(thread) => thread,
                Err(error) => {
                    finish(workers);
                    return Err(error.into());
                }
            };
            workers.push(WorkerHandle { commands, thread });
        }
        let edge = Self {
            workers,
            sockets,
            shared,
            live,
            accept: config.workers.accept,
        };
        edge.tell(|| Command::Log(journal.cloned()));
        let handed = edge
            .sockets
            .iter()
            .map(|(address, listening)| edge.duplicates(address, listening))
            .collect::<io::Result<Vec<_>>>();
        match handed {
            Ok(handed) => handed
                .into_iter()
                .flatten()
                .for_each(|hand| edge.give(hand)),
            Err(error) => {
                edge.finish();
                return Err(error.into());
            }
        }
        Ok(edge)
    }

    /// The configuration in force.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Addresses that are listened on, with the port that the kernel chose where the file says 0.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// How often accepting had to rest because the host had no file descriptor left.
    pub fn rests(&self) -> u64 {
        self.shared.rests.load(Ordering::Relaxed)
    }

    /// Connections that may be open at a time: `limits:` or what file descriptors allow, whichever is less.
    pub fn connections_allowed(&self) -> usize {
        self.shared
            .connections_per_worker
            .load(Ordering::Relaxed)
            .saturating_mul(self.workers.len())
    }

    /// Serves by another configuration from now on; running connections keep theirs.
    ///
    /// New addresses are bound before anything changes, so that a failure changes nothing.
    ///
    /// # Errors
    /// When a new address cannot be had.
    pub fn reload(
        &mut self,
        config: &Config,
        live: Live,
        journal: Option<&Journal>,
    ) -> Result<(), EdgeError> {
        let mut opened = BTreeMap::new();
        for listener in &config.listeners {
            if !self.sockets.contains_key(&listener.address.value) {
                opened.insert(
                    listener.address.value.clone(),
                    listen::open(listener, self.workers.len())?,
                );
            }
        }
        let wanted: Vec<&ListenAddress> = config
            .listeners
            .iter()
            .map(|listener| &listener.address.value)
            .collect();
        let gone: Vec<ListenAddress> = self
            .sockets
            .keys()
            .filter(|address| !wanted.contains(address))
            .cloned()
            .collect();
        let handed = opened
            .iter()
            .map(|(address, listening)| self.duplicates(address, listening))
            .collect::<io::Result<Vec<_>>>()?;
        live.inherit_checks(&self.live);
        self.live = Arc::new(live);
        share_connections(&self.shared, &self.live.limits, self.workers.len());
        let live = Arc::clone(&self.live);
        self.tell(|| Command::Reload(Arc::clone(&live)));
        self.tell(|| Command::Log(journal.cloned()));
        handed
            .into_iter()
            .flatten()
            .for_each(|hand| self.give(hand));
        self.sockets.extend(opened);
        for address in gone {
            self.tell(|| Command::Unlisten(address.clone()));
            self.sockets.remove(&address);
            if let ListenAddress::UnixPath(path) = &address {
                // The file of a closed socket is of no use; if it is gone already, so much the better.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// A handle on the sockets of an address for each worker that is to accept there.
    fn duplicates(
        &self,
        address: &ListenAddress,
        listening: &[Listening],
    ) -> io::Result<Vec<(usize, Command)>> {
        let takers = match self.accept {
            AcceptMode::Dispatch => 1,
            AcceptMode::ReusePort => self.workers.len(),
        };
        // More sockets than workers (handed in by a process with more of them): all are accepted from.
        (0..listening.len().max(takers))
            .map(|turn| {
                let socket = listening[turn % listening.len()].try_clone()?;
                Ok((turn % takers, Command::Listen(address.clone(), socket)))
            })
            .collect()
    }

    fn give(&self, (worker, command): (usize, Command)) {
        // A worker that is gone has ended with the process; there is nobody to tell.
        let _ = self.workers[worker].commands.send(command);
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            let _ = worker.commands.send(command());
        }
    }

    /// Passes on what an active check found.
    pub fn checked(&self, site: &Arc<str>, backend: &Arc<str>, up: bool) {
        self.tell(|| Command::Checked(Arc::clone(site), Arc::clone(backend), up));
    }

    /// What every worker has counted; a worker that does not answer within a second is left out.
    pub async fn report(&self) -> Vec<Report> {
        let mut asked = Vec::new();
        for worker in &self.workers {
            let (reply, answer) = oneshot::channel();
            let _ = worker.commands.send(Command::Report(reply));
            asked.push(answer);
        }
        let mut reports = Vec::new();
        for answer in asked {
            if let Ok(Ok(report)) = tokio::time::timeout(Duration::from_secs(1), answer).await {
                reports.push(report);
            }
        }
        reports
    }

    /// Accepts no more and lets running requests and connections end; kept connections without a
    /// request are closed after `grace`.
    pub fn drain(&mut self, grace: Duration) {
        self.tell(|| Command::Drain(grace));
        self.sockets.clear();
    }

    /// Waits until no connection is left, at most `limit`; says how many are.
    pub async fn drained(&self, limit: Duration) -> usize {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let open = self.report().await.iter().map(|report| report.open).sum();
            if open == 0 || tokio::time::Instant::now() >= deadline {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends what is left and waits for the workers.
    pub fn finish(self) {
        finish(self.workers);
    }
}

/// Starts a worker on a thread of its own.
fn hire(seat: Seat, pin: bool) -> io::Result<JoinHandle<io::Result<()>>> {
    let index = seat.index;
    std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || {
            if pin {
                pin_to_core(index);
            }
            worker::run(seat)
        })
}

fn finish(workers: Vec<WorkerHandle>) {
    for worker in &workers {
        let _ = worker.commands.send(Command::Finish);
    }
    for worker in workers {
        // A worker that panicked has said so on standard error; there is nothing to add here.
        let _ = worker.thread.join();
    }
}

/// Sockets for every listener: those handed in where the address fits, else newly opened ones.
fn open_sockets(
    config: &Config,
    count: usize,
    inherited: &mut Sockets,
) -> Result<Sockets, EdgeError> {
    let mut sockets = BTreeMap::new();
    for listener in &config.listeners {
        let address = &listener.address.value;
        let listening = match inherited.remove(address) {
            Some(handed) => handed,
            None => listen::open(listener, count)?,
        };
        sockets.insert(address.clone(), listening);
    }
    Ok(sockets)
}

/// Splits the connections that may be open among the workers.
fn share_connections(shared: &Shared, limits: &Limits, workers: usize) {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let reserved = RESERVED_DESCRIPTORS.min(descriptors / 2);
    // A connection may take two: the client's and the backend's.
    let affordable = usize::try_from((descriptors - reserved) / 2).unwrap_or(usize::MAX);
    let each = limits.connections.min(affordable).div_ceil(workers).max(1);
    shared.connections_per_worker.store(each, Ordering::Relaxed);
}

/// Raises the number of file descriptors that this process may have as far as it is allowed to.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Refused only where a sandbox forbids it; the lower limit is then the one that is shared out.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on one of the cores that the process may use.
fn pin_to_core(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    if let Some(core) = allowed.get(index % allowed.len().max(1)) {
        let mut set = CpuSet::new();
        set.set(*core);
        // Where pinning is forbidden, the worker runs unpinned; balance counters show the same.
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(test)]
mod tests;
