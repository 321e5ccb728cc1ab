//! Who is connected to this worker, what each is waiting for, and who has waited too long.
//!
//! One coarse sweep replaces timers per connection: an entry costs a few dozen bytes and no heap of
//! its own besides, and no deadline is ever set or cleared on the data path. Time is handed in as
//! milliseconds since the worker started; precision is the period of the sweep.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;
use tollgate_config::Timeouts;
use tollgate_http::ConnectionWatch;

/// How long a connection that is asked to end may take before it is ended.
const COURTESY: Duration = Duration::from_secs(3);

/// Milliseconds since the worker started; wraps after 49 days, and only differences are used.
pub type Millis = u32;

/// What a connection is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// From accept to the end of the handshake.
    Handshake,
    /// HTTP; the watch says what the requests are doing.
    Http,
    /// Bytes are relayed.
    Relay,
}

/// Why the sweep ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// The handshake took longer than `timeouts: handshake`.
    Handshake,
    /// A request head took longer than `timeouts: header`.
    Header,
    /// Nothing happened for `timeouts: idle` or `tcp_idle`.
    Idle,
    /// An awaited client stayed under `timeouts: min_rate` for `timeouts: stall`.
    Stalled,
    /// The time to drain was over.
    Drained,
}

impl Overdue {
    /// A label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "timeout_handshake",
            Self::Header => "timeout_header",
            Self::Idle => "timeout_idle",
            Self::Stalled => "client_stalled",
            Self::Drained => "drained",
        }
    }
}

/// One connection as the sweep sees it.
#[derive(Debug)]
pub struct Entry {
    phase: Cell<Phase>,
    /// When the present phase, or the present wait within it, began.
    since: Cell<Millis>,
    /// Bytes that the client's socket gave and took, wrapping.
    moved: Cell<u32>,
    /// `moved` when the present window of the rate rule began.
    mark: Cell<u32>,
    /// The client is awaited: its bytes, or its taking of ours.
    blocked_on_client: Cell<bool>,
    waiting: Cell<Waiting>,
    overdue: Cell<Option<Overdue>>,
    watch: RefCell<Option<Rc<ConnectionWatch>>>,
    /// Whether an idle connection can give up its buffers.
    parks: Cell<bool>,
    task: RefCell<Option<AbortHandle>>,
    /// Wakes the connection while it holds nothing but its TLS state.
    parked: RefCell<Option<Waker>>,
    dismissed: Cell<bool>,
    slot: Cell<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    Head,
    Idle,
    Client,
}

impl Entry {
    /// Counts bytes that the client's socket gave or took.
    pub fn moved(&self, bytes: usize) {
        self.moved.set(self.moved.get().wrapping_add(bytes as u32));
    }

    /// Says whether the client's socket refused bytes at the last try.
    pub fn set_blocked_on_client(&self, blocked: bool) {
        self.blocked_on_client.set(blocked);
    }

    /// Says that the connection holds nothing but its TLS state, waiting for a next request.
    pub fn park(&self, waker: &Waker) {
        let mut parked = self.parked.borrow_mut();
        match &mut *parked {
            Some(known) => known.clone_from(waker),
            None => *parked = Some(waker.clone()),
        }
    }

    /// Says that it is served again.
    pub fn unpark(&self) {
        *self.parked.borrow_mut() = None;
        self.dismissed.set(false);
    }

    /// Whether the connection is to say goodbye now; asked while it is parked.
    pub fn is_dismissed(&self) -> bool {
        self.dismissed.get()
    }

    fn is_parked(&self) -> bool {
        self.parked.borrow().is_some()
    }

    /// Asks a parked connection to end in good order.
    fn dismiss(&self) {
        if let Some(waker) = &*self.parked.borrow() {
            self.dismissed.set(true);
            waker.wake_by_ref();
        }
    }

    /// Enters another phase at `now`.
    pub fn enter(&self, phase: Phase, now: Millis) {
        self.phase.set(phase);
        self.begin(Waiting::Nothing, now);
    }

    /// Lets the sweep see what the requests of an HTTP connection are doing, and says whether it can
    /// give up its buffers when it is idle (HTTP/1.1 can).
    pub fn attach(&self, watch: Rc<ConnectionWatch>, parks: bool) {
        *self.watch.borrow_mut() = Some(watch);
        self.parks.set(parks);
    }

    /// Why the sweep ended this connection; `None` when it did not.
    pub fn overdue(&self) -> Option<Overdue> {
        self.overdue.get()
    }

    fn begin(&self, waiting: Waiting, now: Millis) {
        self.waiting.set(waiting);
        self.since.set(now);
        self.mark.set(self.moved.get());
    }

    fn waited(&self, now: Millis) -> Duration {
        Duration::from_millis(u64::from(now.wrapping_sub(self.since.get())))
    }

    fn judge(&self, now: Millis, timeouts: &Timeouts) -> Option<Overdue> {
        match self.phase.get() {
            Phase::Handshake => {
                (self.waited(now) > timeouts.handshake).then_some(Overdue::Handshake)
            }
            Phase::Http => self.judge_http(now, timeouts),
            Phase::Relay => self.judge_relay(now, timeouts),
        }
    }

    fn judge_http(&self, now: Millis, timeouts: &Timeouts) -> Option<Overdue> {
        let watch = self.watch.borrow();
        let Some(watch) = &*watch else { return None };
        if watch.is_tunnel() {
            return self.judge_relay(now, timeouts);
        }
        let in_flight = watch.requests_in_flight();
        let takes_or_gives = watch.bodies_awaiting_client() > 0
            || self.blocked_on_client.get()
            || watch.write_blocked()
            || in_flight > watch.awaiting_backend();
        let waiting = if takes_or_gives {
            Waiting::Client
        } else if in_flight > 0 {
            Waiting::Nothing
        } else if watch.head_underway() {
            Waiting::Head
        } else {
            Waiting::Idle
        };
        // A whole request may have come and gone since the last sweep.
        let stirred = waiting == Waiting::Idle && self.mark.get() != self.moved.get();
        if waiting != self.waiting.get() || stirred {
            self.begin(waiting, now);
            return None;
        }
        match waiting {
            Waiting::Nothing => None,
            Waiting::Client => self.judge_rate(now, timeouts),
            Waiting::Head => self.judge_wait(now, timeouts.header, watch, Overdue::Header),
            Waiting::Idle => {
                if self.parks.get() && !self.is_parked() {
                    watch.park();
                }
                self.judge_wait(now, timeouts.idle, watch, Overdue::Idle)
            }
        }
    }

    /// Asks the connection to end in good order first; ends it when it has not done so soon after.
    fn judge_wait(
        &self,
        now: Millis,
        limit: Duration,
        watch: &ConnectionWatch,
        overdue: Overdue,
    ) -> Option<Overdue> {
        let waited = self.waited(now);
        if waited > limit + COURTESY {
            return Some(overdue);
        }
        if waited > limit {
            match self.is_parked() {
                true => self.dismiss(),
                false => watch.expire(),
            }
        }
        None
    }

    fn judge_relay(&self, now: Millis, timeouts: &Timeouts) -> Option<Overdue> {
        if self.blocked_on_client.get() {
            if self.waiting.get() != Waiting::Client {
                self.begin(Waiting::Client, now);
                return None;
            }
            return self.judge_rate(now, timeouts);
        }
        if self.waiting.get() != Waiting::Idle || self.mark.get() != self.moved.get() {
            self.begin(Waiting::Idle, now);
            return None;
        }
        (self.waited(now) > timeouts.tcp_idle).then_some(Overdue::Idle)
    }

    fn judge_rate(&self, now: Millis, timeouts: &Timeouts) -> Option<Overdue> {
        if self.waited(now) < timeouts.stall {
            return None;
        }
        let moved = u64::from(self.moved.get().wrapping_sub(self.mark.get()));
        let owed = timeouts
            .min_rate
            .saturating_mul(timeouts.stall.as_millis() as u64)
            / 1000;
        if moved < owed {
            return Some(Overdue::Stalled);
        }
        self.begin(Waiting::Client, now);
        None
    }
}

/// All connections of one worker.
#[derive(Debug, Default)]
pub struct Roster {
    entries: RefCell<Vec<Option<Rc<Entry>>>>,
    free: RefCell<Vec<u32>>,
    now: Cell<Millis>,
    open: Cell<usize>,
    handshakes: Cell<usize>,
}

impl Roster {
    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// Connections whose handshake is not over.
    pub fn handshakes(&self) -> usize {
        self.handshakes.get()
    }

    /// Adds a connection that was just accepted.
    pub fn join(&self) -> Rc<Entry> {
        let entry = Rc::new(Entry {
            phase: Cell::new(Phase::Handshake),
            since: Cell::new(self.now.get()),
            moved: Cell::new(0),
            mark: Cell::new(0),
            blocked_on_client: Cell::new(false),
            waiting: Cell::new(Waiting::Nothing),
            overdue: Cell::new(None),
            watch: RefCell::new(None),
            parks: Cell::new(false),
            task: RefCell::new(None),
            parked: RefCell::new(None),
            dismissed: Cell::new(false),
            slot: Cell::new(0),
        });
        let mut entries = self.entries.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(slot) => {
                entry.slot.set(slot);
                entries[slot as usize] = Some(Rc::clone(&entry));
            }
            None => {
                entry.slot.set(entries.len() as u32);
                entries.push(Some(Rc::clone(&entry)));
            }
        }
        self.open.set(self.open.get() + 1);
        self.handshakes.set(self.handshakes.get() + 1);
        entry
    }

    /// Says which task serves the connection, so that the sweep can end it.
    pub fn assign(&self, entry: &Entry, task: AbortHandle) {
        *entry.task.borrow_mut() = Some(task);
    }

    /// Notes that the handshake is over, and what comes then.
    pub fn handshaken(&self, entry: &Entry, phase: Phase) {
        if entry.phase.get() == Phase::Handshake {
            self.handshakes.set(self.handshakes.get() - 1);
        }
        entry.enter(phase, self.now.get());
    }

    /// Removes a connection that has ended.
    pub fn leave(&self, entry: &Entry) {
        if entry.phase.get() == Phase::Handshake {
            self.handshakes.set(self.handshakes.get() - 1);
        }
        let slot = entry.slot.get();
        self.entries.borrow_mut()[slot as usize] = None;
        self.free.borrow_mut().push(slot);
        self.open.set(self.open.get() - 1);
    }

    /// Ends every connection that has kept the worker waiting for too long.
    pub fn sweep(&self, now: Millis, timeouts: &Timeouts) {
        self.now.set(now);
        for entry in self.entries.borrow().iter().flatten() {
            if let Some(overdue) = entry.judge(now, timeouts) {
                entry.end(overdue);
            }
        }
    }

    /// Asks connections that wait for nothing to end; used when draining.
    pub fn end_idle(&self) {
        for entry in self.entries.borrow().iter().flatten() {
            entry.dismiss();
        }
    }

    /// Ends all that are left.
    pub fn end_all(&self) {
        for entry in self.entries.borrow().iter().flatten() {
            entry.end(Overdue::Drained);
        }
    }
}

impl Entry {
    fn end(&self, overdue: Overdue) {
        if let Some(task) = self.task.borrow().as_ref() {
            self.overdue.set(Some(overdue));
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
