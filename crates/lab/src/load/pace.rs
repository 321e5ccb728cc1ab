//! The clock of an open loop: operations are due at their times, whatever became of earlier ones.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

/// Due times at an even rate. What is due and not yet begun waits in line, oldest first.
///
/// The runtime's own timers know whole milliseconds only, many times what an operation takes: this
/// uses one of the kernel's, with nanoseconds.
pub(crate) struct Pace {
    began: Instant,
    rate: f64,
    due: Semaphore,
    released: Cell<u64>,
    taken: Cell<u64>,
}

impl Pace {
    /// `rate` operations per second, the first after `delay`.
    pub(crate) fn new(rate: f64, delay: Duration) -> Self {
        Self {
            began: Instant::now() + delay,
            rate,
            due: Semaphore::new(0),
            released: Cell::new(0),
            taken: Cell::new(0),
        }
    }

    /// Lets operations begin when they are due, until the pace is closed.
    ///
    /// # Errors
    /// When the kernel gives no timer.
    pub(crate) async fn keep(&self) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = register(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        while !self.due.is_closed() {
            let now = Instant::now();
            while self.released.get() < self.due_by(now) {
                self.released.set(self.released.get() + 1);
                self.due.add_permits(1);
            }
            let wait = self
                .time(self.released.get())
                .saturating_duration_since(now);
            ring_after(&timer, wait.max(Duration::from_nanos(1)))?;
            heard(&timer).await?;
        }
        Ok(())
    }

    /// When the next operation was due; waits until it is. `None` after the end.
    pub(crate) async fn take(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let number = self.taken.get();
        self.taken.set(number + 1);
        Some(self.time(number))
    }

    /// Nothing begins any more.
    pub(crate) fn close(&self) {
        self.due.close();
    }

    /// Operations that are due and have not begun.
    pub(crate) fn waiting(&self) -> u64 {
        self.due_by(Instant::now()).saturating_sub(self.taken.get())
    }

    fn due_by(&self, now: Instant) -> u64 {
        match now.checked_duration_since(self.began) {
            Some(since) => (since.as_secs_f64() * self.rate) as u64 + 1,
            None => 0,
        }
    }

    fn time(&self, number: u64) -> Instant {
        self.began + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

#[expect(
    deprecated,
    reason = "deprecated for types whose descriptor may change; that of an OwnedFd cannot, and the new way is unsafe"
)]
fn register(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(timer)
}

fn ring_after(timer: &AsyncFd<OwnedFd>, wait: Duration) -> io::Result<()> {
    let at = |duration: Duration| Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    };
    let once = Itimerspec {
        it_interval: at(Duration::ZERO),
        it_value: at(wait),
    };
    timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

async fn heard(timer: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = timer.readable().await?;
        let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
        match read {
            Ok(read) => return read.map(|_| ()),
            Err(_would_block) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local};

    #[tokio::test(flavor = "current_thread")]
    async fn operations_are_due_at_even_times_and_a_late_one_keeps_its_time() {
        let test = async {
            let pace = Rc::new(Pace::new(1000.0, Duration::ZERO));
            let keeper = Rc::clone(&pace);
            let keeping = spawn_local(async move { keeper.keep().await });
            let first = pace.take().await.unwrap();
            // Nobody takes for a while: what was due meanwhile is handed out with its own times.
            tokio::time::sleep(Duration::from_millis(30)).await;
            for number in 1..20_u32 {
                let due = pace.take().await.unwrap();
                assert_eq!(
                    (due - first).as_micros().div_ceil(100),
                    (Duration::from_millis(1) * number)
                        .as_micros()
                        .div_ceil(100)
                );
                assert!(due <= Instant::now());
            }
            assert!(pace.waiting() >= 5);
            pace.close();
            assert!(pace.take().await.is_none());
            keeping.await.unwrap().unwrap();
        };
        LocalSet::new().run_until(test).await;
    }
}
