//! Counters found by a small number: an open-addressed table that grows to a limit and no further.

/// Odd, and spread over all bits (the golden ratio times 2^64, as in Fibonacci hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST_SLOTS: usize = 32;

/// Counts by key. `cargo bench -p tollgate-meter` shows what it takes beside the standard map.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Key plus one (zero is an empty slot) and its count; a power of two of them, at most three quarters full.
    slots: Vec<(u64, u64)>,
    used: usize,
    limit: usize,
    overflow: u64,
}

impl Counts {
    /// Counts of at most `limit` keys; what comes for further keys is counted together.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: vec![(0, 0); FIRST_SLOTS],
            used: 0,
            limit,
            overflow: 0,
        }
    }

    /// Adds one to the count of `key`, which is below `u64::MAX`.
    pub(crate) fn add(&mut self, key: u64) {
        let index = self.slot(key + 1);
        let (stored, count) = &mut self.slots[index];
        if *stored != 0 {
            *count += 1;
            return;
        }
        if self.used == self.limit {
            self.overflow += 1;
            return;
        }
        (*stored, *count) = (key + 1, 1);
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    /// Every key with its count, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.slots
            .iter()
            .filter(|(stored, _)| *stored != 0)
            .map(|(stored, count)| (stored - 1, *count))
    }

    /// What was counted for keys beyond the limit.
    pub(crate) fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The slot that holds `stored`, or the empty one where it belongs.
    fn slot(&self, stored: u64) -> usize {
        let mask = self.slots.len() - 1;
        // The high bits of the product are the well-mixed ones.
        let mut index = (stored.wrapping_mul(SPREAD) >> 32) as usize & mask;
        while self.slots[index].0 != stored && self.slots[index].0 != 0 {
            index = (index + 1) & mask;
        }
        index
    }

    fn grow(&mut self) {
        let doubled = vec![(0, 0); self.slots.len() * 2];
        for (stored, count) in std::mem::replace(&mut self.slots, doubled) {
            if stored != 0 {
                let index = self.slot(stored);
                self.slots[index] = (stored, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_agree_with_a_standard_map_up_to_the_limit(
            keys in prop::collection::vec(0_u64..200, 0..2_000),
            limit in 1_usize..300,
        ) {
            let mut counts = Counts::new(limit);
            let mut expected: HashMap<u64, u64> = HashMap::new();
            let mut overflow = 0;
            for key in keys {
                counts.add(key << 20);
                if expected.len() < limit || expected.contains_key(&(key << 20)) {
                    *expected.entry(key << 20).or_default() += 1;
                } else {
                    overflow += 1;
                }
            }
            prop_assert_eq!(counts.iter().collect::<HashMap<_, _>>(), expected);
            prop_assert_eq!(counts.overflow(), overflow);
        }
    }
}
