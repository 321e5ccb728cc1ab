//! Connections that were seen a moment ago, in a table that does not grow.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::fields::Fields;
use super::time::Moment;

/// How the handshakes of a log are told from its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The first request of each connection, by its number.
    FirstRequests,
    /// Each number of a connection once.
    Connections,
    /// Lines of one client address and port with the same handshake once.
    Clients,
    /// Every line.
    Lines,
}

/// A line of the same client address and port after a longer silence is another connection.
pub const SILENCE_SECONDS: i64 = 75;
/// The same for a number of a connection: nginx closes after an hour, and begins at 1 when it is started anew.
const NUMBERED_SILENCE_SECONDS: i64 = 3_600;

/// Connections in each half of the table: about 7 MB in all.
const HALF: usize = 65_536;

/// What was seen last of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    time: i64,
    handshake: u64,
}

/// The newest connections, the older half of which goes when the newer one is full.
#[derive(Debug, Default)]
pub struct Recent {
    newer: HashMap<u64, Seen>,
    older: HashMap<u64, Seen>,
    hasher: RandomState,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.time)
    }
}

impl Recent {
    /// Whether this line is the first of its connection, and how that was decided.
    pub fn is_first(&mut self, fields: &Fields<'_>) -> (bool, Counted) {
        if let Some(requests) = fields.requests {
            return (requests <= 1, Counted::FirstRequests);
        }
        if let Some(number) = fields.connection {
            let key = self.hasher.hash_one(("number", number));
            let first = self.note(key, fields, NUMBERED_SILENCE_SECONDS);
            return (first, Counted::Connections);
        }
        let Some(client) = fields.client.as_deref() else {
            return (true, Counted::Lines);
        };
        let has_port = client.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        });
        if !has_port && fields.port.is_none() {
            return (true, Counted::Lines);
        }
        let key = self.hasher.hash_one((client, fields.port.as_deref()));
        (self.note(key, fields, SILENCE_SECONDS), Counted::Clients)
    }

    fn note(&mut self, key: u64, fields: &Fields<'_>, silence_seconds: i64) -> bool {
        let seen = Seen {
            time: fields.time.unwrap_or(Moment(0)).0,
            handshake: self.hasher.hash_one((
                fields.resumed,
                fields.version.as_deref(),
                fields.suite.as_deref(),
                fields.handshake.as_deref(),
            )),
        };
        let before = self.newer.get(&key).or_else(|| self.older.get(&key));
        let known = before.is_some_and(|before| {
            let apart = before.time.abs_diff(seen.time);
            before.handshake == seen.handshake && apart <= silence_seconds.unsigned_abs() * 1_000
        });
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, seen);
        !known
    }
}
