//! What this thread holds and takes from the heap, by the allocator's own counters.

use std::cell::Cell;

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};
use tikv_jemalloc_ctl::{Access, AsName, Mib, epoch};
use tollgate_terms::CpuTime;

use crate::bench::BenchError;

/// The counters of one thread. Sizes are as the allocator rounds them.
///
/// They know what Rust takes, and in the released program also what the C half of the cryptographic library
/// takes, because jemalloc serves both there.
#[derive(Clone, Copy)]
pub(crate) struct Heap {
    allocated: ThreadLocal<u64>,
    deallocated: ThreadLocal<u64>,
    /// Where the arena that this thread has to itself counts small and large allocations.
    taken: [Mib<[usize; 5]>; 2],
}

thread_local! {
    static WATCHED: Cell<Option<Heap>> = const { Cell::new(None) };
    static MOST: Cell<i64> = const { Cell::new(i64::MIN) };
}

impl Heap {
    /// Runs `work` on a thread of its own, with an arena of its own and without a cache, so that what it
    /// takes can be counted to the last allocation.
    ///
    /// # Errors
    /// When this program's allocator is not jemalloc with its statistics, and those of `work`.
    pub(crate) fn alone<T: Send>(
        work: impl FnOnce(Self) -> Result<T, BenchError> + Send,
    ) -> Result<T, BenchError> {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| work(Self::prepare()?)).join();
            done.unwrap_or_else(|_| Err(broken("the measuring thread stopped half-way")))
        })
    }

    fn prepare() -> Result<Self, BenchError> {
        let refused = |error: tikv_jemalloc_ctl::Error| broken(&error.to_string());
        let arena: u32 = c"arenas.create"
            .to_bytes_with_nul()
            .name()
            .read()
            .map_err(refused)?;
        let own = c"thread.arena".to_bytes_with_nul().name();
        own.write(arena).map_err(refused)?;
        let cache = c"thread.tcache.enabled".to_bytes_with_nul().name();
        cache.write(false).map_err(refused)?;
        // An arena that was never summed up has no counters to name.
        epoch::advance().map_err(refused)?;
        // The statistics know of the new arena only from now on.
        epoch::advance().map_err(refused)?;
        let count = |size| {
            let name = format!("stats.arenas.{arena}.{size}.nmalloc\0");
            name.name().mib().map_err(refused)
        };
        let heap = Self {
            allocated: allocatedp::read().map_err(refused)?,
            deallocated: deallocatedp::read().map_err(refused)?,
            taken: [count("small")?, count("large")?],
        };
        let before = heap.allocated();
        let taken = std::hint::black_box(vec![0_u8; 100_000]);
        let moved = heap.allocated() - before >= taken.len() as u64;
        match moved {
            true => Ok(heap),
            false => Err(broken(
                "its allocator is not jemalloc; the released program has it built in",
            )),
        }
    }

    /// Bytes that this thread has taken so far.
    pub(crate) fn allocated(self) -> u64 {
        self.allocated.get()
    }

    /// Bytes that this thread has taken and not given back; less than none when it gave back those of others.
    pub(crate) fn live(self) -> i64 {
        self.allocated.get().wrapping_sub(self.deallocated.get()) as i64
    }

    /// How often this thread has taken memory so far. Takes a moment: all arenas are summed up.
    pub(crate) fn allocations(self) -> Result<u64, BenchError> {
        let refused = |error: tikv_jemalloc_ctl::Error| broken(&error.to_string());
        epoch::advance().map_err(refused)?;
        let [small, large] = self.taken;
        let small: u64 = small.read().map_err(refused)?;
        let large: u64 = large.read().map_err(refused)?;
        Ok(small + large)
    }

    /// Begins to remember the most that was live whenever [`Heap::look`] was called.
    pub(crate) fn begin_looking(self) {
        WATCHED.set(Some(self));
        MOST.set(self.live());
    }

    /// The most that was live, with now.
    pub(crate) fn most(self) -> i64 {
        MOST.get().max(self.live())
    }

    /// A clock of bytes: what this thread has taken so far. Handed to [`tollgate_tls::timing::watched`], it
    /// makes the times of the parts of a handshake the bytes that they took.
    pub(crate) fn look() -> CpuTime {
        let Some(heap) = WATCHED.get() else {
            return CpuTime(0);
        };
        MOST.set(MOST.get().max(heap.live()));
        CpuTime(heap.allocated())
    }
}

fn broken(reason: &str) -> BenchError {
    BenchError::Broken {
        what: "counting memory inside of this program".into(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the tests have jemalloc depends on what they are built together with.
    #[test]
    fn what_is_taken_is_counted_or_it_is_said_that_nobody_counts() {
        let told = Heap::alone(|heap| {
            let before = heap.live();
            let taken = std::hint::black_box(vec![0_u8; 50_000]);
            Ok((heap.live() - before, taken.len() as i64))
        });
        match told {
            Ok((counted, taken)) => assert!((taken..2 * taken).contains(&counted), "{counted}"),
            Err(BenchError::Broken { reason, .. }) => {
                assert!(reason.contains("jemalloc"), "{reason}");
            }
            Err(other) => unreachable!("{other:?}"),
        }
    }
}
