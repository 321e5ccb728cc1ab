//! Connections that are held, lost and made again all at once: the client side of a storm.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tollgate_tls::ClientSite;
use tollgate_tls::client::Intent;

use super::DrillError;
use crate::load::connection::{Connection, Scratch, scratch};
use crate::load::dial::{Dialer, Nagle};
use crate::load::pin;
use crate::load::plan::Plan;
use crate::load::request::Request;
use crate::load::trouble::Trouble;
use crate::{LoadError, LoadOptions};

/// Connections that are opened at a time before the storm.
const GENTLY: usize = 64;
/// Longest wait for one connection with its answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a connection is tried until it is given up.
const TRIES: u32 = 5;
/// A server that refuses is left alone for so long.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// What came of a storm.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// One for each connection that came back.
    pub(super) back: Vec<Back>,
    /// Tries that failed, by reason.
    pub(super) failures: BTreeMap<String, u64>,
    /// Connections that did not come back at all.
    pub(super) lost: u64,
}

/// A connection that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    /// When its handshake was done, since the begin of the storm.
    pub(super) shaken: Duration,
    /// When it had its answer.
    pub(super) answered: Duration,
    pub(super) resumed: bool,
}

/// The client side on a thread of its own.
pub(super) struct Crowd {
    held: mpsc::Receiver<usize>,
    storm: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<Weather, DrillError>>>,
}

impl Crowd {
    /// Opens `count` connections as `options` say, uses each once and holds it.
    pub(super) fn gather(options: LoadOptions, count: usize) -> Result<Self, DrillError> {
        let (told, held) = mpsc::channel();
        let (storm, begins) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("drill-crowd".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(LoadError::Thread)?;
                let local = LocalSet::new();
                runtime.block_on(local.run_until(conduct(options, count, told, begins)))
            })
            .map_err(LoadError::Thread)?;
        Ok(Self {
            held,
            storm: Some(storm),
            thread: Some(thread),
        })
    }

    /// How many are held by now; `None` once all are, or none will be any more.
    pub(super) fn held(&self) -> Option<usize> {
        let mut last = None;
        loop {
            match self.held.try_recv() {
                Ok(count) => last = Some(count),
                Err(mpsc::TryRecvError::Empty) => return Some(last.unwrap_or(0)),
                Err(mpsc::TryRecvError::Disconnected) => return None,
            }
        }
    }

    /// Loses all connections and makes them again at once.
    pub(super) fn storm(&mut self) {
        if let Some(storm) = self.storm.take() {
            // A crowd that could not gather says why at the end.
            let _ = storm.send(());
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What came of it.
    pub(super) fn end(&mut self) -> Result<Weather, DrillError> {
        // Without a storm it goes home.
        self.storm = None;
        let thread = self.thread.take().ok_or(DrillError::LoadEnded)?;
        thread.join().map_err(|_| DrillError::LoadEnded)?
    }
}

/// What every connection needs.
struct Meeting {
    dialer: Dialer,
    site: ClientSite,
    request: Request,
    scratch: Scratch,
}

async fn conduct(
    mut options: LoadOptions,
    count: usize,
    told: mpsc::Sender<usize>,
    storm: oneshot::Receiver<()>,
) -> Result<Weather, DrillError> {
    // Each connection has its ticket; the plan raises the limit of open files for all of them.
    options.tickets_per_name = Some(count);
    options.count = 2 * count;
    let (share, core, target) = (options.hit_rate, options.pin, options.target.clone());
    let plan = Plan::new(options).await?;
    if let Some(core) = core {
        pin(core)?;
    }
    let (name, part) = (&plan.names[0], &plan.parts[0]);
    let meeting = Rc::new(Meeting {
        // Those that are lost end by a reset.
        dialer: Dialer::new(plan.address, &[], 0, true, Nagle::Off),
        site: plan.site(name, part)?,
        request: plan.request(part, name)?,
        scratch: scratch(),
    });
    let held = gather(&meeting, count, &target, &told).await?;
    drop(told);
    if storm.await.is_err() {
        return Ok(Weather::default());
    }
    // All at once: nobody says goodbye.
    drop(held);
    Ok(come_back(&meeting, count, share).await)
}

/// Opens all connections, a few at a time.
async fn gather(
    meeting: &Rc<Meeting>,
    count: usize,
    target: &str,
    told: &mpsc::Sender<usize>,
) -> Result<Vec<Connection>, DrillError> {
    let gently = Rc::new(Semaphore::new(GENTLY));
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (meeting, gently) = (Rc::clone(meeting), Rc::clone(&gently));
        tasks.spawn_local(async move {
            // It is never closed.
            let _turn = gently.acquire().await;
            meeting.connect(Intent::Full, Instant::now()).await
        });
    }
    let mut held = Vec::with_capacity(count);
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(Ok((connection, _))) => held.push(connection),
            Ok(Err(trouble)) => {
                return Err(DrillError::Load(LoadError::Unreachable {
                    target: target.to_owned(),
                    reason: format!("after {} connections: {trouble}", held.len()),
                }));
            }
            Err(_) => return Err(DrillError::LoadEnded),
        }
        // A drill that was given up does not count any more.
        let _ = told.send(held.len());
    }
    Ok(held)
}

/// Makes all connections at once; a share of them with a ticket.
async fn come_back(meeting: &Rc<Meeting>, count: usize, share: f64) -> Weather {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let meeting = Rc::clone(meeting);
        // Even over the crowd: the share of hits grows by one whenever it may.
        let hits = |number: usize| (number as f64 * share + 1e-9) as usize;
        let intent = match hits(number + 1) > hits(number) {
            true => Intent::Resume,
            false => Intent::Full,
        };
        tasks.spawn_local(async move { meeting.insist(intent, began).await });
    }
    let mut weather = Weather::default();
    // They stay until all are back.
    let mut here = Vec::with_capacity(count);
    while let Some(done) = tasks.join_next().await {
        let Ok((outcome, failures)) = done else {
            weather.lost += 1;
            continue;
        };
        for reason in failures {
            *weather.failures.entry(reason).or_default() += 1;
        }
        match outcome {
            Some((connection, back)) => {
                here.push(connection);
                weather.back.push(back);
            }
            None => weather.lost += 1,
        }
    }
    weather
}

impl Meeting {
    /// A connection with a handshake, a request and its answer.
    async fn connect(&self, intent: Intent, began: Instant) -> Result<(Connection, Back), Trouble> {
        let connecting = async {
            let opened =
                Connection::open(&self.dialer, &self.site, intent, None, &self.scratch).await?;
            let shaken = began.elapsed();
            let mut connection = opened.connection;
            connection.exchange(&self.request, |_| {}).await?;
            let back = Back {
                shaken,
                answered: began.elapsed(),
                resumed: opened.facts.kind.is_resumed(),
            };
            Ok((connection, back))
        };
        timeout(PATIENCE, connecting)
            .await
            .map_err(|_| Trouble::Timeout)?
    }

    /// The same, tried again a few times; with the reasons of what failed.
    async fn insist(
        &self,
        intent: Intent,
        began: Instant,
    ) -> (Option<(Connection, Back)>, Vec<String>) {
        let mut failures = Vec::new();
        for _ in 0..TRIES {
            match self.connect(intent, began).await {
                Ok(back) => return (Some(back), failures),
                Err(trouble) => failures.push(trouble.to_string()),
            }
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        (None, failures)
    }
}
