//! What a server says in the clear: whether it asks for another key share, and its TLS 1.2 ticket.
//!
//! The library acts on both and tells of neither in every case, so that they are read on their way in.
//! Nothing is judged here; whatever makes no sense is left to the library, which will refuse it.

use super::details::TicketSeen;
use crate::records::{HEADER_BYTES, content};

/// Enough of a message to know what it says: a ServerHello to the end of its random.
const HEAD_BYTES: usize = 4 + 2 + 32;

const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;

/// The random of a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// A reader of records and messages that come in pieces. Keeps [`HEAD_BYTES`] of one message at most.
#[derive(Default)]
pub(super) struct Wire {
    /// Nothing more comes in the clear.
    ended: bool,
    /// Bytes of the present record that have not come yet.
    record: usize,
    header: Head<HEADER_BYTES>,
    /// Bytes of the present message that have not come yet, once its head is there.
    message: usize,
    head: Head<HEAD_BYTES>,
    retried: bool,
    ticket: Option<TicketSeen>,
}

impl Wire {
    pub(super) fn retried(&self) -> bool {
        self.retried
    }

    pub(super) fn ticket(&self) -> Option<TicketSeen> {
        self.ticket
    }

    /// Takes in what came next.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !self.ended && !bytes.is_empty() {
            if self.record == 0 {
                bytes = self.header.fill(bytes, HEADER_BYTES);
                if let Some([kind, _, _, high, low]) = self.header.take() {
                    self.record = usize::from(u16::from_be_bytes([high, low]));
                    self.ended = kind != content::HANDSHAKE;
                }
            } else {
                let (piece, rest) = bytes.split_at(self.record.min(bytes.len()));
                self.record -= piece.len();
                self.messages(piece);
                bytes = rest;
            }
        }
    }

    fn messages(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.message > 0 {
                let (_, rest) = bytes.split_at(self.message.min(bytes.len()));
                self.message -= bytes.len() - rest.len();
                bytes = rest;
                continue;
            }
            bytes = self.head.fill(bytes, 4);
            if self.head.length < 4 {
                return;
            }
            let [kind, high, middle, low, ..] = self.head.bytes;
            let length = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
            bytes = self.head.fill(bytes, length.min(HEAD_BYTES));
            if self.head.length < length.min(HEAD_BYTES) {
                return;
            }
            self.message = length - self.head.length;
            self.note(kind);
            self.head.length = 0;
        }
    }

    fn note(&mut self, kind: u8) {
        let body = &self.head.bytes[4..self.head.length];
        match kind {
            SERVER_HELLO => self.retried |= body.get(2..34) == Some(&RETRY[..]),
            NEW_SESSION_TICKET => self.ticket = TicketSeen::in_tls12(body),
            _ => {}
        }
    }
}

/// The beginning of something.
struct Head<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Head<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }
}

impl<const N: usize> Head<N> {
    /// Takes from the front of `bytes` until `wanted`, at most `N`, are here; gives back the rest.
    fn fill<'b>(&mut self, bytes: &'b [u8], wanted: usize) -> &'b [u8] {
        let missing = wanted.min(N).saturating_sub(self.length);
        let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
        self.bytes[self.length..self.length + piece.len()].copy_from_slice(piece);
        self.length += piece.len();
        rest
    }

    /// All of it when it is complete, to begin anew.
    fn take(&mut self) -> Option<[u8; N]> {
        let whole = (self.length == N).then_some(self.bytes);
        if whole.is_some() {
            self.length = 0;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut record = vec![kind, 3, 3];
        record.extend((body.len() as u16).to_be_bytes());
        record.extend(body);
        record
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = (body.len() as u32).to_be_bytes().to_vec();
        message[0] = kind;
        message.extend(body);
        message
    }

    fn hello(random: &[u8; 32]) -> Vec<u8> {
        message(SERVER_HELLO, &[&[3, 3], &random[..], &[7; 300]].concat())
    }

    #[test]
    fn a_retry_and_a_ticket_are_seen_however_the_bytes_are_cut() {
        let ticket = message(NEW_SESSION_TICKET, &[0, 0, 1, 44, 0, 2, 5, 5]);
        let empty = message(14, &[]);
        let stream = [hello(&RETRY), message(11, &[1; 700]), empty, ticket].concat();
        for fragment in [1, 7, 300, 16_384] {
            let records: Vec<u8> = stream
                .chunks(fragment)
                .flat_map(|chunk| record(content::HANDSHAKE, chunk))
                .collect();
            for piece in [1, 2, 5, 1000, records.len()] {
                let mut wire = Wire::default();
                for bytes in records.chunks(piece) {
                    wire.read(bytes);
                }
                assert!(wire.retried(), "{fragment} {piece}");
                assert_eq!(wire.ticket().unwrap().bytes, 2, "{fragment} {piece}");
            }
        }
    }

    #[test]
    fn an_ordinary_hello_is_no_retry_and_nothing_is_read_behind_the_clear() {
        let mut wire = Wire::default();
        wire.read(&record(content::HANDSHAKE, &hello(&[1; 32])));
        wire.read(&record(content::CHANGE_CIPHER_SPEC, &[1]));
        wire.read(&record(content::HANDSHAKE, &hello(&RETRY)));
        assert!(!wire.retried() && wire.ticket().is_none());
    }
}
