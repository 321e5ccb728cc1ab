//! New keys for an established connection (RFC 8446, section 7.2), and where its tickets go.
//!
//! A server keeps the two traffic secrets of a TLS 1.3 connection, about a hundred bytes. The library
//! would keep six hundred, and gives the secrets away only while it logs them, so that is where they
//! are taken from. A client leaves its updates to the library, which it needs for its tickets anyway.

use std::cell::RefCell;

use aws_lc_rs::aead::{Algorithm, NONCE_LEN};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, Prk};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::{Error, KeyLog};
use zeroize::Zeroizing;

use crate::client::TicketSeen;
use crate::records::RecordKey;

/// The output of SHA-384, the longest hash of a suite.
const LONGEST_SECRET_BYTES: usize = 48;

/// Where new keys come from, and where tickets go.
pub(crate) enum Updates {
    /// TLS 1.2.
    Never,
    /// A server in TLS 1.3.
    Own(Box<TrafficSecrets>),
    /// A client in TLS 1.3.
    Library(Box<LibraryUpdates>),
}

/// Tickets of one connection that are remembered; more are kept for resumption but not described.
const MOST_TICKETS_SEEN: usize = 16;

/// What the library keeps for a client after its handshake, and the tickets that have come.
pub(crate) struct LibraryUpdates {
    kernel: KernelConnection<ClientConnectionData>,
    tickets: Vec<TicketSeen>,
}

impl LibraryUpdates {
    pub(crate) fn new(kernel: KernelConnection<ClientConnectionData>) -> Self {
        Self {
            kernel,
            tickets: Vec::new(),
        }
    }

    /// Takes in a ticket: its message without the header.
    pub(crate) fn ticket(&mut self, message: &[u8]) -> Result<(), Error> {
        self.kernel.handle_new_session_ticket(message)?;
        if self.tickets.len() < MOST_TICKETS_SEEN {
            self.tickets.extend(TicketSeen::in_tls13(message));
        }
        Ok(())
    }

    pub(crate) fn tickets(&self) -> &[TicketSeen] {
        &self.tickets
    }
}

impl Updates {
    /// The key that follows `current` in the peer's direction.
    pub(crate) fn reading(&mut self, current: &RecordKey) -> Result<RecordKey, Error> {
        match self {
            Self::Never => Err(Error::HandshakeNotComplete),
            Self::Own(secrets) => secrets.client.next(current.algorithm()),
            Self::Library(library) => RecordKey::of(&library.kernel.update_rx_secret()?),
        }
    }

    /// The key that follows `current` in our direction.
    pub(crate) fn writing(&mut self, current: &RecordKey) -> Result<RecordKey, Error> {
        match self {
            Self::Never => Err(Error::EncryptError),
            Self::Own(secrets) => secrets.server.next(current.algorithm()),
            Self::Library(library) => RecordKey::of(&library.kernel.update_tx_secret()?),
        }
    }
}

/// The secrets from which the keys of both directions come. Wiped when dropped.
#[derive(Default)]
pub(crate) struct TrafficSecrets {
    client: Secret,
    server: Secret,
}

#[derive(Default)]
struct Secret {
    bytes: Zeroizing<Bytes>,
    length: u8,
}

impl Secret {
    /// Copies a secret to where it stays, since what is moved leaves a trace behind.
    fn keep(&mut self, secret: &[u8]) {
        if let Some(kept) = self.bytes.0.get_mut(..secret.len()) {
            kept.copy_from_slice(secret);
            self.length = secret.len() as u8;
        }
    }

    /// Goes on to the next secret, and returns its key.
    fn next(&mut self, algorithm: &'static Algorithm) -> Result<RecordKey, Error> {
        let length = usize::from(self.length);
        let mut next = Zeroizing::new(Bytes::default());
        self.expand(b"traffic upd", &mut next.0[..length])?;
        self.keep(&next.0[..length]);
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..algorithm.key_len()];
        self.expand(b"key", key)?;
        let mut iv = Zeroizing::new([0; NONCE_LEN]);
        self.expand(b"iv", &mut *iv)?;
        RecordKey::new(algorithm, key, *iv, 0).ok_or(Error::EncryptError)
    }

    /// HKDF-Expand-Label without context (RFC 8446, section 7.1).
    fn expand(&self, label: &[u8], output: &mut [u8]) -> Result<(), Error> {
        let hash = match self.length {
            32 => HKDF_SHA256,
            48 => HKDF_SHA384,
            _ => return Err(Error::HandshakeNotComplete),
        };
        let secret = Prk::new_less_safe(hash, &self.bytes.0[..usize::from(self.length)]);
        let (length, label_length) = (output.len() as u8, label.len() as u8 + 6);
        let info = [&[0, length, label_length][..], b"tls13 ", label, &[0]];
        let expanded = secret.expand(&info, Length(output.len()));
        expanded
            .and_then(|expanded| expanded.fill(output))
            .map_err(|_| Error::EncryptError)
    }
}

/// Room for a secret.
struct Bytes([u8; LONGEST_SECRET_BYTES]);

impl Default for Bytes {
    fn default() -> Self {
        Self([0; LONGEST_SECRET_BYTES])
    }
}

impl zeroize::Zeroize for Bytes {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

thread_local! {
    /// From the library's log to the end of the same handshake step, which never awaits.
    static LOGGED: RefCell<Option<Box<TrafficSecrets>>> = const { RefCell::new(None) };
}

/// The secrets that the library has logged on this thread since this was called last.
pub(crate) fn take_logged() -> Option<Box<TrafficSecrets>> {
    LOGGED.take()
}

/// Writes nothing anywhere: keeps two secrets for [`take_logged`].
#[derive(Debug)]
pub(crate) struct Keep;

impl KeyLog for Keep {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        LOGGED.with_borrow_mut(|logged| match label {
            "CLIENT_TRAFFIC_SECRET_0" => logged.get_or_insert_default().client.keep(secret),
            "SERVER_TRAFFIC_SECRET_0" => logged.get_or_insert_default().server.keep(secret),
            _ => {}
        });
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, "CLIENT_TRAFFIC_SECRET_0" | "SERVER_TRAFFIC_SECRET_0")
    }
}
