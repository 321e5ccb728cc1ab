//! How connections come to a worker: accepted here or by another, within what it may hold.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::spawn_local;
use tollgate_config::{AcceptMode, ListenAddress};

use crate::connection::Connection;
use crate::dial::is_out_of_descriptors;
use crate::listen::Listening;
use crate::roster::Entry;
use crate::shared::Admission;
use crate::trip;
use crate::wire::{Wire, canonical};
use crate::worker::{Command, Worker};

/// How long accepting rests after the host ran out of file descriptors.
const REST: Duration = Duration::from_millis(50);

/// The client's address and the one that it connected to; `None` on a unix socket.
type Addresses = (Option<SocketAddr>, Option<SocketAddr>);

/// An accepted socket on its way to another worker.
pub enum Accepted {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

impl Worker {
    fn listener_number(&self, address: &ListenAddress) -> Option<usize> {
        let live = self.live.borrow();
        let mut listeners = live.live.listeners.iter();
        listeners.position(|listener| listener.address == *address)
    }

    pub(crate) fn listen(
        self: &Rc<Self>,
        address: ListenAddress,
        listening: Listening,
    ) -> io::Result<()> {
        let worker = Rc::clone(self);
        let place = address.clone();
        let task = match listening {
            Listening::Tcp(listener) => {
                // Accepted sockets inherit it, and need no system call of their own.
                SockRef::from(&listener).set_tcp_nodelay(true)?;
                let listener = TcpListener::from_std(listener)?;
                let local = listener.local_addr().ok().map(canonical);
                let local = local.filter(|local| !local.ip().is_unspecified());
                spawn_local(async move {
                    worker
                        .accept_all(&place, async || {
                            let (stream, peer) = listener.accept().await?;
                            let wire = Wire::from(stream);
                            let local = local.or_else(|| wire.local());
                            Ok((wire, (Some(canonical(peer)), local)))
                        })
                        .await;
                })
            }
            Listening::Unix(listener) => {
                let listener = UnixListener::from_std(listener)?;
                spawn_local(async move {
                    worker
                        .accept_all(&place, async || {
                            let (stream, _) = listener.accept().await?;
                            Ok((Wire::from(stream), (None, None)))
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
        accept: impl AsyncFn() -> io::Result<(Wire, Addresses)>,
    ) {
        loop {
            self.wait_for_room().await;
            match accept().await {
                Ok((wire, addresses)) => self.deal(address, wire, addresses),
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    if is_out_of_descriptors(&error) {
                        self.shared.rests.fetch_add(1, Ordering::Relaxed);
                    }
                    // Whatever closes first makes room; the clock is for what others held.
                    let _ = tokio::time::timeout(REST, self.room.notified()).await;
                }
            }
        }
    }

    async fn wait_for_room(&self) {
        while self.is_full() {
            self.room.notified().await;
        }
    }

    fn is_full(&self) -> bool {
        self.roster.open() >= self.shared.connections_per_worker.load(Ordering::Relaxed)
    }

    /// Serves a connection here, or hands it to the worker whose turn it is.
    fn deal(self: &Rc<Self>, address: &ListenAddress, wire: Wire, addresses: Addresses) {
        if self.accept == AcceptMode::ReusePort || self.peers.len() < 2 {
            self.admit(address, wire, addresses);
            return;
        }
        let turn = self.next_peer.get();
        self.next_peer.set((turn + 1) % self.peers.len());
        if turn == self.index {
            self.admit(address, wire, addresses);
        } else if let Ok(accepted) = wire.into_accepted() {
            // A worker that is gone drops the connection with the command.
            let _ = self.peers[turn].send(Command::Accepted(address.clone(), accepted));
        }
    }

    /// Takes in what another worker accepted, if there is room here.
    pub(crate) fn take_over(self: &Rc<Self>, address: &ListenAddress, accepted: Accepted) {
        let Ok(wire) = Wire::try_from(accepted) else {
            return;
        };
        if self.is_full() {
            if let Some(listener) = self.listener_number(address) {
                let place = self.live.borrow().places.listeners[listener];
                let mut meter = self.meter.borrow_mut();
                meter.accepted(place);
                meter.refused(place, "too_many_connections");
            }
            return;
        }
        let addresses = (wire.peer(), wire.local());
        self.admit(address, wire, addresses);
    }

    fn admit(self: &Rc<Self>, address: &ListenAddress, mut wire: Wire, addresses: Addresses) {
        let (peer, _) = addresses;
        let Some(listener) = self.listener_number(address) else {
            return;
        };
        let (place, handshakes, announces) = {
            let live = self.live.borrow();
            let trusted = live.live.listeners[listener].proxy_protocol.as_ref();
            (
                live.places.listeners[listener],
                live.live.limits.handshakes,
                trusted.is_some_and(|trusted| trusted.contains(peer.map(|peer| peer.ip()))),
            )
        };
        self.meter.borrow_mut().accepted(place);
        if self.roster.handshakes() >= handshakes {
            self.meter
                .borrow_mut()
                .refused(place, "too_many_handshakes");
            return;
        }
        // Behind a proxy the client is known, and counted, once the PROXY header has been read.
        let admission = match announces {
            true => Admission::Uncounted,
            false => self.admission(peer),
        };
        if admission == Admission::TooMany {
            self.meter
                .borrow_mut()
                .refused(place, "too_many_from_client");
            return;
        }
        self.meter.borrow_mut().opened(place, "handshake");
        let before = self.ledger.heap();
        let entry = self.roster.join();
        wire.watch(&entry);
        let connection = Connection::new(self, Rc::clone(&entry), listener, addresses, admission);
        let task = spawn_local(trip::run(Rc::clone(&connection), wire));
        self.roster.assign(&entry, task.abort_handle());
        if let (Some(before), Some(after)) = (before, self.ledger.heap()) {
            connection.holds_more(after - before);
        }
    }

    /// Counts one more connection of a client, if it may have one.
    pub(crate) fn admission(&self, peer: Option<SocketAddr>) -> Admission {
        let limit = self.live.borrow().live.limits.connections_per_client;
        self.shared.admit(peer.map(|peer| peer.ip()), limit)
    }

    /// Strikes a connection off; there may be room for another now.
    pub(crate) fn left(&self, entry: &Entry, admission: Admission) {
        self.roster.leave(entry);
        if let Admission::Counted(client) = admission {
            self.shared.leave(client);
        }
        self.room.notify_waiters();
    }

    pub(crate) fn unlisten(&self, leaves: impl Fn(&ListenAddress) -> bool) {
        self.acceptors.borrow_mut().retain(|(address, task)| {
            let leave = leaves(address);
            if leave {
                task.abort();
            }
            !leave
        });
    }
}

/// Whether accepting one client went wrong, rather than accepting as such.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
