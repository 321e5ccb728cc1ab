//! What handshakes cost under each configuration that was in force.

use std::collections::VecDeque;

use crate::history::totals::Totals;

/// Configurations that are remembered.
const KEPT: usize = 32;

/// What was counted while one configuration was in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Its hash.
    pub hash: String,
    /// From when on, in seconds since 1970.
    pub since: f64,
    /// Until when: the end, or the last moment that was seen.
    pub until: f64,
    /// What was counted meanwhile. The counts of the second in which a reload falls belong to the one before.
    pub totals: Totals,
}

/// Configurations, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    kept: VecDeque<Configuration>,
    /// Totals at the beginning of the one in force.
    base: Totals,
}

impl Configurations {
    /// Takes a moment in; whether another configuration is in force than before.
    pub(crate) fn take(&mut self, at: f64, hash: &str, totals: &Totals) -> bool {
        let before = self.kept.back_mut();
        let changed = before.as_ref().is_none_or(|last| last.hash != hash);
        if let Some(last) = before {
            last.until = at;
            last.totals = totals.since(&self.base);
        }
        if !changed {
            return false;
        }
        // Before the first one nothing was counted under any other: all belongs to it.
        self.base = match self.kept.is_empty() {
            true => Totals::default(),
            false => *totals,
        };
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Configuration {
            hash: hash.to_owned(),
            since: at,
            until: at,
            totals: totals.since(&self.base),
        });
        true
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Configuration> {
        self.kept.iter()
    }
}
