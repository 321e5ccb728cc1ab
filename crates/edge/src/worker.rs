//! A worker: one thread, one runtime, its own listening sockets, buffers, pools and counters.
//!
//! Nothing on the data path is shared with another worker. The parent speaks to it through commands.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tollgate_balance::{Balancer, PassiveHealth, State, Strategy, Weight};
use tollgate_config::{AcceptMode, ListenAddress};
use tollgate_http::{Pool, Protocol};
use tollgate_journal::{Entry as Line, Journal};
use tollgate_meter::{Meter, MeterNames, Places, Snapshot};
use tollgate_tls::Buffers;

use crate::connection::Connection;
use crate::dial::is_out_of_descriptors;
use crate::gateway::POOL_SWEEPS;
use crate::listen::Listening;
use crate::live::{Live, LiveSite};
use crate::roster::{Entry, Roster};
use crate::trip;
use crate::wire::Wire;

/// How often the roster is swept; also the precision of every client timeout.
const SWEEP: Duration = Duration::from_millis(250);

/// Bytes read from a backend at a time (32 KB reads are the measured optimum of the design).
const SCRATCH_BYTES: usize = 32 * 1024;

/// How long accepting rests after the host ran out of file descriptors.
const REST: Duration = Duration::from_millis(50);

/// What the parent asks of a worker.
pub enum Command {
    /// Serve by this from now on; running connections keep what they have.
    Reload(Arc<Live>),
    /// Accept on this socket as well.
    Listen(ListenAddress, Listening),
    /// Accept no more on this address.
    Unlisten(ListenAddress),
    /// A connection that another worker accepted.
    Accepted(ListenAddress, Accepted),
    /// Write access log lines here from now on.
    Log(Option<Journal>),
    /// A backend passed or failed its checks: site label, backend label, up.
    Checked(Arc<str>, Arc<str>, bool),
    /// Report what was counted.
    Report(oneshot::Sender<Report>),
    /// Accept no more, let requests end; close what is idle once this much time has passed.
    Drain(Duration),
    /// End whatever is left.
    Finish,
}

/// An accepted socket on its way to another worker.
pub enum Accepted {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// What a worker has counted so far.
#[derive(Debug)]
pub struct Report {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// Counters and histograms.
    pub snapshot: Snapshot,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
    /// Connections open now.
    pub open: usize,
    /// State of each backend, per site, as this worker sees it.
    pub backends: Vec<(Arc<str>, Vec<(Arc<str>, State)>)>,
}

/// What all workers share: counters that are touched once per connection, never per byte.
#[derive(Debug, Default)]
pub struct Shared {
    /// Connections per client address, kept only while that limit is set.
    per_client: Mutex<HashMap<IpAddr, usize>>,
    /// Connections that each worker may hold, from `limits:` and the file descriptors there are.
    pub connections_per_worker: AtomicUsize,
    /// Times that accepting had to rest because the host had no file descriptor left.
    pub rests: AtomicU64,
}

impl Shared {
    /// Counts one more connection of a client, unless that would be one too many.
    fn admit(&self, client: Option<IpAddr>, limit: usize) -> Admission {
        let (Some(client), true) = (client, limit > 0) else {
            return Admission::Uncounted;
        };
        let mut clients = self
            .per_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = clients.entry(client).or_insert(0);
        if *open >= limit {
            return Admission::TooMany;
        }
        *open += 1;
        Admission::Counted(client)
    }

    fn leave(&self, client: IpAddr) {
        let mut clients = self
            .per_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = clients.get_mut(&client) {
            *open -= 1;
            if *open == 0 {
                clients.remove(&client);
            }
        }
    }
}

/// Whether a client may have one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes, and it counts against its limit.
    Counted(IpAddr),
    /// Yes; there is no limit, or the peer has no address.
    Uncounted,
    /// No.
    TooMany,
}

/// The configuration with what this worker keeps for it.
pub struct WorkerLive {
    /// Shared by all workers.
    pub live: Arc<Live>,
    /// In the order of the file.
    pub sites: Vec<Rc<WorkerSite>>,
    /// Where the meter counts for each site and listener; they keep their place over reloads.
    pub places: Places,
}

/// A site with its balance on this worker.
pub struct WorkerSite {
    /// Shared by all workers.
    pub site: Arc<LiveSite>,
    /// Which backend takes the next.
    pub balancer: RefCell<Balancer>,
}

/// The state of one worker.
pub struct Worker {
    /// 0 to the number of workers.
    pub index: usize,
    pub(crate) meter: RefCell<Meter>,
    pub(crate) roster: Roster,
    pub(crate) buffers: Buffers,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    stage: Cell<Stage>,
    /// Idle connections to backends; a reload keeps those whose backend stays the same.
    pub(crate) pool: Rc<Pool>,
    stage_changed: Notify,
    live: RefCell<Rc<WorkerLive>>,
    journal: RefCell<Option<Journal>>,
    shared: Arc<Shared>,
    room: Notify,
    started: Instant,
    acceptors: RefCell<Vec<(ListenAddress, AbortHandle)>>,
    peers: Vec<mpsc::UnboundedSender<Command>>,
    accept: AcceptMode,
    next_peer: Cell<usize>,
    dice: RefCell<fastrand::Rng>,
}

/// How far a worker is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not at all.
    Serving,
    /// Accepts no more; what is open goes on, and is told to end with its next response.
    Draining,
    /// Idle connections are closed.
    Closing,
}

/// What a worker starts with.
pub struct Seat {
    /// 0 to the number of workers.
    pub index: usize,
    /// First configuration.
    pub live: Arc<Live>,
    /// Shared counters.
    pub shared: Arc<Shared>,
    /// Where commands come from.
    pub commands: mpsc::UnboundedReceiver<Command>,
    /// All workers' command channels, for `dispatch`.
    pub peers: Vec<mpsc::UnboundedSender<Command>>,
    /// How connections reach workers.
    pub accept: AcceptMode,
}

impl Worker {
    fn new(seat: &Seat) -> Rc<Self> {
        let worker = Rc::new(Self {
            index: seat.index,
            meter: RefCell::new(Meter::new(MeterNames {
                worker: seat.index,
                ..MeterNames::default()
            })),
            roster: Roster::default(),
            buffers: Buffers::new(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            stage: Cell::new(Stage::Serving),
            pool: Pool::new(),
            stage_changed: Notify::new(),
            live: RefCell::new(Rc::new(WorkerLive {
                live: Arc::clone(&seat.live),
                sites: Vec::new(),
                places: Places::default(),
            })),
            journal: RefCell::new(None),
            shared: Arc::clone(&seat.shared),
            room: Notify::new(),
            started: Instant::now(),
            acceptors: RefCell::new(Vec::new()),
            peers: seat.peers.clone(),
            accept: seat.accept,
            next_peer: Cell::new(0),
            dice: RefCell::new(fastrand::Rng::new()),
        });
        worker.adopt(&seat.live);
        worker
    }

    /// Waits until connections of this protocol are to end.
    ///
    /// HTTP/2 says GOAWAY as soon as the drain begins, and no request is lost by it. A kept HTTP/1.1
    /// connection may have its next request on the way: it is told with that response, and closed
    /// without one only after the grace.
    pub(crate) async fn ending(&self, protocol: Protocol) {
        let reached = || match protocol {
            Protocol::Http1 => self.stage.get() == Stage::Closing,
            Protocol::Http2 => self.stage.get() != Stage::Serving,
        };
        loop {
            let changed = self.stage_changed.notified();
            if reached() {
                return;
            }
            changed.await;
        }
    }

    /// Whether this worker is on its way out.
    pub(crate) fn is_draining(&self) -> bool {
        self.stage.get() != Stage::Serving
    }

    fn enter(&self, stage: Stage) {
        self.stage.set(stage);
        self.stage_changed.notify_waiters();
    }

    pub(crate) fn has_log(&self) -> bool {
        self.journal.borrow().is_some()
    }

    pub(crate) fn live(&self) -> Rc<WorkerLive> {
        Rc::clone(&self.live.borrow())
    }

    pub(crate) fn wall_clock_millis(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    /// Whether a line is written at all: there is a log, and it is sampled in or about an error.
    pub(crate) fn wants_line(&self, sample: f64, is_error: bool) -> bool {
        self.journal.borrow().is_some()
            && (is_error || sample >= 1.0 || self.dice.borrow_mut().f64() < sample)
    }

    pub(crate) fn write_line(&self, line: Line) {
        if let Some(journal) = &*self.journal.borrow() {
            journal.write(line);
        }
    }

    /// Strikes a connection off; there may be room for another now.
    pub(crate) fn left(&self, entry: &Entry, admission: Admission) {
        self.roster.leave(entry);
        if let Admission::Counted(client) = admission {
            self.shared.leave(client);
        }
        self.room.notify_one();
    }

    fn adopt(&self, live: &Arc<Live>) {
        let old = self.live();
        let sites = live
            .sites
            .iter()
            .map(|site| {
                let before = old
                    .sites
                    .iter()
                    .find(|before| before.site.label == site.label);
                Rc::new(WorkerSite::new(site, before.map(|before| &**before)))
            })
            .collect();
        let places = self
            .meter
            .borrow_mut()
            .rename(&meter_names(live, self.index));
        *self.live.borrow_mut() = Rc::new(WorkerLive {
            live: Arc::clone(live),
            sites,
            places,
        });
    }

    fn listener_number(&self, address: &ListenAddress) -> Option<usize> {
        let name = crate::listen::address_name(address);
        self.live
            .borrow()
            .live
            .listeners
            .iter()
            .position(|listener| *listener.label == *name)
    }

    fn listen(
        self: &Rc<Self>,
        address: ListenAddress,
        listening: Listening,
    ) -> std::io::Result<()> {
        let worker = Rc::clone(self);
        let place = address.clone();
        let task = match listening {
            Listening::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                spawn_local(async move {
                    worker
                        .accept_all(&place, async || {
                            listener
                                .accept()
                                .await
                                .map(|(stream, _)| Wire::from(stream))
                        })
                        .await;
                })
            }
            Listening::Unix(listener) => {
                let listener = UnixListener::from_std(listener)?;
                spawn_local(async move {
                    worker
                        .accept_all(&place, async || {
                            listener
                                .accept()
                                .await
                                .map(|(stream, _)| Wire::from(stream))
                        })
                        .await;
                })
            }
        };
        self.acceptors
            .borrow_mut()
            .push((address, task.abort_handle()));
        Ok(())
    }

    async fn accept_all(
        self: &Rc<Self>,
        address: &ListenAddress,
        accept: impl AsyncFn() -> std::io::Result<Wire>,
    ) {
        loop {
            self.wait_for_room().await;
            match accept().await {
                Ok(wire) => self.deal(address, wire),
                Err(error) if is_out_of_descriptors(&error) => {
                    self.shared.rests.fetch_add(1, Ordering::Relaxed);
                    // Whatever closes first makes room; the clock is for descriptors that others held.
                    let _ = tokio::time::timeout(REST, self.room.notified()).await;
                }
                // The client was gone before it was accepted.
                Err(_) => {}
            }
        }
    }

    async fn wait_for_room(&self) {
        while self.roster.open() >= self.shared.connections_per_worker.load(Ordering::Relaxed) {
            self.room.notified().await;
        }
    }

    /// Serves a connection here, or hands it to the worker whose turn it is.
    fn deal(self: &Rc<Self>, address: &ListenAddress, wire: Wire) {
        if self.accept == AcceptMode::ReusePort || self.peers.len() < 2 {
            self.admit(address, wire);
            return;
        }
        let turn = self.next_peer.get();
        self.next_peer.set((turn + 1) % self.peers.len());
        if turn == self.index {
            self.admit(address, wire);
        } else if let Ok(accepted) = wire.into_accepted() {
            // A worker that is gone drops the connection with the command.
            let _ = self.peers[turn].send(Command::Accepted(address.clone(), accepted));
        }
    }

    fn admit(self: &Rc<Self>, address: &ListenAddress, wire: Wire) {
        let Some(listener) = self.listener_number(address) else {
            return;
        };
        let limits = self.live.borrow().live.limits;
        let (peer, local) = (wire.peer(), wire.local());
        let place = self.live.borrow().places.listeners[listener];
        let mut meter = self.meter.borrow_mut();
        meter.accepted(place);
        if self.roster.handshakes() >= limits.handshakes {
            meter.refused(place, "too_many_handshakes");
            return;
        }
        let admission = self
            .shared
            .admit(peer.map(|peer| peer.ip()), limits.connections_per_client);
        if admission == Admission::TooMany {
            meter.refused(place, "too_many_from_client");
            return;
        }
        meter.opened(place, "handshake");
        drop(meter);
        wire.set_nodelay();
        let entry = self.roster.join();
        let connection =
            Connection::new(self, Rc::clone(&entry), listener, (peer, local), admission);
        let task = spawn_local(trip::run(connection, wire));
        self.roster.assign(&entry, task.abort_handle());
    }

    fn obey(self: &Rc<Self>, command: Command) -> bool {
        match command {
            Command::Reload(live) => self.adopt(&live),
            Command::Listen(address, listening) => {
                if self.listen(address.clone(), listening).is_err() {
                    self.shared.rests.fetch_add(1, Ordering::Relaxed);
                }
            }
            Command::Unlisten(address) => self.unlisten(|place| *place == address),
            Command::Accepted(address, accepted) => {
                if let Ok(wire) = Wire::try_from(accepted) {
                    self.admit(&address, wire);
                }
            }
            Command::Log(journal) => *self.journal.borrow_mut() = journal,
            Command::Checked(site, backend, up) => self.checked(&site, &backend, up),
            // A parent that no longer waits for the report has no use for it.
            Command::Report(reply) => drop(reply.send(self.report())),
            Command::Drain(grace) => {
                self.unlisten(|_| true);
                self.enter(Stage::Draining);
                let worker = Rc::clone(self);
                spawn_local(async move {
                    tokio::time::sleep(grace).await;
                    worker.enter(Stage::Closing);
                    worker.roster.end_idle();
                });
            }
            Command::Finish => {
                self.roster.end_all();
                return false;
            }
        }
        true
    }

    fn unlisten(&self, leaves: impl Fn(&ListenAddress) -> bool) {
        self.acceptors.borrow_mut().retain(|(address, task)| {
            let leave = leaves(address);
            if leave {
                task.abort();
            }
            !leave
        });
    }

    fn checked(&self, site: &str, backend: &str, up: bool) {
        for known in &self.live.borrow().sites {
            if *known.site.label == *site {
                let number = known
                    .site
                    .backends
                    .iter()
                    .position(|known| *known.label == *backend);
                if let Some(number) = number {
                    known.balancer.borrow_mut().set_checked(number, up);
                }
            }
        }
    }

    fn report(&self) -> Report {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let live = self.live.borrow();
        let backends = live.sites.iter().map(|site| {
            let balancer = site.balancer.borrow();
            let states = site
                .site
                .backends
                .iter()
                .enumerate()
                .filter_map(|(number, backend)| {
                    balancer
                        .state(number)
                        .map(|state| (Arc::clone(&backend.label), state))
                });
            (Arc::clone(&site.site.label), states.collect())
        });
        Report {
            worker: self.index,
            snapshot: self.meter.borrow().snapshot(),
            cpu: Duration::new(clock.tv_sec.unsigned_abs(), clock.tv_nsec as u32),
            open: self.roster.open(),
            backends: backends.collect(),
        }
    }
}

impl WorkerSite {
    /// Takes over what active checks found out about backends that are the same as before.
    fn new(site: &Arc<LiveSite>, before: Option<&Self>) -> Self {
        let weights: Vec<Weight> = site
            .backends
            .iter()
            .map(|backend| Weight::new(backend.weight))
            .collect();
        let mut balancer = Balancer::new(
            match site.config.balance {
                tollgate_config::Balance::RoundRobin => Strategy::RoundRobin,
                tollgate_config::Balance::LeastConnections => Strategy::LeastConnections,
            },
            &weights,
            PassiveHealth {
                failures: site.config.passive_health.failures,
                cooldown: site.config.passive_health.cooldown,
            },
        );
        for (number, backend) in site.backends.iter().enumerate() {
            let down = before.is_some_and(|before| before.is_down(&backend.label));
            if down && site.config.health.is_some() {
                balancer.set_checked(number, false);
            }
        }
        Self {
            site: Arc::clone(site),
            balancer: RefCell::new(balancer),
        }
    }

    fn is_down(&self, label: &str) -> bool {
        let number = self
            .site
            .backends
            .iter()
            .position(|backend| *backend.label == *label);
        number.is_some_and(|number| self.balancer.borrow().state(number) == Some(State::Down))
    }
}

fn meter_names(live: &Live, worker: usize) -> MeterNames {
    MeterNames {
        sites: live
            .sites
            .iter()
            .map(|site| Arc::clone(&site.label))
            .collect(),
        listeners: live
            .listeners
            .iter()
            .map(|listener| Arc::clone(&listener.label))
            .collect(),
        backends: live
            .sites
            .iter()
            .map(|site| {
                site.backends
                    .iter()
                    .map(|backend| Arc::clone(&backend.label))
                    .collect()
            })
            .collect(),
        worker,
    }
}

/// Serves until told to finish; the body of a worker's thread.
///
/// # Errors
/// When the runtime of this thread cannot be made.
pub fn run(mut seat: Seat) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async move {
        let worker = Worker::new(&seat);
        let sweeper = spawn_local(sweep(Rc::clone(&worker)));
        while let Some(command) = seat.commands.recv().await {
            if !worker.obey(command) {
                break;
            }
        }
        sweeper.abort();
        // Ended tasks drop their connections, and with that account for them, before the thread ends.
        tokio::task::yield_now().await;
    });
    Ok(())
}

async fn sweep(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = worker.started.elapsed().as_millis() as u32;
        let timeouts = worker.live.borrow().live.timeouts;
        worker.roster.sweep(now, &timeouts);
        worker.pool.sweep(POOL_SWEEPS);
        if worker.stage.get() == Stage::Closing {
            worker.roster.end_idle();
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerLive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLive")
            .field("hash", &self.live.hash)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSite")
            .field("site", &self.site.label)
            .finish_non_exhaustive()
    }
}
