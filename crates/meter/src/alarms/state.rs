//! The state of an alarm, and how it moves.

use crate::alarms::conditions::Condition;
use crate::alarms::definitions::{Alarm, Definition};

/// Where an alarm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is the matter.
    #[default]
    Quiet,
    /// The condition holds, not yet for long enough.
    Pending,
    /// The condition has held for long enough, and has not been gone for as long since.
    Firing,
}

impl State {
    /// `quiet`, `pending` or `firing`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }
}

/// An alarm with the state that it is in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlarmState {
    /// Its name, such as `hit_rate_low`.
    pub name: &'static str,
    /// What it is about where there can be several: a site, a certificate; else empty.
    pub subject: String,
    /// Where it is.
    pub state: State,
    /// Since when it is there, in seconds since 1970.
    pub since: f64,
    /// What was seen; `None` when there was too little to say.
    pub value: Option<f64>,
    /// From where on it fires.
    pub threshold: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// What was seen, in words.
    pub sentence: String,
    /// Since when the condition is gone while the alarm still fires.
    pub gone_since: Option<f64>,
}

impl AlarmState {
    /// A quiet one.
    pub(super) fn quiet(now: f64, condition: &Condition) -> Self {
        let definition = condition.alarm.definition();
        Self {
            name: definition.name,
            subject: condition.subject.clone(),
            since: now,
            unit: definition.unit,
            ..Self::default()
        }
    }

    /// What the table says of this alarm.
    pub fn definition(&self) -> &'static Definition {
        Definition::of(self.name).unwrap_or_else(|| Alarm::HitRateLow.definition())
    }

    /// Whether it fires.
    pub fn is_firing(&self) -> bool {
        self.state == State::Firing
    }

    /// Whether it neither fires nor is about to.
    pub fn is_quiet(&self) -> bool {
        self.state == State::Quiet
    }

    /// The state after another look. `hold` is in seconds.
    pub(super) fn step(mut self, now: f64, hold: f64, condition: Condition) -> Self {
        let hold = if condition.alarm.definition().held {
            hold
        } else {
            0.0
        };
        // A clock that was set back begins the wait again rather than making it endless.
        self.since = self.since.min(now);
        let (holds, gone) = (condition.holds(), condition.is_gone());
        self.value = condition.value;
        self.threshold = condition.threshold;
        self.sentence = condition.sentence;
        match self.state {
            State::Quiet if holds => self.enter(State::Pending, now),
            State::Pending if !holds => self.enter(State::Quiet, now),
            State::Quiet | State::Pending | State::Firing => {}
        }
        if self.state == State::Pending && now - self.since >= hold {
            self.enter(State::Firing, now);
        }
        self.gone_since = (self.state == State::Firing && gone)
            .then(|| self.gone_since.map_or(now, |since| since.min(now)));
        if self.gone_since.is_some_and(|since| now - since >= hold) {
            self.enter(State::Quiet, now);
        }
        self
    }

    /// The last of an alarm that was turned off, or whose subject is gone.
    pub(super) fn no_longer_judged(mut self, now: f64) -> Self {
        self.enter(State::Quiet, now);
        self.sentence = "no longer judged: turned off, or what it was about is gone".to_owned();
        self
    }

    fn enter(&mut self, state: State, now: f64) {
        self.state = state;
        self.since = now;
        self.gone_since = None;
    }
}

/// An alarm that began to fire, or went quiet.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, in seconds since 1970.
    pub at: f64,
    /// Its name.
    pub name: &'static str,
    /// What it is about where there can be several; else empty.
    pub subject: String,
    /// [`State::Firing`] or [`State::Quiet`].
    pub state: State,
    /// What was seen, in words.
    pub sentence: String,
    /// What was seen; `None` when there was too little to say.
    pub value: Option<f64>,
    /// From where on it fires.
    pub threshold: f64,
    /// Unit of both.
    pub unit: &'static str,
}

impl Change {
    pub(super) fn of(now: f64, state: &AlarmState) -> Self {
        Self {
            at: now,
            name: state.name,
            subject: state.subject.clone(),
            state: state.state,
            sentence: state.sentence.clone(),
            value: state.value,
            threshold: state.threshold,
            unit: state.unit,
        }
    }

    /// What the table says of this alarm.
    pub fn definition(&self) -> &'static Definition {
        Definition::of(self.name).unwrap_or_else(|| Alarm::HitRateLow.definition())
    }
}
