//! A load run from beginning to end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, sleep_until, timeout};
use tollgate_tls::client::{ClientOffer, Intent};
use tollgate_tls::{BackendTlsPolicy, ClientSite, MaterialError};

use crate::connection::{Connection, Scratch, Trouble, scratch};
use crate::options::{LoadOptions, Mode};
use crate::result::{LoadResult, ServerCost};
use crate::tally::Tally;
use crate::watch::{Cpu, Watched};

const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How far the share of resumed handshakes may stay below what was asked for.
pub(crate) const HIT_RATE_TOLERANCE: f64 = 0.02;

/// How long connections are held before memory is taken: a server may need a moment to give buffers back.
const SETTLE: Duration = Duration::from_secs(2);

/// Why a run could not be made. What goes wrong during a run is in its result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target is not `HOST:PORT`.
    #[error("{0:?} is not HOST:PORT; write shop.example:443 or [::1]:8443")]
    Target(String),
    /// The host has no address.
    #[error("no address for {host} ({reason}); check the name")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// A share outside 0 to 1.
    #[error("a hit rate of {0} is not possible; give a share from 0 to 1, such as 0.9")]
    HitRate(f64),
    /// HTTP/2 would be agreed, which a load run does not speak.
    #[error("a load run speaks HTTP/1.1 only; leave {0:?} out of the application protocols")]
    Alpn(String),
    /// No connection is allowed.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// A watched process is not there.
    #[error(
        "no process {0} to watch; give the id of one that runs, such as --watch $(pidof -s nginx)"
    )]
    Watch(u32),
    /// The file of roots cannot be read.
    #[error(
        "cannot read trusted roots from {path} ({reason}); name a PEM file with --ca, or check nothing with --insecure"
    )]
    Roots {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// What the client shall offer makes no sense.
    #[error(transparent)]
    Offer(#[from] MaterialError),
    /// The core cannot be had.
    #[error(
        "cannot keep to core {core} ({reason}); `nproc` says how many there are, counted from 0"
    )]
    Pin {
        /// The core.
        core: usize,
        /// The system's words.
        reason: String,
    },
    /// The very first operation failed.
    #[error("{target} does not answer: {reason}")]
    Unreachable {
        /// `HOST:PORT`.
        target: String,
        /// What happened.
        reason: String,
    },
}

/// What all connections of a run share.
struct Run {
    options: LoadOptions,
    address: SocketAddr,
    site: ClientSite,
    request: Vec<u8>,
    scratch: Scratch,
    tally: RefCell<Tally>,
    over: Cell<bool>,
    /// Resumptions owed: grows by the hit rate with each handshake, falls by one with each resumption.
    owed: Cell<f64>,
}

/// Drives the server as `options` say. Runs on the calling thread's runtime, which must be a
/// `current_thread` one with time and I/O enabled.
///
/// # Errors
/// When the run cannot begin.
pub async fn run(options: LoadOptions) -> Result<LoadResult, LoadError> {
    let run = Rc::new(Run::prepare(options).await?);
    LocalSet::new()
        .run_until(async move {
            run.try_once().await?;
            let cost = match run.options.mode {
                Mode::Hold => run.hold().await,
                Mode::Tps | Mode::Requests | Mode::Download => run.drive().await,
            };
            Ok(run.report(cost))
        })
        .await
}

/// What a window took, on both sides.
struct Cost {
    elapsed: Duration,
    server: Cpu,
    client: Cpu,
    memory_before: u64,
    memory_after: u64,
    held: Option<u64>,
}

impl Run {
    async fn prepare(options: LoadOptions) -> Result<Self, LoadError> {
        check(&options)?;
        if let Some(core) = options.pin {
            pin(core)?;
        }
        let (host, port) = options
            .host_and_port()
            .ok_or_else(|| LoadError::Target(options.target.clone()))?;
        let address = resolve(host, port).await?;
        let name = options
            .server_name
            .clone()
            .unwrap_or_else(|| host.to_owned());
        let site = ClientSite::offering(offer(&options, &name)?)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: tollgate\r\nAccept: */*\r\n\r\n",
            options.path
        );
        Ok(Self {
            address,
            site,
            request: request.into_bytes(),
            scratch: scratch(),
            tally: RefCell::new(Tally::new()),
            over: Cell::new(false),
            owed: Cell::new(0.0),
            options,
        })
    }

    /// One operation before the run: a server that is not there is a clear error, not a page of failures.
    async fn try_once(&self) -> Result<(), LoadError> {
        let unreachable = |trouble: Trouble| LoadError::Unreachable {
            target: self.options.target.clone(),
            reason: trouble.to_string(),
        };
        let mut connection = self.open(Intent::Full).await.map_err(unreachable)?;
        if self.options.mode != Mode::Download {
            self.ask(&mut connection).await.map_err(unreachable)?;
        }
        connection.close().await;
        Ok(())
    }

    /// Whether the next handshake shall resume, so that the share comes out as asked.
    fn intent(&self) -> Intent {
        let owed = self.owed.get() + self.options.hit_rate;
        if owed >= 1.0 - 1e-9 {
            self.owed.set(owed - 1.0);
            Intent::Resume
        } else {
            self.owed.set(owed);
            Intent::Full
        }
    }

    async fn open(&self, intent: Intent) -> Result<Connection, Trouble> {
        let began = Instant::now();
        let opening = Connection::open(self.address, &self.site, intent, &self.scratch);
        let (connection, facts) = within(self.options.timeout, opening).await?;
        self.tally.borrow_mut().handshake(&facts, began.elapsed());
        Ok(connection)
    }

    async fn ask(&self, connection: &mut Connection) -> Result<(), Trouble> {
        let exchange = connection.exchange(&self.request, |body| {
            self.tally.borrow_mut().body(body);
        });
        match self.options.mode {
            // A large body takes as long as it takes.
            Mode::Download => exchange.await,
            Mode::Tps | Mode::Requests | Mode::Hold => within(self.options.timeout, exchange).await,
        }
    }

    /// Connection, handshake, request, response, close.
    async fn transaction(&self) {
        let began = Instant::now();
        let done = async {
            let mut connection = self.open(self.intent()).await?;
            self.ask(&mut connection).await?;
            connection.close().await;
            Ok(())
        };
        let done = done.await;
        self.tally.borrow_mut().operation(&done, began.elapsed());
        if done.is_err() {
            // A server that refuses at once must not be hammered.
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Requests on one connection, on a new one whenever that fails.
    async fn keep_asking(&self) {
        while !self.over.get() {
            let mut connection = match self.open(self.intent()).await {
                Ok(connection) => connection,
                Err(trouble) => {
                    self.tally
                        .borrow_mut()
                        .operation(&Err(trouble), Duration::ZERO);
                    sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            while !self.over.get() {
                let began = Instant::now();
                let done = self.ask(&mut connection).await;
                self.tally.borrow_mut().operation(&done, began.elapsed());
                if done.is_err() {
                    break;
                }
            }
        }
    }

    /// Starts transactions at their times, whatever became of earlier ones.
    async fn keep_starting(self: Rc<Self>, rate: f64) {
        let began = tokio::time::Instant::now();
        let mut running = JoinSet::new();
        let mut started = 0_u64;
        while !self.over.get() {
            sleep_until(began + Duration::from_secs_f64(started as f64 / rate)).await;
            started += 1;
            while running.try_join_next().is_some() {}
            if running.len() >= self.options.connections {
                self.tally.borrow_mut().not_started();
                continue;
            }
            let run = Rc::clone(&self);
            running.spawn_local(async move { run.transaction().await });
        }
    }

    fn start(self: &Rc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let (Mode::Tps, Some(rate)) = (self.options.mode, self.options.rate) {
            tasks.spawn_local(Rc::clone(self).keep_starting(rate));
            return tasks;
        }
        for _ in 0..self.options.connections {
            let run = Rc::clone(self);
            tasks.spawn_local(async move {
                match run.options.mode {
                    Mode::Tps => {
                        while !run.over.get() {
                            run.transaction().await;
                        }
                    }
                    Mode::Requests | Mode::Download | Mode::Hold => run.keep_asking().await,
                }
            });
        }
        tasks
    }

    /// Closed or open loop: warm-up, then the measured window.
    async fn drive(self: &Rc<Self>) -> Cost {
        let server = Watched::new(&self.options.watch);
        let client = Watched::new(&[std::process::id()]);
        let memory_before = server.memory_bytes();
        let mut tasks = self.start();
        sleep(self.options.warm_up).await;
        let (server_before, client_before) = (server.cpu(), client.cpu_alone());
        // Connections that stay open have shaken hands in the warm-up: those count.
        self.tally
            .borrow_mut()
            .begin(self.options.mode == Mode::Tps);
        let began = Instant::now();
        sleep(self.options.duration).await;
        self.tally.borrow_mut().end();
        let elapsed = began.elapsed();
        let cost = Cost {
            elapsed,
            server: server.cpu().since(server_before),
            client: client.cpu_alone().since(client_before),
            memory_before,
            memory_after: server.memory_bytes(),
            held: None,
        };
        self.over.set(true);
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        cost
    }

    /// Opens `count` connections, uses each once, and looks at the server's memory while they idle.
    async fn hold(self: &Rc<Self>) -> Cost {
        let server = Watched::new(&self.options.watch);
        let client = Watched::new(&[std::process::id()]);
        // The server's own buffers and tables are not the connections' cost.
        drop(self.open_many(self.options.connections * 4).await);
        sleep(SETTLE).await;
        let memory_before = server.memory_bytes();
        let (server_before, client_before) = (server.cpu(), client.cpu_alone());
        self.tally.borrow_mut().begin(true);
        let began = Instant::now();
        let mut held = self.open_many(self.options.count).await;
        let elapsed = began.elapsed();
        let (server_cpu, client_cpu) = (server.cpu(), client.cpu_alone());
        sleep(SETTLE).await;
        let memory_after = server.memory_bytes();
        let open = held
            .iter_mut()
            .filter_map(|one| one.is_open().then_some(()))
            .count();
        for _ in open..held.len() {
            self.tally
                .borrow_mut()
                .operation(&Err(Trouble::Closed), Duration::ZERO);
        }
        self.tally.borrow_mut().end();
        Cost {
            elapsed,
            server: server_cpu.since(server_before),
            client: client_cpu.since(client_before),
            memory_before,
            memory_after,
            held: Some(open as u64),
        }
    }

    async fn open_many(self: &Rc<Self>, count: usize) -> Vec<Connection> {
        let mut tasks = JoinSet::new();
        let mut opened = Vec::with_capacity(count);
        for _ in 0..count {
            while tasks.len() >= self.options.connections {
                opened.extend(tasks.join_next().await.and_then(Result::ok).flatten());
            }
            let run = Rc::clone(self);
            tasks.spawn_local(async move { run.open_and_use().await });
        }
        while let Some(joined) = tasks.join_next().await {
            opened.extend(joined.ok().flatten());
        }
        opened
    }

    async fn open_and_use(&self) -> Option<Connection> {
        let began = Instant::now();
        let done = async {
            let mut connection = self.open(self.intent()).await?;
            self.ask(&mut connection).await?;
            Ok(connection)
        };
        let (done, connection) = match done.await {
            Ok(connection) => (Ok(()), Some(connection)),
            Err(trouble) => (Err(trouble), None),
        };
        self.tally.borrow_mut().operation(&done, began.elapsed());
        connection
    }

    fn report(&self, cost: Cost) -> LoadResult {
        let tally = self.tally.borrow();
        let seconds = cost.elapsed.as_secs_f64();
        let operations = tally.operations;
        let per_operation = |time: Duration| time.as_secs_f64() * 1e6 / (operations.max(1) as f64);
        let mut missed = tally.missed(&self.options);
        if let (Some(held), count) = (cost.held, self.options.count as u64)
            && held < count
        {
            missed.push(format!("{held} connections of {count} were held"));
        }
        LoadResult {
            mode: self.options.mode.name(),
            target: self.options.target.clone(),
            seconds,
            operations,
            per_second: operations as f64 / seconds.max(1e-9),
            body_bytes: tally.body_bytes,
            failures: tally.failures.clone(),
            handshakes: tally.handshakes.clone(),
            operation_micros: tally.operation_spread(),
            handshake_micros: tally.handshake_spread(),
            server: (!self.options.watch.is_empty()).then(|| ServerCost {
                user_seconds: cost.server.user.as_secs_f64(),
                system_seconds: cost.server.system.as_secs_f64(),
                user_micros_per_operation: per_operation(cost.server.user),
                system_micros_per_operation: per_operation(cost.server.system),
                memory_bytes_before: cost.memory_before,
                memory_bytes_after: cost.memory_after,
                memory_bytes_per_connection: cost.held.filter(|held| *held > 0).map(|held| {
                    (cost.memory_after as f64 - cost.memory_before as f64) / held as f64
                }),
            }),
            client_cpu_seconds: cost.client.total().as_secs_f64(),
            missed,
        }
    }
}

async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    timeout(limit, future)
        .await
        .unwrap_or(Err(Trouble::Timeout))
}

fn check(options: &LoadOptions) -> Result<(), LoadError> {
    if !(0.0..=1.0).contains(&options.hit_rate) {
        return Err(LoadError::HitRate(options.hit_rate));
    }
    if let Some(protocol) = options.alpn.iter().find(|name| name.starts_with("h2")) {
        return Err(LoadError::Alpn(protocol.clone()));
    }
    if options.connections == 0 {
        return Err(LoadError::Zero("the number of connections"));
    }
    if options
        .rate
        .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
    {
        return Err(LoadError::Zero("the rate"));
    }
    match Watched::new(&options.watch).missing() {
        Some(pid) => Err(LoadError::Watch(pid)),
        None => Ok(()),
    }
}

fn pin(core: usize) -> Result<(), LoadError> {
    let failed = |reason: String| LoadError::Pin { core, reason };
    let mut cores = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(failed("there is no such core".into()));
    }
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).map_err(|error| failed(error.to_string()))
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, LoadError> {
    let failed = |reason: String| LoadError::Resolve {
        host: host.to_owned(),
        reason,
    };
    tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| failed(error.to_string()))?
        .next()
        .ok_or_else(|| failed("the name has none".into()))
}

fn offer(options: &LoadOptions, name: &str) -> Result<ClientOffer, LoadError> {
    let ca = match (&options.ca, options.insecure) {
        (_, true) => None,
        (Some(path), false) => Some(path.as_path()),
        (None, false) => Some(SYSTEM_ROOTS.as_ref()),
    };
    let ca = ca
        .map(|path| {
            std::fs::read(path).map_err(|error| LoadError::Roots {
                path: path.display().to_string(),
                reason: error.to_string(),
            })
        })
        .transpose()?;
    Ok(ClientOffer {
        policy: BackendTlsPolicy {
            verify: !options.insecure,
            name: name.to_owned(),
            ca,
            certificate: None,
            alpn: options.alpn.clone(),
        },
        version: options.version,
        suites: options.suite.into_iter().collect(),
        groups: options.group.into_iter().collect(),
        rsa_only: options.rsa_only,
        sessions: (4 * options.connections).max(64),
    })
}
