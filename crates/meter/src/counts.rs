//! Sums found by a small number: an open-addressed table that grows to a limit and no further.

use std::ops::AddAssign;

use tollgate_terms::HandshakeCost;

/// Odd, and spread over all bits (the golden ratio times 2^64, as in Fibonacci hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST_SLOTS: usize = 32;

/// How often, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountAndCost {
    pub(crate) count: u64,
    pub(crate) cost: HandshakeCost,
}

impl AddAssign for CountAndCost {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.cost += other.cost;
    }
}

/// Sums by key. `cargo bench -p tollgate-meter` shows what it takes beside the standard map.
#[derive(Clone, Debug)]
pub(crate) struct Sums<V> {
    /// Key plus one (zero is an empty slot) and its sum; a power of two of them, at most three quarters full.
    slots: Vec<(u64, V)>,
    used: usize,
    limit: usize,
    overflow: V,
}

impl<V: AddAssign + Copy + Default> Sums<V> {
    /// Sums of at most `limit` keys; what comes for further keys is added up together.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: vec![(0, V::default()); FIRST_SLOTS],
            used: 0,
            limit,
            overflow: V::default(),
        }
    }

    /// Adds `value` to the sum of `key`, which is below `u64::MAX`.
    pub(crate) fn add(&mut self, key: u64, value: V) {
        let index = self.slot(key + 1);
        let (stored, sum) = &mut self.slots[index];
        if *stored != 0 {
            *sum += value;
            return;
        }
        if self.used == self.limit {
            self.overflow += value;
            return;
        }
        (*stored, *sum) = (key + 1, value);
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    /// Every key with its sum, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.slots
            .iter()
            .filter(|(stored, _)| *stored != 0)
            .map(|(stored, sum)| (stored - 1, *sum))
    }

    /// What was added for keys beyond the limit.
    pub(crate) fn overflow(&self) -> V {
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
        let doubled = vec![(0, V::default()); self.slots.len() * 2];
        for (stored, sum) in std::mem::replace(&mut self.slots, doubled) {
            if stored != 0 {
                let index = self.slot(stored);
                self.slots[index] = (stored, sum);
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
            let mut counts = Sums::new(limit);
            let mut expected: HashMap<u64, u64> = HashMap::new();
            let mut overflow = 0;
            for key in keys {
                counts.add(key << 20, 1_u64);
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
