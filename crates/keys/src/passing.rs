//! A ring as bytes, to be handed to the next process of a binary upgrade.
//!
//! `TGKR`, version, `issue` and `accept` in seconds, number of keys, then each key: name, secret, `opens`.
//! Numbers are big-endian. Whoever holds these bytes reads every session: they go through a pipe or a
//! sealed memory file and never to a disk.

use std::time::Duration;

use thiserror::Error;
use tollgate_terms::UnixTime;
use zeroize::Zeroizing;

use crate::{Lifetimes, LifetimesError, MAX_KEYS, Ring, TicketKey};

const MAGIC: &[u8; 4] = b"TGKR";
const VERSION: u8 = 1;
/// Magic, version, two durations, number of keys.
const HEAD_BYTES: usize = 4 + 1 + 8 + 8 + 1;
/// Name, secret, opening.
const KEY_BYTES: usize = 16 + 32 + 8;

/// Why bytes are no exported ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The bytes do not begin as an exported ring does.
    #[error("these bytes are no ticket key ring; start with a new one")]
    NotARing,
    /// A version that this program does not know.
    #[error(
        "ticket key ring is of version {0}, this program reads version 1; start with a new ring"
    )]
    UnknownVersion(u8),
    /// Zero keys, or more than [`MAX_KEYS`].
    #[error("ticket key ring holds {0} keys, 1 to 64 are allowed; start with a new ring")]
    KeyCount(usize),
    /// Shorter or longer than the number of keys asks for.
    #[error(
        "ticket key ring is {found} bytes long where {wanted} are expected; start with a new ring"
    )]
    Length {
        /// Bytes handed in.
        found: usize,
        /// Bytes that the header asks for.
        wanted: usize,
    },
    /// Two keys of one name.
    #[error("ticket key ring holds two keys of one name; start with a new ring")]
    SameName,
    /// The lifetimes are out of range.
    #[error(transparent)]
    Lifetimes(#[from] LifetimesError),
}

impl Ring {
    /// The whole ring, secrets included, as bytes for [`Ring::import`]; at most 4 KB, wiped when dropped.
    pub fn export(&self) -> Zeroizing<Vec<u8>> {
        // The full capacity at once: a vector that grows leaves copies of secrets behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(
            HEAD_BYTES + self.keys().len() * KEY_BYTES,
        ));
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.lifetimes().issue().as_secs().to_be_bytes());
        bytes.extend_from_slice(&self.lifetimes().accept().as_secs().to_be_bytes());
        bytes.push(u8::try_from(self.keys().len()).unwrap_or(u8::MAX));
        for key in self.keys() {
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(key.secret.as_slice());
            bytes.extend_from_slice(&key.opens.0.to_be_bytes());
        }
        bytes
    }

    /// The ring that [`Ring::export`] wrote. Times are absolute: follow with [`Ring::turn`].
    ///
    /// # Errors
    /// When the bytes are of another kind, version or length, or say what no ring is.
    pub fn import(bytes: &[u8]) -> Result<Self, ImportError> {
        let (head, body) = bytes
            .split_first_chunk::<HEAD_BYTES>()
            .filter(|(head, _)| head.starts_with(MAGIC))
            .ok_or(ImportError::NotARing)?;
        if head[4] != VERSION {
            return Err(ImportError::UnknownVersion(head[4]));
        }
        let lifetimes = Lifetimes::new(
            Duration::from_secs(number(&head[5..13])),
            Duration::from_secs(number(&head[13..21])),
        )?;
        let count = usize::from(head[21]);
        if count == 0 || count > MAX_KEYS {
            return Err(ImportError::KeyCount(count));
        }
        if body.len() != count * KEY_BYTES {
            return Err(ImportError::Length {
                found: bytes.len(),
                wanted: HEAD_BYTES + count * KEY_BYTES,
            });
        }
        let keys: Vec<TicketKey> = body.chunks_exact(KEY_BYTES).map(key).collect();
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].iter().any(|other| other.name == key.name) {
                return Err(ImportError::SameName);
            }
        }
        Ok(Self::of(lifetimes, keys))
    }
}

/// Reads one key from exactly [`KEY_BYTES`] bytes.
fn key(bytes: &[u8]) -> TicketKey {
    let mut name = [0; 16];
    let mut secret = Zeroizing::new([0; 32]);
    name.copy_from_slice(&bytes[..16]);
    secret.copy_from_slice(&bytes[16..48]);
    TicketKey {
        name,
        secret,
        opens: UnixTime(number(&bytes[48..])),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
