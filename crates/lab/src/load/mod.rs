//! A load run from beginning to end.
//!
//! One thread conducts: it tells the others when the measured window begins and ends, and adds up what
//! they have counted. Each thread has a lane for each part of the run, and a lane has its connections.

pub(crate) mod connection;
mod console;
mod control;
pub(crate) mod dial;
mod error;
mod http2;
mod lane;
mod options;
mod pace;
pub(crate) mod plan;
mod report;
pub(crate) mod request;
mod response;
mod result;
mod share;
mod source;
mod tally;
mod text;
pub(crate) mod trouble;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{sleep, sleep_until};

use crate::watch::{Cpu, Watched};
use console::Console;
use control::{Control, SharedTally, Stage, counting};
use lane::{Lane, Place};
pub(crate) use plan::pin;
use plan::{Plan, check};
use report::{Measurement, moment};
use tally::{Counts, Pair, Tally};

pub use error::LoadError;
pub(crate) use options::split as host_and_port;
pub use options::{LoadOptions, MixPart, Mode};
pub use result::{
    Additive, Bar, EarlyDataCount, Ending, HandshakeCount, Handshakes, LoadResult, Moment,
    PartResult, ServerCost, ServerHandshakes, Spread,
};
pub use source::read_sources;
pub use text::Look;

/// How long a server may take to give buffers back before its memory is looked at.
const SETTLE: Duration = Duration::from_secs(2);

/// What a run tells while it is on.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Load without counting, for so long.
    WarmUp(Duration),
    /// A part of a mix is measured alone.
    Alone(&'static str),
    /// The measured window begins.
    Begins,
    /// One piece of the window is over.
    Piece(Moment),
    /// Connections are held without a byte, for so long.
    Holds(Duration),
    /// The window is over.
    Ends,
}

/// Drives the server as `options` say. Runs on the calling thread's runtime, which must be a
/// `current_thread` one with time and I/O enabled.
///
/// # Errors
/// When the run cannot begin.
pub async fn run(options: LoadOptions) -> Result<LoadResult, LoadError> {
    run_watched(options, pending(), &mut |_| {}).await
}

/// As [`run`]; tells `seen` what goes on, and ends early with what it has once `stop` is ready.
///
/// # Errors
/// As [`run`].
pub async fn run_watched(
    options: LoadOptions,
    stop: impl Future<Output = ()>,
    seen: &mut dyn FnMut(Seen),
) -> Result<LoadResult, LoadError> {
    check(&options)?;
    let mut stop = std::pin::pin!(stop);
    let mut stopped = false;
    let mut alone = Vec::new();
    if options.apart {
        for part in options.parts() {
            let mut single = options.clone();
            seen(Seen::Alone(part.mode.name()));
            single.mix = vec![part];
            single.apart = false;
            let result = conduct(single, stop.as_mut(), &mut stopped, &mut |_| {}).await?;
            alone.push(cores(&result));
            if stopped {
                return Ok(result);
            }
        }
    }
    let mut result = conduct(options, stop, &mut stopped, seen).await?;
    if !alone.is_empty() {
        result.additive = Some(Additive::of(alone, cores(&result)));
    }
    Ok(result)
}

fn cores(result: &LoadResult) -> f64 {
    let cost = result.server.as_ref();
    cost.map_or(0.0, |cost| cost.user_seconds + cost.system_seconds) / result.seconds.max(1e-9)
}

async fn conduct(
    options: LoadOptions,
    stop: Pin<&mut impl Future<Output = ()>>,
    stopped: &mut bool,
    seen: &mut dyn FnMut(Seen),
) -> Result<LoadResult, LoadError> {
    let plan = Arc::new(Plan::new(options).await?);
    if let Some(core) = plan.options.pin {
        pin(core)?;
    }
    let conductor = Conductor::new(plan);
    let run = conductor.conduct(stop, stopped, seen);
    LocalSet::new().run_until(run).await
}

/// The one who says when.
struct Conductor {
    plan: Arc<Plan>,
    control: Arc<Control>,
    /// By part, then by thread.
    tallies: Vec<Vec<SharedTally>>,
    console: Option<Console>,
    server: Watched,
}

/// What both sides have used so far.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    server: Cpu,
    client: Duration,
}

impl Conductor {
    fn new(plan: Arc<Plan>) -> Self {
        let options = &plan.options;
        let tally = || {
            let tally = Tally::new(options.hit_rate, options.early_data_rate)
                .hits_over(options.hit_rate_over);
            Arc::new(Mutex::new(tally))
        };
        let threads = || (0..options.threads).map(|_| tally()).collect();
        Self {
            control: Control::new(options.operations),
            tallies: plan.parts.iter().map(|_| threads()).collect(),
            console: options.console.as_deref().map(Console::new),
            server: Watched::new(&options.watch),
            plan,
        }
    }

    async fn conduct(
        self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        stopped: &mut bool,
        seen: &mut dyn FnMut(Seen),
    ) -> Result<LoadResult, LoadError> {
        let counted_before = self.counted().await?;
        let tried = self.try_once().await?;
        let mut memory_before = self.server.memory_bytes();
        let workers = self.start()?;
        seen(Seen::WarmUp(self.plan.options.warm_up));
        tokio::select! {
            () = self.warm_up() => {}
            () = stop.as_mut() => *stopped = true,
        }
        if self.plan.options.mode == Mode::Hold {
            memory_before = self.server.memory_bytes();
        }
        let counted_begin = self.counted().await?;
        self.begin();
        let before = self.used();
        seen(Seen::Begins);
        let mut over_time = Vec::new();
        if !*stopped {
            tokio::select! {
                () = self.window(before, &mut over_time, seen) => {}
                () = stop.as_mut() => *stopped = true,
            }
        }
        let after = self.used();
        if let Some(piece) = self.last_piece(before, after, &over_time) {
            seen(Seen::Piece(piece.clone()));
            over_time.push(piece);
        }
        if self.plan.options.mode == Mode::Hold && !*stopped {
            seen(Seen::Holds(self.plan.options.duration));
            tokio::select! {
                () = sleep(self.plan.options.duration) => {}
                () = stop => *stopped = true,
            }
        }
        let memory_after = self.server.memory_bytes();
        for tally in self.tallies.iter().flatten() {
            counting(tally).end();
        }
        let counted_end = self.counted().await?;
        seen(Seen::Ends);
        self.control.enter(Stage::Over);
        workers.join().await?;
        let mut client = tried;
        for tally in self.tallies.iter().flatten() {
            client.add(counting(tally).ever);
        }
        let server_handshakes = match (counted_before, counted_begin, counted_end) {
            (Some(first), Some(begin), Some(end)) => {
                self.beside(first, end.since(begin), client).await?
            }
            _ => None,
        };
        Ok(self.report(Measurement {
            elapsed: after.at - before.at,
            server: after.server.since(before.server),
            client: after.client.saturating_sub(before.client),
            memory_before,
            memory_after,
            server_handshakes,
            over_time,
            ending: match (*stopped, self.control.is_used_up()) {
                (true, _) => Ending::Interrupt,
                (false, true) => Ending::Operations,
                (false, false) => Ending::Time,
            },
        }))
    }

    async fn counted(&self) -> Result<Option<Pair>, LoadError> {
        match &self.console {
            None => Ok(None),
            Some(console) => console.handshakes().await.map(Some),
        }
    }

    /// What the server has counted since `first` beside what `client` has, once it had time to.
    async fn beside(
        &self,
        first: Pair,
        window: Pair,
        client: Pair,
    ) -> Result<Option<ServerHandshakes>, LoadError> {
        let Some(console) = &self.console else {
            return Ok(None);
        };
        let mut expected = first;
        expected.add(client);
        let run = console.settled(expected).await?.since(first);
        Ok(Some(ServerHandshakes {
            full: window.full,
            resumed: window.resumed,
            hit_rate: window.hit_rate(),
            full_in_run: run.full,
            resumed_in_run: run.resumed,
            client_full_in_run: client.full,
            client_resumed_in_run: client.resumed,
        }))
    }

    /// One operation of the first part; says which handshakes it took.
    async fn try_once(&self) -> Result<Pair, LoadError> {
        let tally = Arc::new(Mutex::new(Tally::new(0.0, 0.0)));
        let alone = Place {
            thread: 0,
            threads: 1,
        };
        // Every part is made once here, so that no thread can find it impossible later.
        for (number, part) in self.plan.parts.iter().enumerate() {
            let control = Control::new(None);
            let lane = Lane::new(&self.plan, &control, &tally, part, alone)?;
            if let (0, Some(lane)) = (number, lane) {
                lane.try_once().await?;
            }
        }
        let ever = counting(&tally).ever;
        Ok(ever)
    }

    fn start(&self) -> Result<Workers, LoadError> {
        let threads = self.plan.options.threads;
        let mut workers = Workers(Vec::new());
        for thread in 0..threads {
            let crew = Crew {
                plan: Arc::clone(&self.plan),
                control: Arc::clone(&self.control),
                tallies: self
                    .tallies
                    .iter()
                    .map(|of| Arc::clone(&of[thread]))
                    .collect(),
                place: Place { thread, threads },
            };
            workers.0.push(match threads {
                1 => Worker::Here(tokio::task::spawn_local(crew.work())),
                _ => Worker::Thread(crew.start()?),
            });
        }
        Ok(workers)
    }

    /// How many lanes hold connections.
    fn holding(&self) -> u64 {
        let threads = self.plan.options.threads;
        let holds = |part: &&MixPart| part.mode == Mode::Hold;
        let lanes = self.plan.parts.iter().filter(holds).flat_map(|part| {
            (0..threads).filter_map(move |thread| Place { thread, threads }.work(&self.plan, part))
        });
        lanes.count() as u64
    }

    async fn warm_up(&self) {
        self.control.lanes_ready(self.holding()).await;
        sleep(match self.plan.options.mode {
            Mode::Hold => SETTLE,
            _ => self.plan.options.warm_up,
        })
        .await;
    }

    fn begin(&self) {
        for (part, tallies) in self.plan.parts.iter().zip(&self.tallies) {
            // Connections that stay open have shaken hands in the warm-up: those count.
            let anew = match part.mode {
                Mode::Tps => true,
                Mode::Hold => self.plan.options.mode == Mode::Hold,
                _ => false,
            };
            for tally in tallies {
                counting(tally).begin(anew);
            }
        }
        self.control.enter(Stage::Measured);
    }

    fn used(&self) -> Used {
        Used {
            server: self.server.cpu(),
            client: own_cpu(),
            at: Instant::now(),
        }
    }

    /// The measured window, piece by piece.
    async fn window(&self, before: Used, pieces: &mut Vec<Moment>, seen: &mut dyn FnMut(Seen)) {
        let options = &self.plan.options;
        let every = options.every;
        let end = async {
            match options.mode {
                Mode::Hold => self.control.lanes_ready(2 * self.holding()).await,
                _ => tokio::select! {
                    () = sleep_until((before.at + options.duration).into()) => {}
                    () = self.control.used_up() => {}
                },
            }
        };
        let mut end = std::pin::pin!(end);
        let mut last = before;
        for number in 1_u32.. {
            tokio::select! {
                biased;
                () = &mut end => return,
                () = sleep_until((before.at + every * number).into()) => {}
            }
            let now = self.used();
            let piece = moment(&self.lately(), before.at, last, now, &self.server);
            last = now;
            seen(Seen::Piece(piece.clone()));
            pieces.push(piece);
        }
    }

    /// What is left of the window behind its last whole piece, if that is worth a line.
    fn last_piece(&self, before: Used, after: Used, pieces: &[Moment]) -> Option<Moment> {
        let done: f64 = pieces.iter().map(|piece| piece.seconds).sum();
        let lately = self.lately();
        let last = Used {
            at: before.at + Duration::from_secs_f64(done),
            ..before
        };
        let rest = after.at.saturating_duration_since(last.at);
        let some = lately.operations + lately.failed() + lately.handshakes.total() > 0;
        (some && rest > self.plan.options.every / 20).then(|| {
            let mut piece = moment(&lately, before.at, last, after, &self.server);
            // Of the CPU time only the whole is known here.
            if !pieces.is_empty() {
                let earlier: f64 = pieces
                    .iter()
                    .filter_map(|piece| Some(piece.server_cores? * piece.seconds))
                    .sum();
                let whole = after.server.since(before.server).total().as_secs_f64();
                piece.server_cores = piece
                    .server_cores
                    .map(|_| (whole - earlier).max(0.0) / rest.as_secs_f64());
            }
            piece
        })
    }

    fn lately(&self) -> Counts {
        let mut sum = Counts::new();
        for tally in self.tallies.iter().flatten() {
            sum.add(&counting(tally).lately());
        }
        sum
    }
}

/// What a thread needs for its work.
struct Crew {
    plan: Arc<Plan>,
    control: Arc<Control>,
    tallies: Vec<SharedTally>,
    place: Place,
}

impl Crew {
    async fn work(self) -> Result<(), LoadError> {
        let mut lanes = tokio::task::JoinSet::new();
        for (part, tally) in self.plan.parts.iter().zip(&self.tallies) {
            if let Some(lane) = Lane::new(&self.plan, &self.control, tally, part, self.place)? {
                lanes.spawn_local(async move { lane.work().await });
            }
        }
        while lanes.join_next().await.is_some() {}
        Ok(())
    }

    fn start(self) -> Result<thread::JoinHandle<Result<(), LoadError>>, LoadError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LoadError::Thread)?;
        thread::Builder::new()
            .name(format!("load-{}", self.place.thread))
            .spawn(move || runtime.block_on(LocalSet::new().run_until(self.work())))
            .map_err(LoadError::Thread)
    }
}

struct Workers(Vec<Worker>);

enum Worker {
    Here(tokio::task::JoinHandle<Result<(), LoadError>>),
    Thread(thread::JoinHandle<Result<(), LoadError>>),
}

impl Workers {
    async fn join(self) -> Result<(), LoadError> {
        for worker in self.0 {
            match worker {
                Worker::Here(task) => {
                    if let Ok(done) = task.await {
                        done?;
                    }
                }
                Worker::Thread(thread) => {
                    // The run is over and bounded in its last words, so this ends.
                    if let Ok(done) = thread.join() {
                        done?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// CPU time of this process, by a clock that knows nanoseconds.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
