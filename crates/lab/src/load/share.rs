//! Which handshakes shall be of the wanted kind, so that their share comes out as asked.

/// Decides one handshake at a time, from what came of the ones before and what is on its way: a miss
/// is made up for by the next ones, so the share counted at the end is the share that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    wanted: f64,
    /// About how many of the latest count; `None` for all.
    memory: Option<u64>,
    counted: Pair,
    on_their_way: Pair,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    all: u64,
    hits: u64,
}

impl Share {
    /// A share of `wanted`, 0 to 1.
    pub(crate) fn new(wanted: f64) -> Self {
        Self {
            wanted,
            memory: None,
            counted: Pair::default(),
            on_their_way: Pair::default(),
        }
    }

    /// The same over about the latest `memory`, so that a long time without hits need not be made up for.
    pub(crate) fn lately(self, memory: Option<u64>) -> Self {
        Self { memory, ..self }
    }

    /// Whether the next one shall be a hit.
    pub(crate) fn wants(&self) -> bool {
        let all = self.counted.all + self.on_their_way.all + 1;
        let hits = self.counted.hits + self.on_their_way.hits + 1;
        hits as f64 <= self.wanted * all as f64 + 1e-9
    }

    /// One begins, meant to be a hit or not.
    pub(crate) fn begin(&mut self, hit: bool) {
        self.on_their_way.all += 1;
        self.on_their_way.hits += u64::from(hit);
    }

    /// One that was meant so has come out so; `None` when nothing came of it.
    pub(crate) fn end(&mut self, meant: bool, came_out: Option<bool>) {
        self.on_their_way.all = self.on_their_way.all.saturating_sub(1);
        self.on_their_way.hits = self.on_their_way.hits.saturating_sub(u64::from(meant));
        if let Some(hit) = came_out {
            self.counted.all += 1;
            self.counted.hits += u64::from(hit);
        }
        if let Some(memory) = self.memory
            && self.counted.all >= 2 * memory
        {
            // What is forgotten is as the rest is: half of each.
            self.counted.all /= 2;
            self.counted.hits /= 2;
        }
    }

    /// Counts anew; what is on its way will count.
    pub(crate) fn restart(&mut self) {
        self.counted = Pair::default();
    }

    /// How many are on their way.
    pub(crate) fn open(&self) -> u64 {
        self.on_their_way.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(wanted: f64, total: u64, mut fails: impl FnMut(u64) -> bool) -> u64 {
        let mut share = Share::new(wanted);
        let mut hits = 0;
        for number in 0..total {
            let meant = share.wants();
            share.begin(meant);
            let hit = meant && !fails(number);
            hits += u64::from(hit);
            share.end(meant, Some(hit));
        }
        hits
    }

    #[test]
    fn the_share_is_exact_at_every_rate() {
        for (wanted, hits) in [(0.0, 0), (0.1, 100), (0.5, 500), (0.9, 900), (1.0, 1000)] {
            assert_eq!(run(wanted, 1000, |_| false), hits, "{wanted}");
        }
    }

    #[test]
    fn misses_are_made_up_for() {
        assert_eq!(run(0.9, 10_000, |number| number % 50 == 0), 9_000);
    }

    #[test]
    fn what_is_on_its_way_counts_as_it_was_meant() {
        let mut share = Share::new(0.5);
        let meant: Vec<bool> = (0..10)
            .map(|_| {
                let meant = share.wants();
                share.begin(meant);
                meant
            })
            .collect();
        assert_eq!(meant.iter().filter(|hit| **hit).count(), 5);
        assert_eq!(share.open(), 10);
    }

    #[test]
    fn a_share_of_the_latest_recovers_without_making_up_for_a_long_outage() {
        let mut share = Share::new(0.9).lately(Some(100));
        let mut hits_after = 0;
        for number in 0..20_000 {
            let meant = share.wants();
            share.begin(meant);
            let hit = meant && number >= 10_000;
            share.end(meant, Some(hit));
            hits_after += u64::from(hit && number >= 11_000);
        }
        assert!(
            (8_050..8_150).contains(&hits_after),
            "{hits_after} of 9 000"
        );
    }

    #[test]
    fn what_came_to_nothing_is_owed_again() {
        let mut share = Share::new(1.0);
        share.begin(true);
        share.end(true, None);
        assert!(share.wants());
        assert_eq!(share.open(), 0);
    }
}
