//! What drills under steady load have in common: an instance, a load, eyes on both, and a clock.

use std::time::{Duration, Instant};

use tollgate_terms::NamedGroup;

use super::act;
use super::instance::{Borrowed, Own};
use super::live::{ConsoleAt, Live};
use super::loading::Loading;
use super::report::{Act, Recovery, Report};
use super::watching::Watching;
use super::{DrillError, DrillOptions, Named, Target, Telling};
use crate::bench::driving;
use crate::{LoadOptions, Mode};

/// How often the instance is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How often a drill looks up.
const BLINK: Duration = Duration::from_millis(50);
/// How long an instance of our own is driven to find out what it can do.
const TRIAL: Duration = Duration::from_millis(1_500);
/// Of what it can do without resumption, so much is asked for: enough to see, not enough to choke.
const SHARE_OF_CAPACITY: f64 = 0.4;
/// No more than this is asked for unless somebody says so.
const MOST_PER_SECOND: f64 = 2_000.0;
/// What is asked of a named instance unless somebody says so.
const PER_SECOND_OF_NAMED: f64 = 50.0;
/// How much of the load is looked at to see whether it has settled.
const LATELY: Duration = Duration::from_secs(1);
/// A hit rate this near to what was asked for is that.
const SETTLED_WITHIN: f64 = 0.015;
/// The most clients that are told apart.
const MOST_CLIENTS: f64 = 20_000.0;
/// Connections at work at a time.
const CONNECTIONS: usize = 64;

/// The instance under drill.
pub(super) enum Subject {
    Own(Box<Own>),
    Named {
        named: Box<Named>,
        borrowed: Option<Borrowed>,
    },
}

impl Subject {
    /// Starts our own with these `alarms`, or takes the named one.
    pub(super) fn new(options: &DrillOptions, alarms: String) -> Result<Self, DrillError> {
        match &options.target {
            Target::Own => Ok(Self::Own(Box::new(Own::start(
                options.certificate,
                alarms,
            )?))),
            Target::Named(named) => {
                named.console.live()?;
                Ok(Self::Named {
                    borrowed: named.change.clone().map(Borrowed::new),
                    named: named.clone(),
                })
            }
        }
    }

    pub(super) fn console(&self) -> ConsoleAt {
        match self {
            Self::Own(own) => own.console(),
            Self::Named { named, .. } => named.console.clone(),
        }
    }

    /// Process of our own instance.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Own(own) => own.pid(),
            Self::Named { .. } => None,
        }
    }

    /// Turns resumption on or off by a reload; gives what the instance said.
    pub(super) fn set_resumption(&mut self, on: bool) -> Result<String, DrillError> {
        match self {
            Self::Own(own) => own.set_resumption(on),
            Self::Named { borrowed, .. } => borrowed
                .as_mut()
                .ok_or_else(|| DrillError::Input("name its file with --config".into()))?
                .set_changed(!on),
        }
    }

    /// Puts back what was changed on a named instance; our own is gone with the drill.
    pub(super) fn put_back(&mut self) -> Result<(), DrillError> {
        match self {
            Self::Named {
                borrowed: Some(borrowed),
                ..
            } => borrowed.put_back(),
            Self::Named { borrowed: None, .. } | Self::Own(_) => Ok(()),
        }
    }

    /// In words, for the report.
    pub(super) fn describe(&self, live: &Live) -> String {
        match self {
            Self::Own(own) => {
                let places = own.places();
                match places.server == places.load {
                    true => "one of our own: 1 worker; it shares its core with the load".to_owned(),
                    false => format!(
                        "one of our own: 1 worker on core {}, load and backend on core {}",
                        places.server, places.load
                    ),
                }
            }
            Self::Named { named, .. } => format!(
                "{} on {} ({}), {:.0} cores",
                named.target,
                live.instance.host,
                named.console.url(),
                live.instance.cores
            ),
        }
    }

    /// A load of connections against it.
    pub(super) fn load(&self, mode: Mode) -> LoadOptions {
        let mut load = match self {
            Self::Own(own) => LoadOptions {
                server_name: Some("localhost".into()),
                insecure: true,
                pin: Some(own.places().load),
                watch: own.pid().into_iter().collect(),
                ..LoadOptions::new(mode, own.address().to_string())
            },
            Self::Named { named, .. } => LoadOptions {
                server_name: named.server_name.clone(),
                insecure: named.insecure,
                ca: named.ca.clone(),
                ..LoadOptions::new(mode, named.target.clone())
            },
        };
        // The group with the cheapest key share: the client shall not be what is measured.
        load.groups = vec![NamedGroup::X25519];
        load
    }
}

/// A drill under steady load, while it goes on.
pub(super) struct Staging<'a> {
    pub(super) subject: Subject,
    pub(super) loading: Loading,
    pub(super) watching: Watching,
    pub(super) load: String,
    pub(super) began: Instant,
    telling: &'a Telling<'a>,
    /// How long all of it is going to take, about.
    whole: Duration,
}

impl<'a> Staging<'a> {
    /// Opens it: the instance, a load of clients that come back, and eyes on both. `whole` is about how long all
    /// of it takes.
    pub(super) fn open(
        options: &DrillOptions,
        alarms: String,
        whole: Duration,
        telling: &'a Telling<'a>,
    ) -> Result<Self, DrillError> {
        (telling.progress)("preparing", "an instance and a load for it", 0.0);
        let rate = match (options.rate, &options.target) {
            (Some(rate), _) => rate,
            (None, Target::Named(_)) => PER_SECOND_OF_NAMED,
            (None, Target::Own) => trial(options)?,
        };
        let subject = Subject::new(options, alarms)?;
        let mut load = subject.load(Mode::Tps);
        let returning = clients(&mut load, options, rate, &subject);
        let watching =
            Watching::start(subject.console(), LOOK).map_err(|source| DrillError::System {
                what: "no thread to watch the instance".into(),
                source,
            })?;
        let loading = Loading::start(load)?;
        Ok(Self {
            subject,
            loading,
            watching,
            load: format!(
                "{rate:.0} new connections/s with one request each, at even times; {returning}"
            ),
            began: Instant::now(),
            telling,
            whole,
        })
    }

    /// Lets it go on until `done`, at most for `limit`; whether it came to that.
    pub(super) fn until(
        &self,
        act: &str,
        what: &str,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<bool, DrillError> {
        let began = Instant::now();
        loop {
            if (self.telling.stopped)() {
                return Err(DrillError::Stopped);
            }
            if !self.loading.is_running() {
                return Err(DrillError::LoadEnded);
            }
            if done(self) {
                return Ok(true);
            }
            if began.elapsed() >= limit {
                return Ok(false);
            }
            let share = self.began.elapsed().as_secs_f64() / self.whole.as_secs_f64().max(1e-9);
            (self.telling.progress)(act, what, share.min(0.99));
            std::thread::sleep(BLINK);
        }
    }

    /// Lets it go on for so long.
    pub(super) fn pass(&self, act: &str, what: &str, time: Duration) -> Result<(), DrillError> {
        self.until(act, what, time, |_| false).map(|_| ())
    }

    /// The act between two moments.
    pub(super) fn act(&self, name: &str, from: Instant, to: Instant) -> Act {
        act::act(name, &self.loading, &self.watching, from, to)
    }

    /// What the instance says now.
    pub(super) fn live(&self) -> Result<Live, DrillError> {
        self.subject.console().live()
    }

    /// Whether the load has seen a hit rate of `wanted` over a second since `since`.
    pub(super) fn recovered(&self, since: Instant, wanted: f64) -> Recovery {
        act::recovered(&self.loading, since, wanted)
    }

    /// Lets clients come and come back until they resume as often as asked for, and nothing fires any more that the
    /// first of them may have set off. Nothing of that is judged.
    pub(super) fn settle(&self, options: &DrillOptions) -> Result<(), DrillError> {
        let act = "before";
        self.pass(
            act,
            "clients get their first tickets",
            options.return_after + LATELY,
        )?;
        self.until(
            act,
            "until clients resume as asked for",
            options.patience,
            |staging| {
                let now = Instant::now();
                let lately = act::hit_rate(&staging.loading.between(now - LATELY, now));
                lately.is_some_and(|rate| (rate - options.hit_rate).abs() < SETTLED_WITHIN)
            },
        )?;
        if matches!(self.subject, Subject::Own(_)) {
            self.until(act, "until no alarm fires", options.patience, |staging| {
                staging.watching.firing().is_empty()
            })?;
        }
        Ok(())
    }

    /// A report with what all drills have in it; `change` is the moment that times are counted from.
    pub(super) fn report(&self, options: &DrillOptions, change: Instant) -> Report {
        let live = self.watching.latest().unwrap_or_default();
        let mut notes = Vec::new();
        if matches!(self.subject, Subject::Own(_)) {
            notes.push(format!(
                "alarms of this instance hold for {:.0} s before they fire; the default is 30 s",
                options.alarm_hold.as_secs_f64()
            ));
        }
        if !live.instance.ledger {
            notes.push(
                "the instance keeps no ledger (ledger: off), so CPU by phase is not known".into(),
            );
        }
        Report {
            drill: options.drill.name(),
            about: options.drill.about(),
            instance: self.subject.describe(&live),
            load: self.load.clone(),
            acts: Vec::new(),
            alarms: Vec::new(),
            recovery: Vec::new(),
            forecast: None,
            storm: None,
            said: Vec::new(),
            expectations: Vec::new(),
            notes,
            curve: act::curve(&self.loading, &self.watching, self.began, change),
        }
    }
}

/// The lines of what an instance said that tell of the drill: not where in its file, and not that our certificate
/// is signed by itself.
pub(super) fn told(said: &str) -> Vec<String> {
    said.lines()
        .filter(|line| line.starts_with("warning: ") || line.starts_with("tollgate: "))
        .filter(|line| !line.contains("self-signed"))
        .map(|line| line.strip_prefix("tollgate: ").unwrap_or(line).to_owned())
        .collect()
}

/// What stands under `alarms:` of an instance of our own, in braces.
pub(super) fn alarms(options: &DrillOptions, more: &str) -> String {
    format!("{{ hold: {}ms{more} }}", options.alarm_hold.as_millis())
}

/// Sets up clients that come back, each with its own tickets; gives the words for it.
fn clients(load: &mut LoadOptions, options: &DrillOptions, rate: f64, subject: &Subject) -> String {
    load.rate = Some(rate);
    load.hit_rate = options.hit_rate;
    load.connections = CONNECTIONS;
    // A round number, of which a hit rate in whole per cent is a whole number too.
    load.hit_rate_over = Some(((rate / 200.0) as u64).clamp(1, 5) * 100);
    let wanted = (rate * options.return_after.as_secs_f64()).clamp(1.0, MOST_CLIENTS);
    match subject {
        // A name for each: the default site answers to all, and tickets are kept by name.
        Subject::Own(_) => {
            load.server_names = (0..wanted as u64)
                .map(|client| format!("client-{client}.test"))
                .collect();
            load.tickets_per_name = Some(2);
            coming(options, Some(wanted / rate))
        }
        // Names would be refused there.
        Subject::Named { .. } => {
            load.tickets_per_name = Some(wanted as usize);
            coming(options, None)
        }
    }
}

/// Clients that come back, in words.
fn coming(options: &DrillOptions, after: Option<f64>) -> String {
    if options.hit_rate == 0.0 {
        return "no client resumes".to_owned();
    }
    let after = after.map_or(String::new(), |seconds| format!(" after {seconds:.1} s"));
    format!(
        "{:.0} % of clients come back{after}",
        100.0 * options.hit_rate
    )
}

/// How many connections per second an instance of our own is given: a share of what another one, which is gone
/// after that, can do without resumption.
fn trial(options: &DrillOptions) -> Result<f64, DrillError> {
    let subject = Subject::new(options, alarms(options, ""))?;
    let mut load = subject.load(Mode::Tps);
    load.duration = TRIAL;
    load.warm_up = Duration::from_millis(200);
    let found = driving::load(load)?;
    let rate = SHARE_OF_CAPACITY * found.per_second;
    Ok((10.0 * (rate / 10.0).floor()).clamp(20.0, MOST_PER_SECOND))
}
