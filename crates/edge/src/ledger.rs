//! The ledger of one worker: what its thread does with its time, and what its connections hold.
//!
//! Work is timed by the monotonic clock, which costs a twentieth of what the thread's own clock does. It
//! runs on while the thread is kept from running: so a section of TLS that took long is asked about, and
//! twice a second all working time is held against the thread's own clock. Going to sleep and waking are
//! the kernel's work, which shows in that one alone; what one sleep takes is learned from it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::time::{ClockId, clock_gettime};
use tollgate_meter::{Meter, RecordDirection};
use tollgate_terms::CpuTime;
use tollgate_tls::timing::Counted;
use tollgate_tls::{Buffers, Clocks, RecordWay, Spent};

use crate::connection::Connection;

/// A thread that waits for less than this has not slept: the kernel had something for it at once.
const SHORT: CpuTime = CpuTime(3_000);

/// What it takes to go to sleep and to wake: a first guess, and what is believed at most.
const SLEEP: CpuTime = CpuTime(3_000);
const LONGEST_SLEEP: CpuTime = CpuTime(20_000);

/// Sleeps from which the price of one can be learned.
const SLEEPS: u64 = 20;

/// Bytes of the heap that the calling thread has taken, less those that it has given back.
pub type ThreadHeap = fn() -> i64;

thread_local! {
    /// When this thread last began to work; 0 while it waits.
    static SINCE: Cell<u64> = const { Cell::new(0) };
    /// When it last began to wait.
    static PARKED: Cell<u64> = const { Cell::new(0) };
    /// Nanoseconds that it has worked.
    static BUSY: Cell<u64> = const { Cell::new(0) };
    /// How often it has slept.
    static SLEPT: Cell<u64> = const { Cell::new(0) };
    /// Working time and CPU time when they were last held against each other.
    static COMPARED: Cell<(CpuTime, CpuTime)> = const { Cell::new((CpuTime(0), CpuTime(0))) };
    /// Working time that belongs to sections of TLS in which the thread did not run.
    static HELD_UP: Cell<u64> = const { Cell::new(0) };
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
    if waited < SHORT.0 {
        SINCE.set(PARKED.get().max(1));
    } else {
        SLEPT.set(SLEPT.get() + 1);
        SINCE.set(now.max(1));
    }
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

/// How long the thread was kept from running since this was last asked, of a section that took so long.
fn held_up(section: CpuTime) -> CpuTime {
    let held_up = compare(busy(), thread_cpu()).min(section);
    HELD_UP.set(HELD_UP.get() + held_up.0);
    held_up
}

/// By how much working time has outrun CPU time since they were last compared.
fn compare(worked: CpuTime, cpu: CpuTime) -> CpuTime {
    let (worked_before, cpu_before) = COMPARED.replace((worked, cpu));
    (worked - worked_before) - (cpu - cpu_before)
}

/// What a worker keeps for its accounts.
pub struct Ledger {
    on: Cell<bool>,
    heap: Option<ThreadHeap>,
    settled: Cell<Standing>,
    /// What one sleep takes, as learned.
    sleep: Cell<CpuTime>,
}

/// The clocks of the thread when accounts were settled.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    cpu: CpuTime,
    worked: CpuTime,
    slept: u64,
    held_up: CpuTime,
}

impl Standing {
    fn now(cpu: CpuTime) -> Self {
        Self {
            cpu,
            worked: busy(),
            slept: SLEPT.get(),
            held_up: CpuTime(HELD_UP.get()),
        }
    }
}

impl Ledger {
    pub fn new(heap: Option<ThreadHeap>) -> Self {
        Self {
            on: Cell::new(false),
            heap,
            settled: Cell::default(),
            sleep: Cell::new(SLEEP),
        }
    }

    /// Keeps accounts from now on, or no longer. What was counted stays.
    pub fn switch(&self, on: bool, buffers: &Buffers) {
        buffers.count_by(on.then_some(Clocks {
            now: monotonic,
            held_up,
        }));
        if on && !self.on.get() {
            let now = Standing::now(thread_cpu());
            compare(now.worked, now.cpu);
            self.settled.set(now);
        }
        self.on.set(on);
    }

    /// Gives the meter what has come together. To be called twice a second or so; `cpu` is the thread's
    /// own clock.
    pub fn settle(&self, cpu: CpuTime, buffers: &Buffers, meter: &mut Meter) {
        if !self.on.get() {
            return;
        }
        let now = Standing::now(cpu);
        let before = self.settled.replace(now);
        compare(now.worked, cpu);
        let ran = cpu - before.cpu;
        let worked = (now.worked - before.worked) - (now.held_up - before.held_up);
        let slept = now.slept - before.slept;
        let mut took = worked.min(ran);
        took += sleeping(ran - took, slept, self.sleep.get());
        if slept >= SLEEPS && ran > worked {
            let each = CpuTime((ran - worked).0 / slept);
            self.sleep.set(each.min(LONGEST_SLEEP));
        }
        let taken = buffers.take_counts();
        meter.handshake_spent(taken.handshakes);
        look_ups(&taken.look_ups, meter);
        for records in taken.records() {
            let direction = match records.way {
                RecordWay::Opened => RecordDirection::Opened,
                RecordWay::Sealed => RecordDirection::Sealed,
            };
            let (count, bytes) = (records.records, records.bytes);
            meter.records(records.suite, direction, count, bytes, records.time);
        }
        meter.busy(took);
    }

    /// Bytes that this thread holds; `None` when nobody can tell.
    pub fn heap(&self) -> Option<i64> {
        let heap = self.heap.filter(|_| self.on.get())?;
        Some(heap())
    }
}

/// Tells the meter of look-ups, tickets and unknown keys of one handshake.
pub fn count_tickets(spent: &Spent, meter: &mut Meter) {
    look_ups(&spent.look_ups, meter);
    for turn in 0..spent.tickets {
        meter.ticket(share(spent.ticket_bytes, spent.tickets, turn));
    }
    if let Some(name) = spent.unknown_key {
        meter.unknown_key(name);
    }
}

fn look_ups(counted: &Counted, meter: &mut Meter) {
    for turn in 0..counted.times {
        meter.look_up(CpuTime(share(counted.time.0, counted.times, turn)));
    }
}

/// `whole` in `shares` parts that differ by one at most, and make `whole` together.
fn share(whole: u64, shares: u32, turn: u32) -> u64 {
    let (shares, turn) = (u64::from(shares), u64::from(turn));
    whole / shares + u64::from(turn < whole % shares)
}

/// What so many sleeps took at `each`, of the time that is `left`.
fn sleeping(left: CpuTime, slept: u64, each: CpuTime) -> CpuTime {
    CpuTime(slept.saturating_mul(each.0)).min(left)
}

/// A part of a connection's trip, each turn of which is weighed: what it takes from the heap and gives
/// back is put to the connection's account, until that has been weighed enough. Buffers of a request come
/// from one task and go with another, so a turn with requests in it tells nothing of its connection.
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
    let Some(before) = ledger.heap().filter(|_| !connection.is_weighed()) else {
        return work();
    };
    let result = work();
    connection.holds_more(ledger.heap().unwrap_or(before) - before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_held_up_by_what_it_worked_and_did_not_run() {
        let start = compare(CpuTime(0), CpuTime(0));
        assert_eq!(start, CpuTime(0));
        assert_eq!(compare(CpuTime(1_000), CpuTime(400)), CpuTime(600));
        assert_eq!(compare(CpuTime(2_000), CpuTime(1_400)), CpuTime(0));
        // Running for longer than working was timed: on the way to sleep and back.
        assert_eq!(compare(CpuTime(2_100), CpuTime(1_600)), CpuTime(0));
    }

    #[test]
    fn shares_make_the_whole() {
        for (whole, shares) in [(10, 3), (9, 3), (0, 2), (7, 1)] {
            let sum: u64 = (0..shares).map(|turn| share(whole, shares, turn)).sum();
            assert_eq!(sum, whole, "{whole} in {shares}");
        }
    }

    #[test]
    fn waiting_is_not_working() {
        wakes();
        parks();
        let (worked, slept) = (busy(), SLEPT.get());
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(busy(), worked, "while it waits");
        wakes();
        assert_eq!(SLEPT.get(), slept + 1);
        let began = monotonic();
        while monotonic() - began < CpuTime(1_000_000) {}
        parks();
        assert!(busy() - worked >= CpuTime(1_000_000));
        assert!(SINCE.get() == 0);
    }

    #[test]
    fn sleeps_cost_no_more_than_there_is() {
        let each = CpuTime(4_000);
        assert_eq!(sleeping(CpuTime(1_000_000), 10, each), CpuTime(40_000));
        assert_eq!(sleeping(CpuTime(30_000), 10, each), CpuTime(30_000));
        assert_eq!(sleeping(CpuTime(u64::MAX), u64::MAX, each).0, u64::MAX);
    }
}
