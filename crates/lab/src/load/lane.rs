//! The work of one part in one thread: operations, one after the other on each of its connections.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_tls::client::Intent;
use tollgate_tls::{Buffers, ClientSite};

use super::connection::{After, Connection, Scratch, scratch};
use super::control::{Control, SharedTally, Slot, Stage, counting};
use super::dial::{Dialer, Nagle};
use super::error::LoadError;
use super::http2::Shared;
use super::options::{LoadOptions, MixPart, Mode};
use super::pace::Pace;
use super::plan::Plan;
use super::request::Request;
use super::trouble::Trouble;

/// A server that refuses at once must not be hammered.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// How long operations that are on their way may take after the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server under one of its names.
struct Named {
    site: ClientSite,
    /// The same with early data, for a run that sends some.
    early: Option<ClientSite>,
    request: Request,
    body: Bytes,
}

/// One part of the run in one thread.
pub(crate) struct Lane {
    plan: Arc<Plan>,
    control: Arc<Control>,
    tally: SharedTally,
    part: MixPart,
    /// Connections that are held, for a lane that holds some.
    held: usize,
    names: Vec<Named>,
    next: Cell<usize>,
    dialer: Dialer,
    pace: Option<Pace>,
    scratch: Scratch,
    buffers: Buffers,
}

/// Which share of a part a lane has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of the thread.
    pub(crate) thread: usize,
    /// How many threads there are.
    pub(crate) threads: usize,
}

impl Place {
    /// Connections at work, and connections held, of a part in this thread; `None` for no work at all.
    pub(crate) fn work(self, plan: &Plan, part: &MixPart) -> Option<(usize, usize)> {
        let options = &plan.options;
        let (connections, held) = match (part.mode, options.mode) {
            (Mode::Hold, Mode::Mix) => (options.connections, self.share(part.connections)),
            (Mode::Hold, _) => (part.connections, self.share(options.count)),
            _ => (part.connections, 0),
        };
        let connections = self.share(connections);
        match (part.mode, connections, held) {
            (Mode::Hold, _, 0) | (_, 0, 0) => None,
            _ => Some((connections.max(1), held)),
        }
    }

    /// This thread's share of `all`.
    fn share(self, all: usize) -> usize {
        all / self.threads + usize::from(self.thread < all % self.threads)
    }
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// On a new connection.
    Again,
    /// Nothing may begin any more.
    Over,
}

/// A connection that is open, whatever is spoken on it.
pub(crate) enum Open {
    Alone(Box<Connection>),
    Shared(Shared),
}

impl Open {
    fn is_open(&mut self) -> bool {
        match self {
            Self::Alone(connection) => connection.is_open(),
            Self::Shared(shared) => shared.is_open(),
        }
    }

    async fn close(self) {
        match self {
            Self::Alone(connection) => connection.close().await,
            Self::Shared(shared) => shared.close().await,
        }
    }
}

impl Lane {
    /// The lane of `part` at `place`; `None` when nothing is left for it.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        control: &Arc<Control>,
        tally: &SharedTally,
        part: &MixPart,
        place: Place,
    ) -> Result<Option<Rc<Self>>, LoadError> {
        let options = &plan.options;
        let Some((connections, held)) = place.work(plan, part) else {
            return Ok(None);
        };
        let names = plan
            .names
            .iter()
            .map(|name| {
                let request = plan.request(part, name)?;
                let body = match options.offers_http2() {
                    true => request.whole_body()?,
                    false => Bytes::new(),
                };
                let site = plan.site(name, part)?;
                Ok(Named {
                    early: (options.early_data_rate > 0.0).then(|| site.with_early_data(true)),
                    site,
                    request,
                    body,
                })
            })
            .collect::<Result<Vec<_>, LoadError>>()?;
        let pace = part.rate.map(|rate| {
            let phase = place.thread as f64 / rate;
            Pace::new(rate / place.threads as f64, Duration::from_secs_f64(phase))
        });
        Ok(Some(Rc::new(Self {
            plan: Arc::clone(plan),
            control: Arc::clone(control),
            tally: Arc::clone(tally),
            part: MixPart {
                connections,
                ..part.clone()
            },
            held,
            names,
            next: Cell::new(place.thread),
            dialer: Dialer::new(
                plan.address,
                &options.sources,
                place.thread,
                options.abort,
                nagle(options, part),
            ),
            pace,
            scratch: scratch(),
            buffers: Buffers::new(),
        })))
    }

    /// One operation before the run: a server that is not there is a clear error, not a page of failures.
    pub(crate) async fn try_once(&self) -> Result<(), LoadError> {
        let unreachable = |trouble: Trouble| LoadError::Unreachable {
            target: self.plan.options.target.clone(),
            reason: trouble.to_string(),
        };
        let (mut open, named) = self.open().await.map_err(unreachable)?;
        let quick = !matches!(self.part.mode, Mode::Download | Mode::Upload);
        if quick && !self.plan.options.no_request {
            self.ask(&mut open, named).await.map_err(unreachable)?;
        }
        open.close().await;
        Ok(())
    }

    /// Works until the run is over and nothing is on its way any more.
    pub(crate) async fn work(self: &Rc<Self>) {
        let mut tasks = JoinSet::new();
        if self.pace.is_some() {
            let lane = Rc::clone(self);
            tasks.spawn_local(async move { lane.keep_pace().await });
        }
        match self.part.mode {
            Mode::Hold => {
                let lane = Rc::clone(self);
                tasks.spawn_local(async move { lane.hold().await });
            }
            Mode::Tps | Mode::Requests | Mode::Download | Mode::Upload | Mode::Mix => {
                for _ in 0..self.part.connections {
                    let lane = Rc::clone(self);
                    tasks.spawn_local(async move {
                        match lane.part.mode {
                            Mode::Tps => lane.keep_shaking_hands().await,
                            _ => lane.keep_asking().await,
                        }
                    });
                }
            }
        }
        self.control.reached(Stage::Over).await;
        if let Some(pace) = &self.pace {
            counting(&self.tally).not_started(pace.waiting());
            pace.close();
        }
        let bulk = matches!(self.part.mode, Mode::Download | Mode::Upload);
        if !bulk {
            let ended = async { while tasks.join_next().await.is_some() {} };
            // What takes longer is cut off; it does not count any more.
            let _ = timeout(LAST_WORDS, ended).await;
        }
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
    }

    async fn keep_pace(&self) {
        if let Some(pace) = &self.pace {
            tokio::select! {
                kept = pace.keep() => if kept.is_err() {
                    // Without a timer nothing is ever due.
                    pace.close();
                },
                () = self.control.reached(Stage::Over) => {}
            }
        }
    }

    /// When the next operation was due, which is now in a closed loop, and whether it has its place in the
    /// limit. `None` at the end.
    async fn next(&self) -> Option<(Instant, Slot)> {
        // Without a warm-up nothing is to happen that is not counted. What is held makes the run begin.
        if self.plan.options.warm_up.is_zero() && self.part.mode != Mode::Hold {
            self.control.reached(Stage::Measured).await;
        }
        let due = match &self.pace {
            None => Instant::now(),
            Some(pace) => {
                let due = pace.take().await?;
                counting(&self.tally).start(due);
                due
            }
        };
        if self.control.is_over() {
            return None;
        }
        Some((due, self.control.may_start()?))
    }

    fn account(&self, slot: Slot, failed: Option<&Trouble>, named: &Named, took: Duration) {
        let mut tally = counting(&self.tally);
        if tally.is_measuring() && self.control.may_count(slot) {
            let done = failed.map_or(Ok(()), Err);
            tally.operation(done, named.request.body_bytes(), took);
            self.control.finish();
        }
    }

    /// Connects and shakes hands, with the next name.
    async fn open(&self) -> Result<(Open, &Named), Trouble> {
        let next = self.next.get();
        self.next.set(next.wrapping_add(1));
        let named = &self.names[next % self.names.len()];
        let intent = counting(&self.tally).intend(named.site.sessions());
        let early = named.early.is_some() && counting(&self.tally).intend_early(intent);
        let connecting = pin!(self.connect(named, intent, early));
        let opened = within(self.plan.options.timeout, connecting).await;
        if opened.is_err() {
            let mut tally = counting(&self.tally);
            tally.no_handshake(intent);
            if named.early.is_some() && intent == Intent::Resume {
                tally.early(early, None);
            }
        }
        Ok((opened?, named))
    }

    async fn connect(&self, named: &Named, intent: Intent, early: bool) -> Result<Open, Trouble> {
        if self.plan.options.offers_http2() {
            let dialed = self.dialer.dial(&[]).await.map_err(Trouble::Connect)?;
            let opening = Shared::open(dialed.io, &named.site, intent, &self.buffers);
            let (shared, facts) = opening.await?;
            counting(&self.tally).handshake(intent, &facts, dialed.at.elapsed());
            return Ok(Open::Shared(shared));
        }
        let (site, request) = match &named.early {
            Some(site) if early => (site, Some(&named.request)),
            _ => (&named.site, None),
        };
        let opened = Connection::open(&self.dialer, site, intent, request, &self.scratch).await?;
        let mut tally = counting(&self.tally);
        tally.handshake(intent, &opened.facts, opened.took);
        if named.early.is_some() && intent == Intent::Resume {
            // Without a resumption there was no early data to be sent, and the next one makes up for it.
            let tried = opened.facts.kind.is_resumed() || opened.early_accepted.is_some();
            tally.early(early, tried.then_some(opened.early_accepted));
        }
        Ok(Open::Alone(Box::new(opened.connection)))
    }

    async fn ask(&self, open: &mut Open, named: &Named) -> Result<After, Trouble> {
        match open {
            Open::Alone(connection) => self.ask_alone(connection, named).await,
            Open::Shared(shared) => self.ask_shared(shared, named).await,
        }
    }

    async fn ask_alone(
        &self,
        connection: &mut Connection,
        named: &Named,
    ) -> Result<After, Trouble> {
        let exchange = pin!(connection.exchange(&named.request, |body| self.take_body(body)));
        match self.part.mode {
            // A large body takes as long as it takes.
            Mode::Download | Mode::Upload => exchange.await,
            _ => within(self.plan.options.timeout, exchange).await,
        }
    }

    async fn ask_shared(&self, shared: &Shared, named: &Named) -> Result<After, Trouble> {
        let taken = |body| self.take_body(body);
        let exchange = pin!(shared.exchange(&named.request, &named.body, taken));
        match self.part.mode {
            Mode::Download | Mode::Upload => exchange.await,
            _ => within(self.plan.options.timeout, exchange).await,
        }
    }

    fn take_body(&self, bytes: u64) {
        if bytes > 0 {
            counting(&self.tally).body(bytes);
        }
    }

    /// Connection, handshake, request, response, close; again and again.
    async fn keep_shaking_hands(&self) {
        while let Some((due, slot)) = self.next().await {
            let done = self.transaction(due).await;
            let took = done.as_ref().map_or(Duration::ZERO, |took| *took);
            self.account(slot, done.as_ref().err(), &self.names[0], took);
            if done.is_err() {
                sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// One of them; how long it took since it was due, without the goodbye unless that is all there is.
    async fn transaction(&self, due: Instant) -> Result<Duration, Trouble> {
        let (mut open, named) = self.open().await?;
        let asks = !self.plan.options.no_request;
        if asks {
            self.ask(&mut open, named).await?;
        }
        let took = due.elapsed();
        match open {
            Open::Alone(connection) if !asks => {
                within(self.plan.options.timeout, pin!(connection.part())).await?;
                return Ok(due.elapsed());
            }
            // The response came before the server had our Finished, so its tickets are still to come.
            Open::Alone(connection) if connection.asked_early() => {
                let _ = within(self.plan.options.timeout, pin!(connection.part())).await;
            }
            Open::Alone(_) | Open::Shared(_) => open.close().await,
        }
        Ok(took)
    }

    /// Requests on one connection, on a new one whenever that ends.
    async fn keep_asking(self: &Rc<Self>) {
        loop {
            let turn = match self.open().await {
                Ok((Open::Alone(mut connection), named)) => {
                    self.ask_in_turn(&mut connection, named).await
                }
                Ok((Open::Shared(shared), named)) => {
                    let at = self.place_of(named);
                    self.ask_together(Rc::new(shared), at).await
                }
                Err(trouble) => self.not_opened(&trouble).await,
            };
            if turn == Turn::Over || self.control.is_over() {
                return;
            }
        }
    }

    async fn not_opened(&self, trouble: &Trouble) -> Turn {
        let Some(slot) = self.control.may_start() else {
            return Turn::Over;
        };
        self.account(slot, Some(trouble), &self.names[0], Duration::ZERO);
        sleep(AFTER_FAILURE).await;
        Turn::Again
    }

    async fn ask_in_turn(&self, connection: &mut Connection, named: &Named) -> Turn {
        while let Some((due, slot)) = self.next().await {
            let done = self.ask_alone(connection, named).await;
            self.account(slot, done.as_ref().err(), named, due.elapsed());
            match done {
                Ok(After::Open) => {}
                Ok(After::Closing) => return Turn::Again,
                Err(_) => {
                    sleep(AFTER_FAILURE).await;
                    return Turn::Again;
                }
            }
        }
        Turn::Over
    }

    /// Several requests at a time, each followed by the next.
    async fn ask_together(self: &Rc<Self>, shared: Rc<Shared>, at: usize) -> Turn {
        let streams = match shared.multiplexes() {
            true => self.plan.options.streams,
            false => 1,
        };
        let mut tasks = JoinSet::new();
        for _ in 0..streams {
            let (lane, shared) = (Rc::clone(self), Rc::clone(&shared));
            tasks.spawn_local(async move { lane.ask_over(&shared, at).await });
        }
        let mut turn = Turn::Again;
        while let Some(ended) = tasks.join_next().await {
            if let Ok(Turn::Over) = ended {
                turn = Turn::Over;
            }
        }
        turn
    }

    async fn ask_over(&self, shared: &Shared, at: usize) -> Turn {
        let named = &self.names[at];
        while let Some((due, slot)) = self.next().await {
            let done = self.ask_shared(shared, named).await;
            self.account(slot, done.as_ref().err(), named, due.elapsed());
            if done.is_err() {
                sleep(AFTER_FAILURE).await;
            }
            if !shared.is_open() {
                return Turn::Again;
            }
        }
        Turn::Over
    }

    fn place_of(&self, named: &Named) -> usize {
        self.names
            .iter()
            .position(|known| std::ptr::eq(known, named))
            .unwrap_or(0)
    }

    /// Opens connections, uses each once, and keeps them until the run is over.
    async fn hold(self: &Rc<Self>) {
        let alone = self.plan.options.mode == Mode::Hold;
        if alone {
            // The server's own buffers and tables are not the connections' cost.
            drop(self.open_many(self.part.connections * 4).await);
            self.control.lane_is_ready();
            self.control.reached(Stage::Measured).await;
        }
        let mut held = self.open_many(self.held).await;
        self.control.lane_is_ready();
        self.control.reached(Stage::Over).await;
        let open = held
            .iter_mut()
            .filter_map(|one| one.is_open().then_some(()))
            .count();
        counting(&self.tally).held(open, held.len() - open);
    }

    async fn open_many(self: &Rc<Self>, count: usize) -> Vec<Open> {
        let mut tasks = JoinSet::new();
        let mut opened = Vec::with_capacity(count);
        for _ in 0..count {
            while tasks.len() >= self.part.connections {
                opened.extend(tasks.join_next().await.and_then(Result::ok).flatten());
            }
            let Some((due, slot)) = self.next().await else {
                break;
            };
            let lane = Rc::clone(self);
            tasks.spawn_local(async move { lane.open_and_use(due, slot).await });
        }
        while let Some(joined) = tasks.join_next().await {
            opened.extend(joined.ok().flatten());
        }
        opened
    }

    async fn open_and_use(&self, due: Instant, slot: Slot) -> Option<Open> {
        let done = async {
            let (mut open, named) = self.open().await?;
            self.ask(&mut open, named).await?;
            Ok(open)
        };
        let (done, open) = match done.await {
            Ok(open) => (Ok(()), Some(open)),
            Err(trouble) => (Err(trouble), None),
        };
        self.account(slot, done.as_ref().err(), &self.names[0], due.elapsed());
        open
    }
}

/// A transaction with a small request is written as a whole, each time after a read.
fn nagle(options: &LoadOptions, part: &MixPart) -> Nagle {
    let small = options.body_bytes == 0 && !options.offers_http2();
    match part.mode {
        Mode::Tps if small && options.early_data_rate == 0.0 => Nagle::Left,
        Mode::Tps | Mode::Requests | Mode::Download | Mode::Upload | Mode::Hold | Mode::Mix => {
            Nagle::Off
        }
    }
}

/// Takes the future by reference: it is large, and would be moved several times on its way.
async fn within<T>(
    limit: Duration,
    future: Pin<&mut impl Future<Output = Result<T, Trouble>>>,
) -> Result<T, Trouble> {
    timeout(limit, future)
        .await
        .unwrap_or(Err(Trouble::Timeout))
}
