//! The ledger of one worker: what its thread does with its time, and what its connections hold.
//!
//! Work is timed by the monotonic clock, which costs a twentieth of what the thread's own clock does. It
//! runs on while the thread is kept from running, so twice a second the two are compared, and what was
//! timed is cut by as much as the thread was held up.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::time::{ClockId, clock_gettime};
use tollgate_meter::{Meter, RecordDirection};
use tollgate_terms::{CpuTime, HandshakeCost};
use tollgate_tls::timing::CpuClock;
use tollgate_tls::{Buffers, RecordWay, Spent};

use crate::connection::Connection;
use crate::worker::Worker;

/// A thread that waits for less than this has not slept: the kernel had something for it at once. A
/// longer wait costs the thread this much too, on its way to sleep and back.
const WAKE: CpuTime = CpuTime(3_000);

/// One, as [`Ledger`] scales.
const WHOLE: u64 = 1 << 16;

/// Bytes of the heap that the calling thread has taken, less those that it has given back.
pub type ThreadHeap = fn() -> i64;

thread_local! {
    /// When this thread last began to work; 0 while it waits.
    static SINCE: Cell<u64> = const { Cell::new(0) };
    /// When it last began to wait.
    static PARKED: Cell<u64> = const { Cell::new(0) };
    /// Nanoseconds that it has worked.
    static BUSY: Cell<u64> = const { Cell::new(0) };
}

/// Time by the monotonic clock.
pub fn monotonic() -> CpuTime {
    nanos(ClockId::Monotonic)
}

/// Time that the calling thread has run.
pub fn thread_cpu() -> CpuTime {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(clock: ClockId) -> CpuTime {
    let time = clock_gettime(clock);
    CpuTime(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// To be called when the thread is about to wait.
pub fn parks() {
    let now = monotonic().0;
    PARKED.set(now);
    let since = SINCE.replace(0);
    if since > 0 {
        BUSY.set(BUSY.get() + now.saturating_sub(since));
    }
}

/// To be called when the thread has waited.
pub fn wakes() {
    let now = monotonic().0;
    let waited = now.saturating_sub(PARKED.get());
    SINCE.set(now.saturating_sub(waited.min(WAKE.0)).max(1));
}

/// Time that this thread has not waited until now.
fn busy() -> CpuTime {
    let since = SINCE.get();
    let running = match since {
        0 => 0,
        since => monotonic().0.saturating_sub(since),
    };
    CpuTime(BUSY.get() + running)
}

/// What a worker keeps for its accounts.
pub struct Ledger {
    on: Cell<bool>,
    heap: Option<ThreadHeap>,
    /// Of 65,536: how much of its working time the thread really had of late.
    scale: Cell<u64>,
    /// CPU time and working time when accounts were last settled.
    settled: Cell<(CpuTime, CpuTime)>,
    /// Bytes that were taken in the present turn of a connection, and are not its own.
    foreign: Cell<i64>,
}

impl Ledger {
    pub fn new(heap: Option<ThreadHeap>) -> Self {
        Self {
            on: Cell::new(false),
            heap,
            scale: Cell::new(WHOLE),
            settled: Cell::new((CpuTime(0), CpuTime(0))),
            foreign: Cell::new(0),
        }
    }

    /// Keeps accounts from now on, or no longer. What was counted stays.
    pub fn switch(&self, on: bool, buffers: &Buffers) {
        buffers.count_by(on.then_some(monotonic as CpuClock));
        if on && !self.on.get() {
            self.settled.set((thread_cpu(), busy()));
        }
        self.on.set(on);
    }

    /// What the thread had of this time.
    fn scaled(&self, time: CpuTime) -> CpuTime {
        scaled(time, self.scale.get())
    }

    /// What a handshake took, as far as the thread really ran.
    pub fn cost(&self, spent: &Spent) -> HandshakeCost {
        self.scaled_cost(spent.cost)
    }

    fn scaled_cost(&self, cost: HandshakeCost) -> HandshakeCost {
        HandshakeCost {
            asymmetric: self.scaled(cost.asymmetric),
            derivation: self.scaled(cost.derivation),
        }
    }

    /// Tells the meter of look-ups, tickets and unknown keys of one handshake.
    pub fn tickets(&self, spent: &Spent, meter: &mut Meter) {
        self.look_ups(spent.look_ups.times, spent.look_ups.time, meter);
        for turn in 0..spent.tickets {
            meter.ticket(share(spent.ticket_bytes, spent.tickets, turn));
        }
        if let Some(name) = spent.unknown_key {
            meter.unknown_key(name);
        }
    }

    fn look_ups(&self, times: u32, time: CpuTime, meter: &mut Meter) {
        let time = self.scaled(time).0;
        for turn in 0..times {
            meter.look_up(CpuTime(share(time, times, turn)));
        }
    }

    /// Gives the meter what has come together, cut by as much as the thread was held up meanwhile. To be
    /// called twice a second or so; `cpu` is the thread's own clock.
    pub fn settle(&self, cpu: CpuTime, buffers: &Buffers, meter: &mut Meter) {
        if !self.on.get() {
            return;
        }
        let worked = busy();
        let (cpu_before, worked_before) = self.settled.replace((cpu, worked));
        let (ran, took) = (cpu - cpu_before, worked - worked_before);
        self.scale.set(part(ran, took));
        let taken = buffers.take_counts();
        meter.handshake_spent(self.scaled_cost(taken.handshakes));
        self.look_ups(taken.look_ups.times, taken.look_ups.time, meter);
        for records in taken.records() {
            let direction = match records.way {
                RecordWay::Opened => RecordDirection::Opened,
                RecordWay::Sealed => RecordDirection::Sealed,
            };
            let time = self.scaled(records.time);
            meter.records(
                records.suite,
                direction,
                records.records,
                records.bytes,
                time,
            );
        }
        meter.busy(self.scaled(took));
    }

    /// Bytes that this thread holds; `None` when nobody can tell.
    pub fn heap(&self) -> Option<i64> {
        let heap = self.heap.filter(|_| self.on.get())?;
        Some(heap())
    }

    /// Runs what takes memory, or gives it back, for others than the connection whose turn it is.
    pub fn for_others<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(before) = self.heap() else {
            return work();
        };
        let result = work();
        let taken = self.heap().unwrap_or(before) - before;
        self.foreign.set(self.foreign.get() + taken);
        result
    }
}

/// `whole` in `shares` parts that differ by one at most, and make `whole` together.
fn share(whole: u64, shares: u32, turn: u32) -> u64 {
    let (shares, turn) = (u64::from(shares), u64::from(turn));
    whole / shares + u64::from(turn < whole % shares)
}

/// How much of `took` was running time, of 65,536; all of it when nothing was taken.
fn part(ran: CpuTime, took: CpuTime) -> u64 {
    let part = u128::from(ran.0) * u128::from(WHOLE) / u128::from(took.0.max(1));
    match took.0 {
        0 => WHOLE,
        _ => u64::try_from(part).unwrap_or(WHOLE).min(WHOLE),
    }
}

fn scaled(time: CpuTime, scale: u64) -> CpuTime {
    let scaled = u128::from(time.0) * u128::from(scale) / u128::from(WHOLE);
    CpuTime(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// A part of a connection's trip, each turn of which is weighed: what it takes from the heap and gives
/// back is put to the connection's account. The connection's account is closed when that is dropped, so
/// nothing stays on it that others use on.
pub struct Weighed<'a, F> {
    connection: &'a Rc<Connection>,
    future: Option<F>,
}

impl<'a, F: Future + Unpin> Weighed<'a, F> {
    pub fn new(connection: &'a Rc<Connection>, make: impl FnOnce() -> F) -> Self {
        let mut made = None;
        weigh(connection, || made = Some(make()));
        Self {
            connection,
            future: made,
        }
    }
}

impl<F: Future + Unpin> Future for Weighed<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { connection, future } = self.get_mut();
        weigh(connection, || {
            let Some(running) = future else {
                return Poll::Pending;
            };
            let polled = Pin::new(running).poll(cx);
            if polled.is_ready() {
                *future = None;
            }
            polled
        })
    }
}

fn weigh<T>(connection: &Connection, work: impl FnOnce() -> T) -> T {
    let ledger = &connection.worker.ledger;
    let Some(before) = ledger.heap() else {
        return work();
    };
    ledger.foreign.set(0);
    let result = work();
    let after = ledger.heap().unwrap_or(before);
    connection.holds_more(after - before - ledger.foreign.take());
    result
}

/// Something that a connection waits for and that stays when it is gone: what it takes is not the
/// connection's.
pub struct Foreign<'a, F> {
    worker: &'a Worker,
    future: Option<F>,
}

impl<'a, F: Future + Unpin> Foreign<'a, F> {
    pub fn new(worker: &'a Worker, make: impl FnOnce() -> F) -> Self {
        Self {
            worker,
            future: Some(worker.ledger.for_others(make)),
        }
    }
}

impl<F: Future + Unpin> Future for Foreign<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { worker, future } = self.get_mut();
        worker.ledger.for_others(|| {
            let Some(running) = future else {
                return Poll::Pending;
            };
            let polled = Pin::new(running).poll(cx);
            if polled.is_ready() {
                *future = None;
            }
            polled
        })
    }
}

impl<F> Drop for Foreign<'_, F> {
    fn drop(&mut self) {
        self.worker.ledger.for_others(|| self.future = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_held_up_is_charged_for_what_it_ran() {
        assert_eq!(part(CpuTime(500), CpuTime(1_000)), WHOLE / 2);
        assert_eq!(scaled(CpuTime(1_000), WHOLE / 2), CpuTime(500));
        // Running for longer than working was timed: on the way to sleep and back.
        assert_eq!(part(CpuTime(1_100), CpuTime(1_000)), WHOLE);
        assert_eq!(part(CpuTime(0), CpuTime(0)), WHOLE);
        assert_eq!(part(CpuTime(u64::MAX), CpuTime(1)), WHOLE);
        assert_eq!(scaled(CpuTime(u64::MAX), WHOLE), CpuTime(u64::MAX));
    }

    #[test]
    fn shares_make_the_whole() {
        for (whole, shares) in [(10, 3), (9, 3), (0, 2), (7, 1)] {
            let sum: u64 = (0..shares).map(|turn| share(whole, shares, turn)).sum();
            assert_eq!(sum, whole, "{whole} in {shares}");
        }
    }

    #[test]
    fn waiting_is_not_working_but_waking_is() {
        wakes();
        parks();
        let worked = busy();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(busy(), worked, "while it waits");
        wakes();
        assert!(busy() >= CpuTime(worked.0 + WAKE.0));
        parks();
        assert!(SINCE.get() == 0);
    }
}
