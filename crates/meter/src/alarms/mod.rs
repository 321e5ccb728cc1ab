//! Alarms: what wakes a person, judged once a second on what was seen.
//!
//! One table, [`DEFINITIONS`], says what each alarm is; page, log, metrics, exported rules and documentation
//! are made from it. Reads no clock and counts nothing: time and what was seen are handed in. An alarm fires
//! only when its condition has held for a while, and goes quiet only when it has been gone, with a margin,
//! for as long. What too little traffic says about a rate is not judged.

mod conditions;
mod definitions;
mod memory;
mod seen;
mod settings;
mod state;
#[cfg(test)]
mod tests;

pub use definitions::{Alarm, DEFINITIONS, Definition, Severity};
pub use seen::{ENOUGH_PER_SECOND, Seen, SeenCertificate, SeenDearer};
pub use settings::AlarmSettings;
pub use state::{AlarmState, Change, State};

use memory::Memory;

/// Every alarm that is evaluated, with the state that it is in.
#[derive(Clone, Debug)]
pub struct Alarms {
    settings: AlarmSettings,
    states: Vec<AlarmState>,
    memory: Memory,
}

impl Alarms {
    /// Alarms that have seen nothing yet.
    pub fn new(settings: AlarmSettings) -> Self {
        Self {
            settings,
            states: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Judges what was seen up to `now`, in seconds since 1970; to be called about once a second.
    ///
    /// Returns the alarms that began to fire or went quiet just now.
    pub fn judge(&mut self, now: f64, seen: &Seen) -> Vec<Change> {
        let undecided = self.states.iter().any(|state| {
            state.name == Alarm::RequestsPerHandshakeFallen.name() && !state.is_quiet()
        });
        let before = self.memory.take(now, seen, undecided);
        let mut old = std::mem::take(&mut self.states);
        let mut changes = Vec::new();
        for condition in conditions::all(&self.settings, now, seen, before) {
            let known = old.iter().position(|state| condition.is_of(state));
            let state = match known {
                Some(at) => old.swap_remove(at),
                None => AlarmState::quiet(now, &condition),
            };
            let fired = state.is_firing();
            let state = state.step(now, self.settings.hold.as_secs_f64(), condition);
            if state.is_firing() != fired {
                changes.push(Change::of(now, &state));
            }
            self.states.push(state);
        }
        // What is judged no more: turned off, or its subject is gone.
        changes.extend(
            old.into_iter()
                .filter(AlarmState::is_firing)
                .map(|state| Change::of(now, &state.no_longer_judged(now))),
        );
        changes
    }

    /// Every alarm that is evaluated, in the order of [`DEFINITIONS`]; empty before the first [`Alarms::judge`].
    pub fn states(&self) -> &[AlarmState] {
        &self.states
    }

    /// Takes over other thresholds. What fires goes on firing, unless its alarm is off now or the new
    /// threshold says otherwise for long enough.
    pub fn reconfigure(&mut self, settings: AlarmSettings) {
        self.settings = settings;
    }

    /// The thresholds in force.
    pub fn settings(&self) -> &AlarmSettings {
        &self.settings
    }
}
