//! Connections to backends, kept for the next request. One pool per worker; nothing is shared.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::{Rc, Weak};

use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::body::Body;
use crate::client::{Fault, SendError, Sender, switches};
use crate::server::Protocol;

/// Requests that one HTTP/2 connection to a backend carries before a second one is opened.
const STREAMS_PER_CONNECTION: usize = 100;

/// HTTP/2 connections to one backend, per worker; beyond them requests wait in the least busy one.
const HTTP2_CONNECTIONS: usize = 4;

/// What a worker keeps of its backends' connections, by the caller's key for the backend.
#[derive(Debug, Default)]
pub struct Pool {
    backends: RefCell<HashMap<u64, Idle>>,
    age: Cell<u32>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The one used last is taken first, so that those not needed grow old and go.
    http1: Vec<Waiting>,
    http2: Vec<Shared>,
}

#[derive(Debug)]
struct Waiting {
    sender: Sender,
    since: u32,
}

#[derive(Debug)]
struct Shared {
    sender: Sender,
    open: Rc<Cell<usize>>,
    since: u32,
}

/// What [`Pool::checkout`] has.
#[derive(Debug)]
pub enum Checkout {
    /// A connection, used before, that looked well a moment ago.
    Ready(Lease),
    /// None: connect, and hand the new connection to [`Pool::adopt`].
    Connect,
}

/// The right to send one request over a connection. Goes back to the pool by itself when the
/// response was read to its end and the connection stays open; ends the connection otherwise.
#[derive(Debug)]
pub struct Lease {
    sender: Option<Sender>,
    pool: Weak<Pool>,
    key: u64,
    max_idle: usize,
    open: Option<Rc<Cell<usize>>>,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// A connection to the backend with this key, if there is one that looks well. At most
    /// `max_idle` connections are kept for it afterwards.
    pub fn checkout(self: &Rc<Self>, key: u64, protocol: Protocol, max_idle: usize) -> Checkout {
        let mut backends = self.backends.borrow_mut();
        let Some(idle) = backends.get_mut(&key) else {
            return Checkout::Connect;
        };
        let found = match protocol {
            Protocol::Http1 => idle.take().map(|sender| (sender, None)),
            Protocol::Http2 => idle.share(self.age.get()),
        };
        match found {
            Some((sender, open)) => Checkout::Ready(self.lease(sender, key, max_idle, open)),
            None => Checkout::Connect,
        }
    }

    /// Takes in a connection that the caller has just made.
    pub fn adopt(self: &Rc<Self>, key: u64, sender: Sender, max_idle: usize) -> Lease {
        let Some(shared) = sender.share() else {
            return self.lease(sender, key, max_idle, None);
        };
        let open = Rc::new(Cell::new(1));
        let mut backends = self.backends.borrow_mut();
        let idle = backends.entry(key).or_default();
        idle.http2.retain(|known| !known.sender.is_closed());
        if idle.http2.len() < HTTP2_CONNECTIONS {
            idle.http2.push(Shared {
                sender: shared,
                open: Rc::clone(&open),
                since: self.age.get(),
            });
        }
        drop(backends);
        self.lease(sender, key, max_idle, Some(open))
    }

    /// Lets go of connections that are closed or were not needed for `keep` sweeps. Called by the
    /// caller's coarse clock; between calls nothing grows old.
    pub fn sweep(&self, keep: u32) {
        let age = self.age.get().wrapping_add(1);
        self.age.set(age);
        self.backends.borrow_mut().retain(|_, idle| {
            idle.http1.retain(|waiting| {
                !waiting.sender.is_closed() && age.wrapping_sub(waiting.since) <= keep
            });
            idle.http2.retain(|shared| {
                let needed = shared.open.get() > 0 || age.wrapping_sub(shared.since) <= keep;
                !shared.sender.is_closed() && needed
            });
            !idle.http1.is_empty() || !idle.http2.is_empty()
        });
    }

    /// Connections that wait for a request; those in use are not counted.
    pub fn idle(&self) -> usize {
        let backends = self.backends.borrow();
        backends
            .values()
            .map(|idle| idle.http1.len() + idle.unused())
            .sum()
    }

    /// Drops all waiting connections of a backend, such as one that left the configuration.
    pub fn forget(&self, key: u64) {
        self.backends.borrow_mut().remove(&key);
    }

    fn lease(
        self: &Rc<Self>,
        sender: Sender,
        key: u64,
        max_idle: usize,
        open: Option<Rc<Cell<usize>>>,
    ) -> Lease {
        Lease {
            sender: Some(sender),
            pool: Rc::downgrade(self),
            key,
            max_idle,
            open,
        }
    }

    fn put(&self, key: u64, sender: Sender, max_idle: usize) {
        let mut backends = self.backends.borrow_mut();
        let idle = backends.entry(key).or_default();
        if idle.http1.len() < max_idle {
            idle.http1.push(Waiting {
                sender,
                since: self.age.get(),
            });
        }
    }
}

impl Idle {
    fn take(&mut self) -> Option<Sender> {
        let mut place = self.http1.len();
        while place > 0 {
            place -= 1;
            let sender = &self.http1[place].sender;
            if sender.is_closed() {
                self.http1.remove(place);
            } else if sender.is_ready() {
                return Some(self.http1.remove(place).sender);
            }
        }
        None
    }

    fn share(&mut self, age: u32) -> Option<(Sender, Option<Rc<Cell<usize>>>)> {
        self.http2.retain(|shared| !shared.sender.is_closed());
        let full = self.http2.len() >= HTTP2_CONNECTIONS;
        let shared = self
            .http2
            .iter_mut()
            .min_by_key(|shared| shared.open.get())?;
        if shared.open.get() >= STREAMS_PER_CONNECTION && !full {
            return None;
        }
        shared.since = age;
        shared.open.set(shared.open.get() + 1);
        Some((shared.sender.share()?, Some(Rc::clone(&shared.open))))
    }

    fn unused(&self) -> usize {
        self.http2
            .iter()
            .filter(|shared| shared.open.get() == 0)
            .count()
    }
}

impl Lease {
    /// What is spoken on the connection.
    pub fn protocol(&self) -> Protocol {
        match &self.sender {
            Some(sender) => sender.protocol(),
            None => Protocol::Http1,
        }
    }

    /// Hands one request to the connection at once, and waits for the head of the response, whose body
    /// holds the connection until it is read. A `101` comes with a body that [`serve`](crate::serve)
    /// turns into a tunnel.
    ///
    /// # Errors
    /// See [`SendError`]: each variant says whether the request may be repeated.
    pub fn send(
        mut self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, SendError>> {
        let sent = match &mut self.sender {
            Some(sender) => Ok(sender.send(request)),
            None => Err(Box::new(request)),
        };
        async move {
            let response = sent.map_err(SendError::Unsent)?.await?;
            if switches(&response) {
                // Rare, and too large to be part of every request's future.
                return Box::pin(self.tunnel(response)).await;
            }
            Ok(response.map(|incoming| Body::from_backend(incoming, Box::new(self))))
        }
    }

    /// The backend's side of the protocol that it has switched to.
    async fn tunnel(mut self, response: Response<Incoming>) -> Result<Response<Body>, SendError> {
        match &mut self.sender {
            Some(sender) if sender.wants_upgrade() => {
                let tunnel = sender.tunnel().await?;
                Ok(response.map(|_| Body::tunnel(tunnel)))
            }
            Some(_) | None => Err(SendError::Failed(Fault::Switched)),
        }
    }

    pub(crate) fn give_back(mut self) {
        if self.open.is_some() {
            return;
        }
        if let (Some(pool), Some(sender)) = (self.pool.upgrade(), self.sender.take())
            && !sender.is_closed()
        {
            pool.put(self.key, sender, self.max_idle);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.set(open.get().saturating_sub(1));
        }
    }
}
