//! Where the time of a handshake goes: key exchange, signatures, tickets; the rest is the rest.
//!
//! The places in question are always compiled in. They cost one look at a thread-local while nobody
//! watches, and two readings of the clock while somebody does. The clock is handed in by whoever
//! watches; a handshake step never awaits, so what is counted on a thread belongs to its caller.

use std::cell::Cell;

use tollgate_terms::CpuTime;

/// What a reading of the caller's clock gives: time so far, from any beginning.
pub type CpuClock = fn() -> CpuTime;

/// How often something was done, and how long that took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Each with one reading of the clock in its time.
    pub times: u32,
    /// As the clock of [`watched`] shows it.
    pub time: CpuTime,
}

/// The named parts of what ran under [`watched`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Making key shares and agreeing on a secret.
    pub key_exchange: Counted,
    /// Signing with the private key of a certificate.
    pub signature: Counted,
    /// Sealing and opening tickets.
    pub tickets: Counted,
    /// Opening tickets and looking for sessions; the tickets among them are in `tickets` as well.
    pub look_ups: Counted,
    /// Tickets sealed, and their bytes.
    pub issued: u32,
    /// See `issued`.
    pub issued_bytes: u64,
}

impl Parts {
    /// Nothing yet.
    const NONE: Self = Self {
        key_exchange: Counted::NONE,
        signature: Counted::NONE,
        tickets: Counted::NONE,
        look_ups: Counted::NONE,
        issued: 0,
        issued_bytes: 0,
    };

    /// Key exchange, signatures and tickets together.
    pub fn total(&self) -> Counted {
        let parts = [self.key_exchange, self.signature, self.tickets];
        parts.into_iter().fold(Counted::NONE, |sum, part| Counted {
            times: sum.times + part.times,
            time: CpuTime(sum.time.0 + part.time.0),
        })
    }
}

impl Counted {
    const NONE: Self = Self {
        times: 0,
        time: CpuTime(0),
    };

    fn add(&mut self, took: CpuTime) {
        self.times += 1;
        self.time += took;
    }
}

/// A part that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    KeyExchange,
    Signature,
    /// Sealing a ticket.
    Seal,
    /// Opening a ticket.
    Open,
    /// Looking for a session.
    Find,
}

thread_local! {
    /// The clock of whoever watches this thread; `None` while nobody does.
    static CLOCK: Cell<Option<CpuClock>> = const { Cell::new(None) };
    static PARTS: Cell<Parts> = const { Cell::new(Parts::NONE) };
}

/// Runs `work`, which belongs to this thread, and says what its parts took by `clock`.
///
/// Inside of another `watched` it takes the parts for itself.
pub fn watched<T>(clock: CpuClock, work: impl FnOnce() -> T) -> (T, Parts) {
    let outer = Restore {
        clock: CLOCK.replace(Some(clock)),
        parts: PARTS.replace(Parts::NONE),
    };
    let result = work();
    let parts = PARTS.get();
    drop(outer);
    (result, parts)
}

/// Puts back what was watched before, also when the work panics.
struct Restore {
    clock: Option<CpuClock>,
    parts: Parts,
}

impl Drop for Restore {
    fn drop(&mut self) {
        CLOCK.set(self.clock);
        PARTS.set(self.parts);
    }
}

/// Runs one part. Parts do not nest.
pub(crate) fn part<T>(part: Part, work: impl FnOnce() -> T) -> T {
    match CLOCK.get() {
        None => work(),
        Some(clock) => {
            let before = clock();
            let result = work();
            add(part, clock() - before);
            result
        }
    }
}

fn add(part: Part, took: CpuTime) {
    let mut parts = PARTS.get();
    match part {
        Part::KeyExchange => parts.key_exchange.add(took),
        Part::Signature => parts.signature.add(took),
        Part::Seal => parts.tickets.add(took),
        Part::Open => {
            parts.tickets.add(took);
            parts.look_ups.add(took);
        }
        Part::Find => parts.look_ups.add(took),
    }
    PARTS.set(parts);
}

/// Notes a ticket of so many bytes.
pub(crate) fn issued(bytes: usize) {
    if CLOCK.get().is_some() {
        let mut parts = PARTS.get();
        parts.issued += 1;
        parts.issued_bytes += bytes as u64;
        PARTS.set(parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// A clock that moves ten on with every reading.
    fn clock() -> CpuTime {
        NOW.set(NOW.get() + 10);
        CpuTime(NOW.get())
    }

    #[test]
    fn parts_are_counted_only_while_somebody_watches() {
        let before = NOW.get();
        assert_eq!(part(Part::Signature, || 1), 1);
        assert_eq!(NOW.get(), before, "the clock was read for nobody");
        let (result, parts) = watched(clock, || {
            part(Part::Signature, || 2) + part(Part::Open, || part_free(3))
        });
        assert_eq!(result, 5);
        assert_eq!((parts.signature.times, parts.signature.time.0), (1, 10));
        assert_eq!((parts.tickets.times, parts.tickets.time.0), (1, 10));
        assert_eq!(parts.key_exchange, Counted::default());
        assert_eq!(parts.look_ups, parts.tickets, "one was opened, none sealed");
        assert_eq!((parts.total().times, parts.total().time.0), (2, 20));
    }

    fn part_free(value: u32) -> u32 {
        value
    }

    #[test]
    fn an_inner_watch_keeps_its_parts_to_itself() {
        let (inner, outer) = watched(clock, || {
            part(Part::KeyExchange, || ());
            watched(clock, || part(Part::Signature, || ())).1
        });
        assert_eq!((inner.key_exchange.times, inner.signature.times), (0, 1));
        assert_eq!((outer.key_exchange.times, outer.signature.times), (1, 0));
    }

    #[test]
    fn a_panic_ends_the_watch() {
        let caught = std::panic::catch_unwind(|| watched(clock, || panic!("as a test")));
        assert!(caught.is_err());
        assert!(CLOCK.get().is_none());
    }
}
