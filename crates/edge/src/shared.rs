//! What all workers share: counters that are touched once per connection, never per byte.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of the whole data plane.
#[derive(Debug, Default)]
pub struct Shared {
    /// Connections per client address, kept only while that limit is set.
    per_client: Mutex<HashMap<IpAddr, usize>>,
    /// Connections that each worker may hold, from `limits:` and the file descriptors there are.
    pub connections_per_worker: AtomicUsize,
    /// Times that accepting had to rest because the host had no file descriptor left.
    pub rests: AtomicU64,
}

impl Shared {
    /// Counts one more connection of a client, unless that would be one too many.
    pub(crate) fn admit(&self, client: Option<IpAddr>, limit: usize) -> Admission {
        let (Some(client), true) = (client, limit > 0) else {
            return Admission::Uncounted;
        };
        let mut clients = self.clients();
        let open = clients.entry(client).or_insert(0);
        if *open >= limit {
            return Admission::TooMany;
        }
        *open += 1;
        Admission::Counted(client)
    }

    pub(crate) fn leave(&self, client: IpAddr) {
        let mut clients = self.clients();
        if let Some(open) = clients.get_mut(&client) {
            *open -= 1;
            if *open == 0 {
                clients.remove(&client);
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.per_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a client may have one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes, and it counts against its limit.
    Counted(IpAddr),
    /// Yes; there is no limit, or the peer has no address.
    Uncounted,
    /// No.
    TooMany,
}
