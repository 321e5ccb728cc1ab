//! Scratch space that all connections of a worker share.

use std::cell::RefCell;
use std::rc::Rc;

use crate::ledger::{Clocks, Ledger, Taken};

/// Room for the longest handshake message that the library takes (64 KB) and a record on top.
pub(crate) const INPUT_BYTES: usize = 96 * 1024;

/// How much is read at a time beyond what is already there: two records of full length.
pub(crate) const READ_BYTES: usize = 33 * 1024;

/// Plaintext encrypted in one go: two records of full length.
pub(crate) const BATCH_BYTES: usize = 32 * 1024;

/// RFC 8446, section 5.1.
pub(crate) const RECORD_BYTES: usize = 16 * 1024;

/// Room for a batch in records (header, tag, nonce and content type are 29 bytes each at most), and for
/// handshake bytes held back before it: a ticket is at most 64 KB, when a client's chain is in it.
const OUTPUT_BYTES: usize = BATCH_BYTES + 72 * 1024;

/// One worker's scratch space. Clones share it; it must not leave its thread.
///
/// A connection borrows it for one synchronous call and leaves nothing in it.
#[derive(Clone)]
pub struct Buffers(Rc<Inner>);

struct Inner {
    input: RefCell<Box<[u8]>>,
    gather: RefCell<Box<[u8]>>,
    output: RefCell<Box<[u8]>>,
    flight: RefCell<Vec<u8>>,
    ledger: Ledger,
}

impl Buffers {
    /// About 220 KB of address space, once per worker.
    pub fn new() -> Self {
        Self(Rc::new(Inner {
            input: RefCell::new(vec![0; INPUT_BYTES].into()),
            gather: RefCell::new(vec![0; RECORD_BYTES].into()),
            output: RefCell::new(vec![0; OUTPUT_BYTES].into()),
            flight: RefCell::new(Vec::new()),
            ledger: Ledger::default(),
        }))
    }

    /// Counts from now on what TLS takes, by these clocks; `None`, as it begins, counts nothing.
    pub fn count_by(&self, clocks: Option<Clocks>) {
        self.0.ledger.set_clocks(clocks);
    }

    /// What was counted since this was last called, beside the accounts of handshakes that succeeded.
    pub fn take_counts(&self) -> Taken {
        self.0.ledger.take()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Bytes as received.
    pub(crate) fn input(&self) -> &RefCell<Box<[u8]>> {
        &self.0.input
    }

    /// Plaintext of one record, put together from pieces.
    pub(crate) fn gather(&self) -> &RefCell<Box<[u8]>> {
        &self.0.gather
    }

    /// Records to be sent.
    pub(crate) fn output(&self) -> &RefCell<Box<[u8]>> {
        &self.0.output
    }

    /// Handshake messages to be sent.
    pub(crate) fn flight(&self) -> &RefCell<Vec<u8>> {
        &self.0.flight
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}
