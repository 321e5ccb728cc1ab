//! What TLS takes on one thread: plain sums with one writer, which the worker takes out now and then.
//!
//! Handshakes that succeed give their own account; here come the records, and what belongs to no
//! handshake that anybody hears of: failed ones, abandoned ones, and those towards backends.
//! Sections are synchronous and hold no system call, so the clock may be one that runs on while the
//! thread does not: a section that took longer than its like is asked about.

use std::cell::Cell;

use tollgate_terms::{CipherSuite, CpuTime, HandshakeCost};

use crate::buffers::Buffers;
use crate::provider::DEFAULT_SUITES;
use crate::timing::{Counted, CpuClock, Parts, watched};

/// A section that takes longer than this may have been interrupted. Few handshakes take so long: those
/// with keys of RSA beyond 2,048 bits.
const LONG: CpuTime = CpuTime(1_000_000);

/// By what sections are timed.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Read some ten times per handshake and twice per batch of records.
    pub now: CpuClock,
    /// Of a section that took so long, how much the thread was kept from running meanwhile. Asked only
    /// about sections that took more than a millisecond, so it may cost what a system call costs.
    pub held_up: fn(CpuTime) -> CpuTime,
}

impl Clocks {
    fn held_up(&self, took: CpuTime) -> CpuTime {
        match took > LONG {
            true => (self.held_up)(took).min(took),
            false => CpuTime(0),
        }
    }
}

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWay {
    /// Decrypted, as they came.
    Opened,
    /// Encrypted, to be sent.
    Sealed,
}

/// Records of one suite, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// What protects them; suites that are not ours count as suite 0.
    pub suite: CipherSuite,
    /// Opened or sealed.
    pub way: RecordWay,
    /// How many records.
    pub records: u64,
    /// Plaintext in them, without alerts and handshake messages.
    pub bytes: u64,
    /// What opening or sealing took, with the copies before or after it.
    pub time: CpuTime,
}

/// What one handshake took of this thread, and what it did with tickets. All zero while nobody watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By phase.
    pub cost: HandshakeCost,
    /// Tickets opened and sessions looked for, whether or not they were of use; part of the derivation.
    pub look_ups: Counted,
    /// Tickets made.
    pub tickets: u32,
    /// Bytes of these tickets.
    pub ticket_bytes: u64,
    /// The name of the key that made the ticket, when that is why the handshake is full.
    pub unknown_key: Option<[u8; 16]>,
}

impl Spent {
    /// Adds `took`, of which `parts` are the named ones; for `held_up` of it the thread did not run. That
    /// was in the longer phase, then, or it would not be the longer one.
    fn add(&mut self, took: CpuTime, parts: &Parts, held_up: CpuTime) {
        let mut asymmetric = parts.key_exchange.time;
        asymmetric += parts.signature.time;
        let derivation = took - asymmetric;
        let (asymmetric, derivation) = match asymmetric > derivation {
            true => (asymmetric - held_up, derivation),
            false => (asymmetric, derivation - held_up),
        };
        self.cost.asymmetric += asymmetric;
        self.cost.derivation += derivation;
        self.look_ups.times += parts.look_ups.times;
        self.look_ups.time += parts.look_ups.time;
        self.tickets += parts.issued;
        self.ticket_bytes += parts.issued_bytes;
    }
}

/// The account of one handshake: given once at its end, or else booked when it is dropped.
pub(crate) struct Account {
    spent: Spent,
    buffers: Buffers,
}

impl Account {
    pub(crate) fn open(buffers: &Buffers) -> Self {
        Self {
            spent: Spent::default(),
            buffers: buffers.clone(),
        }
    }

    /// Runs a synchronous part of the handshake and adds what it takes. Has a frame of its own, by which
    /// `bench/ledger` finds the same section in a profile.
    #[inline(never)]
    pub(crate) fn timed<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let Some(clocks) = self.buffers.ledger().clocks() else {
            return work();
        };
        let before = (clocks.now)();
        let (result, parts) = watched(clocks.now, work);
        let took = (clocks.now)() - before;
        self.spent.add(took, &parts, clocks.held_up(took));
        result
    }

    /// For a handshake that succeeded.
    pub(crate) fn close(mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.buffers.ledger().book(&self.spent);
    }
}

/// What has come together since it was last taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Of handshakes that failed or were abandoned, and of those towards backends.
    pub handshakes: HandshakeCost,
    /// Of the same handshakes.
    pub look_ups: Counted,
    records: Table,
}

impl Taken {
    /// Per suite and way, without those that had none.
    pub fn records(&self) -> impl Iterator<Item = Records> {
        let rows = self.records.into_iter().enumerate();
        rows.flat_map(|(suite, row)| {
            let suite = DEFAULT_SUITES.get(suite).copied().unwrap_or(CipherSuite(0));
            let ways = [RecordWay::Opened, RecordWay::Sealed].into_iter().zip(row);
            ways.filter(|(_, sum)| sum.time.0 > 0 || sum.records > 0)
                .map(move |(way, sum)| Records {
                    suite,
                    way,
                    records: sum.records,
                    bytes: sum.bytes,
                    time: sum.time,
                })
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    records: u64,
    bytes: u64,
    time: CpuTime,
}

/// Per suite, the last row for others; per way.
type Table = [[Sum; 2]; DEFAULT_SUITES.len() + 1];

/// The sums of one thread.
#[derive(Default)]
pub(crate) struct Ledger {
    clocks: Cell<Option<Clocks>>,
    handshakes: Cell<HandshakeCost>,
    look_ups: Cell<Counted>,
    records: [[Cell<Sum>; 2]; DEFAULT_SUITES.len() + 1],
}

/// Which row of the table a suite has.
pub(crate) fn suite_row(suite: CipherSuite) -> u8 {
    let row = DEFAULT_SUITES.iter().position(|known| *known == suite);
    row.unwrap_or(DEFAULT_SUITES.len()) as u8
}

impl Ledger {
    pub(crate) fn set_clocks(&self, clocks: Option<Clocks>) {
        self.clocks.set(clocks);
    }

    pub(crate) fn clocks(&self) -> Option<Clocks> {
        self.clocks.get()
    }

    /// Takes in a handshake that nobody gives an account of.
    fn book(&self, spent: &Spent) {
        let mut handshakes = self.handshakes.get();
        handshakes += spent.cost;
        self.handshakes.set(handshakes);
        let mut look_ups = self.look_ups.get();
        look_ups.times += spent.look_ups.times;
        look_ups.time += spent.look_ups.time;
        self.look_ups.set(look_ups);
    }

    pub(crate) fn record(
        &self,
        suite_row: u8,
        way: RecordWay,
        (records, bytes): (usize, usize),
        time: CpuTime,
    ) {
        let Some(row) = self.records.get(usize::from(suite_row)) else {
            return;
        };
        let held_up = self
            .clocks()
            .map_or(CpuTime(0), |clocks| clocks.held_up(time));
        let cell = &row[way as usize];
        let mut sum = cell.get();
        sum.records += records as u64;
        sum.bytes += bytes as u64;
        sum.time += time - held_up;
        cell.set(sum);
    }

    pub(crate) fn take(&self) -> Taken {
        let mut taken = Taken {
            handshakes: self.handshakes.take(),
            look_ups: self.look_ups.take(),
            records: Table::default(),
        };
        for (sums, row) in taken.records.iter_mut().zip(&self.records) {
            for (sum, cell) in sums.iter_mut().zip(row) {
                *sum = cell.take();
            }
        }
        taken
    }
}
