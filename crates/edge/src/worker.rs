//! A worker: one thread, one runtime, its own listening sockets, buffers, pools and counters.
//!
//! Nothing on the data path is shared with another worker. The parent speaks to it through commands.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tollgate_balance::{Balancer, PassiveHealth, State, Strategy, Weight};
use tollgate_config::{AcceptMode, ListenAddress};
use tollgate_http::{Pool, Protocol};
use tollgate_journal::{Entry as Line, Journal};
use tollgate_meter::{Meter, MeterNames, Places};
use tollgate_terms::CpuTime;
use tollgate_tls::Buffers;

use crate::accept::Accepted;
use crate::gateway::POOL_SWEEPS;
use crate::ledger::{self, Ledger, ThreadHeap};
use crate::listen::Listening;
use crate::live::{Live, LiveSite};
use crate::roster::Roster;
use crate::shared::Shared;

/// How often the roster is swept; also the precision of every client timeout.
const SWEEP: Duration = Duration::from_millis(250);

/// How many sweeps it is from one settling of the ledger to the next.
const SETTLE_SWEEPS: u32 = 2;

/// Bytes read from a backend at a time (32 KB reads are the measured optimum of the design).
const SCRATCH_BYTES: usize = 32 * 1024;

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

/// Label of a site, and state of each of its backends by label.
pub type SiteStates = (Arc<str>, Vec<(Arc<str>, State)>);

/// What a worker has counted so far.
#[derive(Debug)]
pub struct Report {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// Counters and histograms. What is made of them is made by whoever asked, away from the data path.
    pub meter: Meter,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
    /// Connections open now.
    pub open: usize,
    /// State of each backend, per site, as this worker sees it.
    pub backends: Vec<SiteStates>,
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
    /// Which backend takes the next; the one of before a reload when the backends are the same.
    pub balancer: Rc<RefCell<Balancer>>,
}

/// The state of one worker.
pub struct Worker {
    /// 0 to the number of workers.
    pub index: usize,
    pub(crate) meter: RefCell<Meter>,
    pub(crate) roster: Roster,
    pub(crate) buffers: Buffers,
    pub(crate) ledger: Ledger,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    stage: Cell<Stage>,
    /// Idle connections to backends; a reload keeps those whose backend stays the same.
    pub(crate) pool: Rc<Pool>,
    stage_changed: Notify,
    pub(crate) live: RefCell<Rc<WorkerLive>>,
    journal: RefCell<Option<Journal>>,
    pub(crate) shared: Arc<Shared>,
    /// Told whenever a connection ends, or more of them are allowed.
    pub(crate) room: Notify,
    started: Instant,
    pub(crate) acceptors: RefCell<Vec<(ListenAddress, AbortHandle)>>,
    pub(crate) peers: Vec<mpsc::UnboundedSender<Command>>,
    pub(crate) accept: AcceptMode,
    pub(crate) next_peer: Cell<usize>,
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
    /// What tells how many bytes a thread holds.
    pub heap: Option<ThreadHeap>,
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
            ledger: Ledger::new(seat.heap),
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
        self.ledger.switch(live.ledger, &self.buffers);
    }

    fn obey(self: &Rc<Self>, command: Command) -> bool {
        match command {
            Command::Reload(live) => {
                self.adopt(&live);
                self.room.notify_waiters();
            }
            Command::Listen(address, listening) => {
                if self.listen(address.clone(), listening).is_err() {
                    self.shared.rests.fetch_add(1, Ordering::Relaxed);
                }
            }
            Command::Unlisten(address) => self.unlisten(|place| *place == address),
            Command::Accepted(address, accepted) => {
                self.take_over(&address, accepted);
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

    /// Brings the ledger up to date. Returns the thread's CPU time.
    fn settle(&self) -> CpuTime {
        let cpu = ledger::thread_cpu();
        let mut meter = self.meter.borrow_mut();
        self.ledger.settle(cpu, &self.buffers, &mut meter);
        cpu
    }

    fn report(&self) -> Report {
        let cpu = self.settle();
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
            meter: self.meter.borrow().clone(),
            cpu: Duration::from_nanos(cpu.0),
            open: self.roster.open(),
            backends: backends.collect(),
        }
    }
}

impl WorkerSite {
    /// Keeps the balancer of before where nothing about it has changed: what is open where, and what
    /// live traffic has shown. Else what it has shown of backends that stay is taken over.
    pub(crate) fn new(site: &Arc<LiveSite>, before: Option<&Self>) -> Self {
        let balancer = match before {
            Some(before) if before.balances_like(site) => Rc::clone(&before.balancer),
            before => Rc::new(RefCell::new(balancer(site, before))),
        };
        for (number, backend) in site.backends.iter().enumerate() {
            let up = backend.checked_up.load(Ordering::Relaxed);
            let mut balancer = balancer.borrow_mut();
            if up == (balancer.state(number) == Some(State::Down)) {
                balancer.set_checked(number, up);
            }
        }
        Self {
            site: Arc::clone(site),
            balancer,
        }
    }

    fn balances_like(&self, site: &LiveSite) -> bool {
        let backends = |site: &LiveSite| -> Vec<(Arc<str>, u32)> {
            let backends = site.backends.iter();
            backends
                .map(|backend| (Arc::clone(&backend.label), backend.weight))
                .collect()
        };
        self.site.config.balance == site.config.balance
            && self.site.config.passive_health == site.config.passive_health
            && backends(&self.site) == backends(site)
    }
}

fn balancer(site: &LiveSite, before: Option<&WorkerSite>) -> Balancer {
    let weights: Vec<Weight> = site
        .backends
        .iter()
        .map(|backend| Weight::new(backend.weight))
        .collect();
    let strategy = match site.config.balance {
        tollgate_config::Balance::RoundRobin => Strategy::RoundRobin,
        tollgate_config::Balance::LeastConnections => Strategy::LeastConnections,
    };
    let passive = PassiveHealth {
        failures: site.config.passive_health.failures,
        cooldown: site.config.passive_health.cooldown,
    };
    let mut balancer = Balancer::new(strategy, &weights, passive);
    let Some(before) = before else {
        return balancer;
    };
    for (number, backend) in site.backends.iter().enumerate() {
        let mut known = before.site.backends.iter();
        if let Some(there) = known.position(|known| known.label == backend.label) {
            balancer.inherit(number, &before.balancer.borrow(), there);
        }
    }
    balancer
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
        .on_thread_park(ledger::parks)
        .on_thread_unpark(ledger::wakes)
        .build()?;
    ledger::wakes();
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
    for turn in 0_u32.. {
        ticks.tick().await;
        if turn.is_multiple_of(SETTLE_SWEEPS) {
            worker.settle();
        }
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
