//! Names of ticket keys that clients showed and that are not held here, in bounded room.
//!
//! Clients can send any name. Sixteen are remembered, and the least frequent makes room for a new one; what it
//! had counted is not lost, only nameless. A name that was seen eight times has one of sixteen places that last
//! as long as the process: only those become labels, so that a client who makes names up makes no series without
//! end. What was counted before stays nameless, so that no count ever falls.

use crate::merge::series;
use crate::snapshot::{KeyLabel, Series};

/// Names remembered at a time, and as many that last.
const PLACES: usize = 16;
/// Seen so often, a name gets a place that lasts.
const LASTING_FROM: u64 = 8;
/// The label of names that have no place any more.
pub(crate) const OTHER_KEYS: &str = "other";

/// Counts by name.
#[derive(Clone, Debug)]
pub(crate) struct UnknownKeys {
    passing: Vec<([u8; 16], u64)>,
    lasting: Vec<([u8; 16], u64)>,
    /// Counted for names that have lost their place.
    nameless: u64,
}

impl UnknownKeys {
    pub(crate) fn new() -> Self {
        Self {
            passing: Vec::with_capacity(PLACES),
            lasting: Vec::with_capacity(PLACES),
            nameless: 0,
        }
    }

    pub(crate) fn add(&mut self, name: [u8; 16]) {
        if let Some((_, count)) = self.lasting.iter_mut().find(|(known, _)| *known == name) {
            *count += 1;
            return;
        }
        let Some(index) = self.passing.iter().position(|(known, _)| *known == name) else {
            return self.remember(name);
        };
        if self.passing[index].1 + 1 >= LASTING_FROM && self.lasting.len() < PLACES {
            self.nameless += self.passing.swap_remove(index).1;
            self.lasting.push((name, 1));
            return;
        }
        self.passing[index].1 += 1;
    }

    fn remember(&mut self, name: [u8; 16]) {
        if self.passing.len() < PLACES {
            self.passing.push((name, 1));
            return;
        }
        if let Some(least) = self.passing.iter_mut().min_by_key(|(_, count)| *count) {
            self.nameless += least.1;
            *least = (name, 1);
        }
    }

    /// Every name with its count.
    pub(crate) fn write(&self) -> Vec<Series<KeyLabel>> {
        let named = |list: &[([u8; 16], u64)], lasting| {
            list.iter()
                .map(|&(name, count)| {
                    let key = format!("{:032x}", u128::from_be_bytes(name));
                    (KeyLabel { key, lasting }, count)
                })
                .collect::<Vec<_>>()
        };
        let nameless = (self.nameless > 0).then(|| {
            let key = OTHER_KEYS.to_owned();
            let lasting = false;
            (KeyLabel { key, lasting }, self.nameless)
        });
        series(
            named(&self.lasting, true)
                .into_iter()
                .chain(named(&self.passing, false))
                .chain(nameless),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(number: u32) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }

    #[test]
    fn a_key_of_another_node_outlasts_names_that_are_made_up() {
        let mut keys = UnknownKeys::new();
        for number in 0..100_000 {
            keys.add(name(number + 1_000));
            if number % 3 == 0 {
                keys.add(name(7));
            }
        }
        let written = keys.write();
        assert!(written.len() <= 2 * PLACES + 1, "{}", written.len());
        let mut lasting = written.iter().filter(|one| one.labels.lasting);
        let found = lasting.next().map(|one| (&*one.labels.key, one.count));
        assert_eq!(found, Some(("00000000000000000000000000000007", 33_327)));
        assert_eq!(lasting.next(), None);
    }

    proptest! {
        #[test]
        fn no_count_is_lost(numbers in prop::collection::vec(0_u32..60, 0..600)) {
            let mut keys = UnknownKeys::new();
            numbers.iter().for_each(|&number| keys.add(name(number)));
            let written = keys.write();
            let sum: u64 = written.iter().map(|one| one.count).sum();
            prop_assert_eq!(sum, numbers.len() as u64);
            prop_assert!(written.len() <= 2 * PLACES + 1);
        }
    }
}
