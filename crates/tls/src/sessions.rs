//! The session cache without handshakes around it: what measures it must not measure them too.

use std::sync::Arc;

use rustls::server::StoresServerSessions;

use crate::resumption::{Resumption, SiteSessions};

/// The cache of a [`Resumption`], entered as a TLS 1.2 handshake of one site enters it.
///
/// Clones share it. With tickets or without, whatever is put is kept, as for a client that takes none.
#[derive(Clone, Debug)]
pub struct SessionCache(Arc<SiteSessions>);

impl SessionCache {
    /// The cache of `resumption`, for the site that is called `site` and asks for no client certificate.
    pub fn of(resumption: &Arc<Resumption>, site: u64) -> Self {
        Self(Arc::new(SiteSessions {
            resumption: Arc::clone(resumption),
            site,
            policy: 0,
        }))
    }

    /// Keeps `session` under `id`; `false` when the cache is off. At its bound another session goes.
    pub fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.0.put(id, session)
    }

    /// The session of this id, if it is there and still lives.
    pub fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.0.get(id)
    }

    /// Bytes of all ids and sessions, without what it takes to find them. Looks at every one.
    pub fn stored_bytes(&self) -> usize {
        self.0.resumption.stored_bytes()
    }
}
