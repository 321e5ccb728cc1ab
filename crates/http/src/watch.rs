//! What a client connection is waiting for, for a caller that sweeps over many of them.
//!
//! Nothing here reads a clock: the caller compares what it sees now with what it saw a sweep ago.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

/// What the caller would like the connection to do at the next occasion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ask {
    #[default]
    Nothing,
    Park,
    Expire,
}

/// The state of one client connection in plain counters, written by [`serve`](crate::serve) and
/// read by the caller's sweep.
#[derive(Debug, Default)]
pub struct ConnectionWatch {
    requests_served: Cell<u64>,
    in_flight: Cell<u32>,
    awaiting_backend: Cell<u32>,
    awaiting_client_bodies: Cell<u32>,
    silent_uploads: Cell<u32>,
    request_bodies: Cell<u32>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    head_underway: Cell<bool>,
    write_blocked: Cell<bool>,
    unflushed: Cell<bool>,
    tunnel: Cell<bool>,
    cut_off: Cell<bool>,
    multiplexed: Cell<bool>,
    ask: Cell<Ask>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionWatch {
    /// A watch for a connection that has not said anything yet.
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// Requests handed to the handler so far; those refused on their head alone are not among them.
    pub fn requests_served(&self) -> u64 {
        self.requests_served.get()
    }

    /// Requests whose response has not been handed over whole. A tunnel counts as one.
    pub fn requests_in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// Of those, requests whose next step is not the client's: the handler is at work, or the
    /// response body has nothing to send at the moment. The difference to
    /// [`requests_in_flight`](Self::requests_in_flight) waits for the client to take bytes.
    pub fn awaiting_backend(&self) -> u32 {
        self.awaiting_backend.get()
    }

    /// Request bodies that somebody wants more of while the client sends nothing, and whose
    /// response has not begun or is over already. While it lasts the client may keep silent: such
    /// is a conversation in which the backend talks.
    pub fn bodies_awaiting_client(&self) -> u32 {
        match self.in_flight.get() {
            0 => self.silent_uploads.get(),
            _ => self.awaiting_client_bodies.get(),
        }
    }

    /// Bytes of a request head have come, and no handler was called for them yet. HTTP/1.1 only;
    /// false for HTTP/2, whose frames between requests need not belong to a head.
    pub fn head_underway(&self) -> bool {
        self.head_underway.get() && self.is_between_requests()
    }

    /// The client's socket refused bytes at the last try.
    pub fn write_blocked(&self) -> bool {
        self.write_blocked.get()
    }

    /// The connection has become a tunnel after `101 Switching Protocols`.
    pub fn is_tunnel(&self) -> bool {
        self.tunnel.get()
    }

    /// Bytes read from the client, inside TLS.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.get()
    }

    /// Bytes written to the client, inside TLS.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.get()
    }

    /// Nothing is underway in either direction.
    pub fn is_idle(&self) -> bool {
        self.is_between_requests()
            && !self.head_underway.get()
            && !self.write_blocked.get()
            && !self.unflushed.get()
            && !self.tunnel.get()
    }

    /// Asks the connection to give up its buffers: an idle HTTP/1.1 connection ends with
    /// [`Ended::Idle`](crate::Ended::Idle). Forgotten when it is not idle at that moment, and
    /// without effect on HTTP/2.
    pub fn park(&self) {
        self.ask(Ask::Park);
    }

    /// Asks the connection to end because its client took too long: answered with 408 when a request
    /// head is underway, closed when nothing is, and forgotten when a request is in flight (drop
    /// the future then). HTTP/2 says GOAWAY and lets running requests end.
    pub fn expire(&self) {
        self.ask(Ask::Expire);
    }

    fn ask(&self, ask: Ask) {
        self.ask.set(ask);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn take_ask(&self) -> Ask {
        self.ask.take()
    }

    pub(crate) fn register(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(known) => known.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }

    pub(crate) fn is_between_requests(&self) -> bool {
        self.in_flight.get() == 0 && self.request_bodies.get() == 0
    }

    /// The body of the last request was not read to its end: the client may still be sending it.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.get() || self.request_bodies.get() > 0
    }

    pub(crate) fn set_cut_off(&self) {
        self.cut_off.set(true);
    }

    pub(crate) fn set_multiplexed(&self) {
        self.multiplexed.set(true);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_in
            .set(self.bytes_in.get().wrapping_add(bytes as u64));
        if !self.multiplexed.get() && self.is_between_requests() {
            self.head_underway.set(true);
        }
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.bytes_out
            .set(self.bytes_out.get().wrapping_add(bytes as u64));
        self.write_blocked.set(false);
        self.unflushed.set(true);
    }

    pub(crate) fn set_write_blocked(&self) {
        self.write_blocked.set(true);
    }

    pub(crate) fn flushed(&self) {
        self.write_blocked.set(false);
        self.unflushed.set(false);
    }

    pub(crate) fn set_head_underway(&self) {
        self.head_underway.set(true);
    }
}

fn raise(count: &Cell<u32>) {
    count.set(count.get().saturating_add(1));
}

fn lower(count: &Cell<u32>) {
    count.set(count.get().saturating_sub(1));
}

/// One request in flight, from the call of the handler until its response is handed over.
#[derive(Debug)]
pub(crate) struct Flight {
    watch: Rc<ConnectionWatch>,
    awaits_backend: bool,
}

impl Flight {
    pub(crate) fn begin(watch: &Rc<ConnectionWatch>) -> Self {
        watch.head_underway.set(false);
        watch.cut_off.set(false);
        watch.requests_served.set(watch.requests_served.get() + 1);
        raise(&watch.in_flight);
        raise(&watch.awaiting_backend);
        Self {
            watch: Rc::clone(watch),
            awaits_backend: true,
        }
    }

    /// Says who moves next: the backend, or the client.
    pub(crate) fn awaits_backend(&mut self, awaits: bool) {
        if awaits == self.awaits_backend {
            return;
        }
        self.awaits_backend = awaits;
        match awaits {
            true => raise(&self.watch.awaiting_backend),
            false => lower(&self.watch.awaiting_backend),
        }
    }
}

impl Flight {
    /// Says that the request has become a tunnel, or that this is over.
    pub(crate) fn set_tunnel(&self, tunnel: bool) {
        self.watch.tunnel.set(tunnel);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.awaits_backend(false);
        lower(&self.watch.in_flight);
    }
}

/// What is known of one request body beside its bytes.
#[derive(Debug, Default)]
pub(crate) struct UploadState {
    /// The response has begun.
    begun: Cell<bool>,
    /// Somebody wants bytes that the client has not sent.
    silent: Cell<bool>,
}

impl UploadState {
    /// Says that the response begins.
    pub(crate) fn begin(&self, watch: &ConnectionWatch) {
        if !self.begun.replace(true) && self.silent.get() {
            lower(&watch.awaiting_client_bodies);
        }
    }
}

/// One request body that the client is still sending.
#[derive(Debug)]
pub(crate) struct Upload {
    watch: Rc<ConnectionWatch>,
    state: Rc<UploadState>,
}

impl Upload {
    pub(crate) fn begin(watch: &Rc<ConnectionWatch>, state: &Rc<UploadState>) -> Self {
        raise(&watch.request_bodies);
        Self {
            watch: Rc::clone(watch),
            state: Rc::clone(state),
        }
    }

    /// Says whether somebody wants bytes that the client has not sent.
    pub(crate) fn awaits_client(&self, awaits: bool) {
        if awaits == self.state.silent.replace(awaits) {
            return;
        }
        let change = if awaits { raise } else { lower };
        change(&self.watch.silent_uploads);
        if !self.state.begun.get() {
            change(&self.watch.awaiting_client_bodies);
        }
    }

    /// Says that nobody will read the rest of it.
    pub(crate) fn cut_off(&self) {
        self.watch.set_cut_off();
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.awaits_client(false);
        lower(&self.watch.request_bodies);
    }
}
