//! What a client keeps in order to resume: tickets, sessions, and the group that the server likes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

thread_local! {
    /// Whether the connection being made on this thread was given something to resume.
    static OFFERED: Cell<bool> = const { Cell::new(false) };
    /// Bytes of early data that the ticket taken last on this thread allows.
    static EARLY_BYTES: Cell<u32> = const { Cell::new(0) };
}

/// Whether a connection made on this thread since the last call offers to resume.
pub(super) fn take_offered() -> bool {
    OFFERED.take()
}

/// Bytes of early data that the ticket of a connection made on this thread since the last call allows.
pub(super) fn take_early_bytes() -> u32 {
    EARLY_BYTES.take()
}

/// Sessions towards one server, for connections that all name it alike.
///
/// Bounded: the oldest TLS 1.3 ticket goes when a new one does not fit; there is at most one TLS 1.2
/// session, which serves any number of connections.
pub(super) struct Sessions {
    bound: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// Keeps at most `bound` TLS 1.3 tickets.
    pub(super) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self {
            bound,
            kept: Mutex::new(Kept::default()),
        })
    }

    /// How many handshakes could resume now; a TLS 1.2 session counts as one.
    pub(super) fn len(&self) -> usize {
        let kept = self.kept();
        kept.tls13.len() + usize::from(kept.tls12.is_some())
    }

    /// A store that keeps what servers send and offers it again when `resume` says so.
    pub(super) fn store(self: &Arc<Self>, resume: bool) -> Arc<Store> {
        Arc::new(Store {
            sessions: Arc::clone(self),
            resume,
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One view of [`Sessions`]: takes in everything, hands out only if it is to resume.
pub(super) struct Store {
    sessions: Arc<Sessions>,
    resume: bool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("resume", &self.resume)
            .finish_non_exhaustive()
    }
}

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.sessions.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions.kept().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        if !self.resume {
            return None;
        }
        let session = self.sessions.kept().tls12.clone();
        OFFERED.set(OFFERED.get() || session.is_some());
        session
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.sessions.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.sessions.kept();
        if kept.tls13.len() >= self.sessions.bound {
            kept.tls13.pop_front();
        }
        if self.sessions.bound > 0 {
            kept.tls13.push_back(value);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if !self.resume {
            return None;
        }
        let ticket = self.sessions.kept().tls13.pop_back();
        OFFERED.set(OFFERED.get() || ticket.is_some());
        EARLY_BYTES.set(
            ticket
                .as_ref()
                .map_or(0, |ticket| ticket.max_early_data_size()),
        );
        ticket
    }
}
