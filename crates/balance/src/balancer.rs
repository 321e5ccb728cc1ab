//! The choice among the backends of one site.

use std::time::{Duration, Instant};

/// How a backend is chosen among those that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// In turn, by weight, each one's turns spread evenly.
    RoundRobin,
    /// The fewest open connections or requests for its weight; equals in turn.
    LeastConnections,
}

/// A backend's share of the work, 1 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a backend that names none.
    pub const ONE: Self = Self(1);

    /// This weight; what lies outside 1 to 256 becomes the nearer end.
    pub fn new(weight: u32) -> Self {
        Self(weight.clamp(1, 256))
    }
}

/// What live traffic says about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveHealth {
    /// Failures in a row until a backend is left alone. Default 3; 0 turns it off.
    pub failures: u32,
    /// How long it is left alone before one try. Default 5 s.
    pub cooldown: Duration,
}

impl Default for PassiveHealth {
    fn default() -> Self {
        Self {
            failures: 3,
            cooldown: Duration::from_secs(5),
        }
    }
}

/// How a connection or request ended, as far as the backend is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The backend did its part, whatever it said.
    Answered,
    /// It could not be reached, did not answer in time, or broke off.
    Failed,
    /// Nobody waited for it any more: neither for nor against it.
    Abandoned,
}

/// Whether a backend is given work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is.
    Up,
    /// It failed in live traffic and is left alone until its cooldown is over.
    LeftAlone,
    /// Its cooldown is over and one connection or request tries it.
    OnTrial,
    /// Active checks found it down.
    Down,
}

impl State {
    /// `"up"`, `"left_alone"`, `"on_trial"` or `"down"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::LeftAlone => "left_alone",
            Self::OnTrial => "on_trial",
            Self::Down => "down",
        }
    }
}

/// Chooses among the backends of one site, for one worker.
#[derive(Clone, Debug)]
pub struct Balancer {
    strategy: Strategy,
    passive: PassiveHealth,
    backends: Vec<Backend>,
    /// Number of choices so far: what "in turn" goes by when all are down.
    choices: u64,
}

#[derive(Clone, Debug)]
struct Backend {
    weight: i64,
    /// What it is owed: raised by its weight in every choice, lowered by all weights when chosen.
    credit: i64,
    open: u32,
    traffic: Traffic,
    checked_up: bool,
    last_failure: Option<Instant>,
    /// Number of the choice that last took it while all were down.
    forced: u64,
}

/// What live traffic has shown.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    Well {
        failures: u32,
    },
    LeftAlone {
        until: Instant,
    },
    /// A trial that nobody reports on is over at `until`, and another one may begin.
    OnTrial {
        until: Instant,
    },
}

impl Balancer {
    /// Backends numbered by their place in `weights`, all of them up.
    pub fn new(strategy: Strategy, weights: &[Weight], passive: PassiveHealth) -> Self {
        Self {
            strategy,
            passive,
            backends: weights.iter().copied().map(Backend::new).collect(),
            choices: 0,
        }
    }

    /// The backend for the next connection or request, never one of `exclude` (those already tried for it).
    ///
    /// When none is up, one is chosen all the same: better a backend that is believed dead than a certain
    /// failure. That is the one whose last failure is longest ago. `None` only when all are excluded.
    pub fn choose(&mut self, now: Instant, exclude: &[usize]) -> Option<usize> {
        self.choices += 1;
        let chosen = match self.strategy {
            Strategy::RoundRobin => {
                self.in_turn(|index, backend| !exclude.contains(&index) && backend.takes_work(now))
            }
            Strategy::LeastConnections => self.least_busy(now, exclude),
        };
        let Some(index) = chosen else {
            return self.least_recently_failed(exclude);
        };
        let backend = &mut self.backends[index];
        match backend.traffic {
            Traffic::Well { .. } => {}
            Traffic::LeftAlone { .. } | Traffic::OnTrial { .. } => {
                backend.traffic = Traffic::OnTrial {
                    until: now + self.passive.cooldown,
                };
            }
        }
        Some(index)
    }

    /// A connection or request was begun with this backend.
    pub fn started(&mut self, index: usize) {
        if let Some(backend) = self.backends.get_mut(index) {
            backend.open += 1;
        }
    }

    /// It showed that it is alive, before the end: a connection was made, or the head of a response came. For
    /// what lasts long; [`Balancer::finished`] says the same at the end.
    pub fn answered(&mut self, index: usize) {
        if let Some(backend) = self.backends.get_mut(index) {
            backend.show_life();
        }
    }

    /// A connection or request that was [`started`](Balancer::started) ended.
    pub fn finished(&mut self, index: usize, outcome: Outcome, now: Instant) {
        let Some(backend) = self.backends.get_mut(index) else {
            return;
        };
        backend.open = backend.open.saturating_sub(1);
        match outcome {
            Outcome::Answered => backend.show_life(),
            Outcome::Failed => backend.fail(self.passive, now),
            Outcome::Abandoned => {}
        }
    }

    /// Takes over what live traffic has shown of the backend that is number `there` in `before`.
    pub fn inherit(&mut self, index: usize, before: &Self, there: usize) {
        if let (Some(backend), Some(known)) =
            (self.backends.get_mut(index), before.backends.get(there))
        {
            backend.traffic = known.traffic;
            backend.last_failure = known.last_failure;
        }
    }

    /// Active checks found this backend up or down. Coming up also ends what live traffic held against it.
    pub fn set_checked(&mut self, index: usize, up: bool) {
        if let Some(backend) = self.backends.get_mut(index) {
            if up && !backend.checked_up {
                backend.traffic = Traffic::Well { failures: 0 };
            }
            backend.checked_up = up;
            backend.credit = 0;
        }
    }

    /// Whether this backend is given work; `None` for a number beyond the list.
    pub fn state(&self, index: usize) -> Option<State> {
        self.backends.get(index).map(Backend::state)
    }

    /// Connections or requests open at this backend.
    pub fn open(&self, index: usize) -> u32 {
        self.backends.get(index).map_or(0, |backend| backend.open)
    }

    /// Number of backends.
    pub fn len(&self) -> usize {
        self.backends.len()
    }

    /// Whether there is no backend at all.
    pub fn is_empty(&self) -> bool {
        self.backends.is_empty()
    }

    /// Smooth weighted round robin among those that `may` be chosen: the one that is owed most.
    fn in_turn(&mut self, may: impl Fn(usize, &Backend) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(usize, i64)> = None;
        for (index, backend) in self.backends.iter_mut().enumerate() {
            if !may(index, backend) {
                continue;
            }
            total += backend.weight;
            backend.credit += backend.weight;
            if best.is_none_or(|(_, credit)| backend.credit > credit) {
                best = Some((index, backend.credit));
            }
        }
        let (index, _) = best?;
        self.backends[index].credit -= total;
        Some(index)
    }

    /// Those with the fewest open for their weight, and among them in turn.
    fn least_busy(&mut self, now: Instant, exclude: &[usize]) -> Option<usize> {
        let (open, weight) = self
            .backends
            .iter()
            .enumerate()
            .filter(|(index, backend)| !exclude.contains(index) && backend.takes_work(now))
            .map(|(_, backend)| (i64::from(backend.open), backend.weight))
            // Fractions are compared crosswise: no rounding, no division.
            .min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))?;
        self.in_turn(|index, backend| {
            !exclude.contains(&index)
                && backend.takes_work(now)
                && i64::from(backend.open) * weight == open * backend.weight
        })
    }

    /// For when none is up. Never failed comes first; equals in turn.
    fn least_recently_failed(&mut self, exclude: &[usize]) -> Option<usize> {
        let (index, backend) = self
            .backends
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| !exclude.contains(index))
            .min_by_key(|(_, backend)| (backend.last_failure, backend.forced))?;
        backend.forced = self.choices;
        Some(index)
    }
}

impl Backend {
    fn new(weight: Weight) -> Self {
        Self {
            weight: weight.0.into(),
            credit: 0,
            open: 0,
            traffic: Traffic::Well { failures: 0 },
            checked_up: true,
            last_failure: None,
            forced: 0,
        }
    }

    fn state(&self) -> State {
        if !self.checked_up {
            return State::Down;
        }
        match self.traffic {
            Traffic::Well { .. } => State::Up,
            Traffic::LeftAlone { .. } => State::LeftAlone,
            Traffic::OnTrial { .. } => State::OnTrial,
        }
    }

    fn takes_work(&self, now: Instant) -> bool {
        self.checked_up
            && match self.traffic {
                Traffic::Well { .. } => true,
                Traffic::LeftAlone { until } | Traffic::OnTrial { until } => now >= until,
            }
    }

    fn show_life(&mut self) {
        match self.traffic {
            Traffic::Well { .. } | Traffic::OnTrial { .. } => {
                self.traffic = Traffic::Well { failures: 0 };
            }
            // The answer to something from before: the trial will show.
            Traffic::LeftAlone { .. } => {}
        }
    }

    fn fail(&mut self, passive: PassiveHealth, now: Instant) {
        self.last_failure = Some(now);
        let until = now + passive.cooldown;
        self.traffic = match self.traffic {
            Traffic::Well { failures } => {
                let failures = failures.saturating_add(1);
                if passive.failures == 0 || failures < passive.failures {
                    Traffic::Well { failures }
                } else {
                    self.credit = 0;
                    Traffic::LeftAlone { until }
                }
            }
            Traffic::OnTrial { .. } => Traffic::LeftAlone { until },
            // Something from before: the cooldown does not start again.
            Traffic::LeftAlone { until } => Traffic::LeftAlone { until },
        };
    }
}
