//! How many bytes of the heap a thread holds, by the counters of the allocator that is built in.

use tollgate_edge::ThreadHeap;

/// What tells a thread's bytes; `None` when another allocator is built in, which does not count them.
///
/// Counts what Rust takes and what the C half of the cryptographic library takes, as the allocator rounds it.
#[cfg(feature = "jemalloc")]
pub fn of_threads() -> Option<ThreadHeap> {
    use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

    thread_local! {
        static COUNTERS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
            allocatedp::read().ok().zip(deallocatedp::read().ok());
    }
    fn held() -> i64 {
        COUNTERS.with(|counters| match counters {
            Some((taken, given)) => taken.get().wrapping_sub(given.get()).cast_signed(),
            None => 0,
        })
    }
    let counts = COUNTERS.with(Option::is_some);
    counts.then_some(held)
}

/// What tells a thread's bytes; `None` when another allocator is built in, which does not count them.
#[cfg(not(feature = "jemalloc"))]
pub fn of_threads() -> Option<ThreadHeap> {
    None
}
