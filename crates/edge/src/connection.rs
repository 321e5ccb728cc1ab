//! One client connection from accept to close: what is known of it, and the account given at its end.
//!
//! The trip itself is in `trip`; this is what the trip writes into as it learns things, so that the
//! account is right however the trip ends, even when the sweep ends it from outside.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_config::Mode;
use tollgate_journal::{End, Entry as Line, Event, Peer};
use tollgate_meter::Direction;
use tollgate_terms::{Culprit, HandshakeFacts};
use tollgate_tls::Spent;

use crate::ledger;
use crate::relay::Tally;
use crate::roster::{Entry, Overdue};
use crate::shared::Admission;
use crate::worker::{Worker, WorkerLive, WorkerSite};

/// The meter hears of a connection's bytes at its end, and whenever this many have come together.
const METER_STEP_BYTES: u64 = 256 * 1024;

/// What is known of one connection so far.
#[derive(Debug)]
pub struct Connection {
    pub(crate) worker: Rc<Worker>,
    /// The configuration that was in force when it was accepted; it keeps that one to its end.
    pub(crate) live: Rc<WorkerLive>,
    pub(crate) entry: Rc<Entry>,
    pub(crate) listener: usize,
    peer: Cell<Option<SocketAddr>>,
    local: Cell<Option<SocketAddr>>,
    /// Counted against `limits: connections_per_client`; the client that a PROXY header names, where
    /// one must come, else the socket's peer.
    admission: Cell<Admission>,
    accepted: Instant,
    /// From accept to the first byte.
    silent_micros: Cell<u32>,
    handshake_micros: Cell<u32>,
    site: Cell<Option<usize>>,
    mode: Cell<Option<Mode>>,
    facts: OnceCell<Arc<HandshakeFacts>>,
    passed_through: Cell<bool>,
    server_name: RefCell<Option<Arc<str>>>,
    from_client: Cell<u64>,
    to_client: Cell<u64>,
    /// Of both, what the meter has seen.
    metered: Cell<(u64, u64)>,
    backend: RefCell<Option<Arc<str>>>,
    ending: RefCell<Ending>,
    /// Requests that have ended.
    requests: Cell<u32>,
    /// Bytes of the heap on this connection's account, and whether they are on that of a served one.
    held: Cell<i64>,
    held_as_served: Cell<bool>,
    /// Nothing is put to that account any more.
    weighed: Cell<bool>,
}

/// How a connection ended, as far as the trip could say.
#[derive(Clone, Debug, Default)]
pub enum Ending {
    /// Nothing was said: the sweep or the process ended it.
    #[default]
    Unsaid,
    /// Both sides were done.
    Complete,
    /// Ended before TLS or routing was over.
    Refused {
        /// Label value.
        reason: &'static str,
        /// Who can act.
        culprit: Culprit,
        /// One sentence.
        message: String,
    },
    /// Ended after that.
    Broken {
        /// In the words of the access log.
        end: End,
        /// One sentence.
        message: String,
    },
}

impl Connection {
    pub(crate) fn new(
        worker: &Rc<Worker>,
        entry: Rc<Entry>,
        listener: usize,
        (peer, local): (Option<SocketAddr>, Option<SocketAddr>),
        admission: Admission,
    ) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            live: worker.live(),
            entry,
            listener,
            peer: Cell::new(peer),
            local: Cell::new(local),
            admission: Cell::new(admission),
            accepted: Instant::now(),
            silent_micros: Cell::new(0),
            handshake_micros: Cell::new(0),
            site: Cell::new(None),
            mode: Cell::new(None),
            facts: OnceCell::new(),
            passed_through: Cell::new(false),
            server_name: RefCell::new(None),
            from_client: Cell::new(0),
            to_client: Cell::new(0),
            metered: Cell::new((0, 0)),
            backend: RefCell::new(None),
            ending: RefCell::new(Ending::Unsaid),
            requests: Cell::new(0),
            held: Cell::new(0),
            held_as_served: Cell::new(false),
            weighed: Cell::new(false),
        })
    }

    /// The client's address: the socket's, or what a trusted PROXY header said.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.get()
    }

    /// The address that the client connected to.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local.get()
    }

    /// Takes the addresses of a trusted PROXY header.
    pub fn set_addresses(&self, source: Option<SocketAddr>, destination: Option<SocketAddr>) {
        self.peer.set(source);
        self.local.set(destination);
    }

    /// Counts the client of a PROXY header against `limits: connections_per_client`; says whether it
    /// may have one more connection.
    pub(crate) fn admit_announced(&self) -> bool {
        if self.admission.get() == Admission::Uncounted {
            self.admission.set(self.worker.admission(self.peer()));
        }
        self.admission.get() != Admission::TooMany
    }

    /// Notes that the first byte has come.
    pub(crate) fn spoke(&self) {
        self.silent_micros.set(micros(self.accepted.elapsed()));
    }

    /// What the handshake was; `None` before it is over, and for passthrough.
    pub fn facts(&self) -> Option<&HandshakeFacts> {
        self.facts.get().map(|facts| &**facts)
    }

    /// The site and what this worker keeps for it; `None` before routing.
    pub fn site(&self) -> Option<&Rc<WorkerSite>> {
        self.site.get().map(|site| &self.live.sites[site])
    }

    /// Where the meter counts for the site; `None` before routing.
    pub(crate) fn site_place(&self) -> Option<usize> {
        self.site.get().map(|site| self.live.places.sites[site])
    }

    /// Which site, in the order of the file; `None` before routing.
    pub(crate) fn site_number(&self) -> Option<usize> {
        self.site.get()
    }

    pub(crate) fn is_of_site(&self, number: usize) -> bool {
        self.site.get() == Some(number)
    }

    /// Counts a request that went to a further backend.
    pub(crate) fn retried(&self) {
        if let Some(site) = self.site_place() {
            self.worker.meter.borrow_mut().retry(site);
        }
    }

    /// Whether the sweep or the end of the process ended this connection.
    pub(crate) fn was_cut(&self) -> bool {
        self.entry.overdue().is_some()
    }

    fn listener_place(&self) -> usize {
        self.live.places.listeners[self.listener]
    }

    /// Notes that bytes are relayed without a handshake of ours.
    pub(crate) fn passed_through(&self) {
        self.passed_through.set(true);
        let mut meter = self.worker.meter.borrow_mut();
        meter.closed(self.listener_place(), "handshake");
        meter.opened(self.listener_place(), "passthrough");
    }

    pub(crate) fn route(&self, site: usize, mode: Mode, server_name: Option<&str>) {
        self.site.set(Some(site));
        self.mode.set(Some(mode));
        *self.server_name.borrow_mut() = server_name.map(Into::into);
    }

    /// Whether it gives up everything but its TLS state between requests: HTTP/1.1 does.
    pub(crate) fn parks(&self) -> bool {
        self.is_http()
            && self
                .facts()
                .is_some_and(|facts| facts.alpn.as_deref() != Some("h2"))
    }

    pub(crate) fn is_http(&self) -> bool {
        self.mode.get() == Some(Mode::Http)
    }

    /// `server_name` as the client sent it.
    pub(crate) fn server_name(&self) -> Option<Arc<str>> {
        self.server_name.borrow().clone()
    }

    pub(crate) fn name_seen(&self, server_name: Option<&str>) {
        *self.server_name.borrow_mut() = server_name.map(Into::into);
    }

    /// Notes a completed handshake.
    pub fn handshaken(&self, facts: HandshakeFacts, spent: &Spent) {
        // A client may open a connection long before it wants something of it.
        let taken = micros(self.accepted.elapsed()).saturating_sub(self.silent_micros.get());
        self.handshake_micros.set(taken);
        if let (Some(site), Some(mode)) = (self.site_place(), self.mode.get()) {
            let mut meter = self.worker.meter.borrow_mut();
            let listener = self.listener_place();
            meter.handshake(site, listener, &facts, u64::from(taken), spent.cost);
            ledger::count_tickets(spent, &mut meter);
            if facts.early_data_offered {
                meter.early_data_refused();
            }
            meter.closed(self.listener_place(), "handshake");
            meter.opened(self.listener_place(), mode_name(mode));
        }
        // A second handshake on one connection does not exist; if it did, the first one is kept.
        let _ = self.facts.set(Arc::new(facts));
    }

    /// Notes the end of a request.
    pub(crate) fn requested(&self) {
        self.requests.set(self.requests.get().saturating_add(1));
    }

    fn is_served(&self) -> bool {
        self.facts.get().is_some() || self.passed_through.get()
    }

    /// What the connection is used as, in the words of the meter.
    fn used_as(&self, served: bool) -> &'static str {
        match (self.mode.get(), served) {
            (Some(mode), true) => mode_name(mode),
            (Some(_) | None, _) => "handshake",
        }
    }

    /// Leaves the connection's account of memory as it is until its end.
    pub(crate) fn weighed(&self) {
        self.weighed.set(true);
    }

    pub(crate) fn is_weighed(&self) -> bool {
        self.weighed.get()
    }

    /// Puts bytes that its turn has taken, or given back, to the account of what it is used as now.
    pub(crate) fn holds_more(&self, bytes: i64) {
        let (before, served) = (self.held.get(), self.is_served());
        let after = before + bytes;
        self.held.set(after);
        let served_before = self.held_as_served.replace(served);
        if served == served_before && bytes == 0 {
            return;
        }
        let mut meter = self.worker.meter.borrow_mut();
        meter.held(self.used_as(served_before), -before);
        meter.held(self.used_as(served), after);
    }

    /// Hands the meter what it has not seen yet. In HTTP mode the account of each request counts what
    /// backends sent and took; else it is what the client took and sent.
    fn meter_bytes(&self) {
        let (Some(site), Some(mode)) = (self.site_place(), self.mode.get()) else {
            return;
        };
        let (sent, taken) = (self.from_client.get(), self.to_client.get());
        let (sent_before, taken_before) = self.metered.replace((sent, taken));
        let (sent, taken) = (sent - sent_before, taken - taken_before);
        let name = mode_name(mode);
        let mut meter = self.worker.meter.borrow_mut();
        meter.bytes(site, name, Direction::ClientIn, sent);
        meter.bytes(site, name, Direction::ClientOut, taken);
        if mode != Mode::Http {
            meter.bytes(site, name, Direction::BackendOut, sent);
            meter.bytes(site, name, Direction::BackendIn, taken);
        }
    }

    /// Counts a backend that did not do what it should.
    pub(crate) fn backend_failed(&self, backend: usize, reason: &'static str) {
        if let Some(site) = self.site.get() {
            let places = &self.live.places;
            let backend = places.backends[site][backend];
            self.worker
                .meter
                .borrow_mut()
                .backend_failure(places.sites[site], backend, reason);
        }
    }

    pub(crate) fn set_backend(&self, label: &Arc<str>) {
        *self.backend.borrow_mut() = Some(Arc::clone(label));
    }

    /// Says how it ended; the first word stands.
    pub fn end(&self, ending: Ending) {
        let mut said = self.ending.borrow_mut();
        if matches!(*said, Ending::Unsaid) {
            *said = ending;
        }
    }

    /// An access log line with everything that is known of the connection.
    pub(crate) fn line(&self, event: Event) -> Line {
        let live = &self.live.live;
        let facts = self.facts.get();
        Line {
            listener: live
                .listeners
                .get(self.listener)
                .map(|listener| Arc::clone(&listener.label)),
            site: self
                .site
                .get()
                .map(|site| Arc::clone(&live.sites[site].label)),
            worker: Some(self.worker.index),
            client: Some(self.peer.get().map_or(Peer::Unix, Peer::Ip)),
            server_name: if facts.is_some() {
                None
            } else {
                self.server_name()
            },
            handshake: facts.cloned(),
            early_data: facts.map(|_| false),
            handshake_us: facts.map(|_| u64::from(self.handshake_micros.get())),
            ..Line::new(event, self.worker.wall_clock_millis())
        }
    }

    fn duration(&self) -> Duration {
        self.accepted.elapsed()
    }

    /// The line for a connection whose end is the only thing to tell: relays and refusals.
    fn write_line(&self) {
        let served = self.is_served();
        let (end, error) = self.end_and_error();
        let event = if served {
            Event::Connection
        } else {
            Event::HandshakeFailed
        };
        if !self
            .worker
            .wants_line(self.live.live.log_sample, !served || end != End::Complete)
        {
            return;
        }
        let mut line = self.line(event);
        line.protocol = match self.mode.get() {
            Some(Mode::Tcp) => Some("tcp"),
            Some(Mode::Passthrough) => Some("passthrough"),
            Some(Mode::Http) | None => None,
        };
        line.request_bytes = Some(self.from_client.get());
        line.response_bytes = Some(self.to_client.get());
        line.backend = self.backend.borrow().clone();
        line.total_us = Some(self.duration().as_micros() as u64);
        line.end = Some(end);
        line.error = error;
        self.worker.write_line(line);
    }

    /// Whether HTTP ended over a request that never became one, so that no account tells of it.
    fn ended_in_a_head(&self) -> bool {
        let malformed_or_late = matches!(
            &*self.ending.borrow(),
            Ending::Broken {
                end: End::Error | End::Timeout,
                ..
            }
        );
        malformed_or_late || self.entry.overdue() == Some(Overdue::Header)
    }

    /// How the connection ended, in the words of the access log.
    pub(crate) fn end_and_error(&self) -> (End, Option<Cow<'static, str>>) {
        if let Some(overdue) = self.entry.overdue() {
            return match overdue {
                Overdue::Handshake | Overdue::Header | Overdue::Idle => {
                    (End::Timeout, Some(overdue.name().into()))
                }
                Overdue::Stalled => (End::ClientStalled, None),
                Overdue::Drained => (End::Drained, None),
            };
        }
        match &*self.ending.borrow() {
            Ending::Unsaid => (End::Drained, None),
            Ending::Complete => (End::Complete, None),
            Ending::Refused {
                reason, message, ..
            } => (End::Error, Some(format!("{reason}: {message}").into())),
            Ending::Broken { end, message } => (*end, Some(message.clone().into())),
        }
    }
}

/// `http`, `tcp` or `passthrough`.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Http => "http",
        Mode::Tcp => "tcp",
        Mode::Passthrough => "passthrough",
    }
}

impl Tally for Connection {
    fn scratch(&self) -> RefMut<'_, Box<[u8]>> {
        self.worker.scratch.borrow_mut()
    }

    fn client_sent(&self, bytes: usize) {
        let sent = self.from_client.get() + bytes as u64;
        self.from_client.set(sent);
        if sent - self.metered.get().0 >= METER_STEP_BYTES {
            self.meter_bytes();
        }
    }

    fn client_took(&self, bytes: usize) {
        let taken = self.to_client.get() + bytes as u64;
        self.to_client.set(taken);
        self.entry.set_blocked_on_client(false);
        if taken - self.metered.get().1 >= METER_STEP_BYTES {
            self.meter_bytes();
        }
    }

    fn set_blocked(&self, blocked: bool) {
        self.entry.set_blocked_on_client(blocked);
    }
}

/// Microseconds, at most some 71 minutes of them.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.meter_bytes();
        let served = self.is_served();
        let silent = matches!(
            &*self.ending.borrow(),
            Ending::Refused {
                reason: "silent",
                ..
            }
        );
        let place = self.listener_place();
        {
            let mut meter = self.worker.meter.borrow_mut();
            match (&*self.ending.borrow(), self.entry.overdue()) {
                // The end of the process is nobody's failure.
                (_, Some(Overdue::Drained)) => {}
                (_, Some(overdue)) if !served => {
                    meter.handshake_failed(place, overdue.name(), Culprit::Client)
                }
                (
                    Ending::Refused {
                        reason, culprit, ..
                    },
                    _,
                ) if !silent => {
                    meter.handshake_failed(place, reason, *culprit);
                }
                _ => {}
            }
            let used_as = self.used_as(served);
            meter.closed(place, used_as);
            meter.closed_after(used_as, self.duration(), u64::from(self.requests.get()));
            meter.held(self.used_as(self.held_as_served.get()), -self.held.get());
        }
        let by_request = self.mode.get() == Some(Mode::Http) && served && !self.ended_in_a_head();
        if !by_request && !silent {
            self.write_line();
        }
        self.worker.left(&self.entry, self.admission.get());
    }
}
