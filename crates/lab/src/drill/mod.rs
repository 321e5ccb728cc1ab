//! Incidents on purpose: what happens to a running instance when resumption is lost, a certificate becomes dearer,
//! every client comes back at once, or a process starts with a cold cache.
//!
//! A drill drives its own load, changes one thing, watches the instance's own figures before, during and after, and
//! judges what it saw by limits. Without a named instance it starts a `tollgate serve` of its own. Whatever it
//! changes on a named instance it puts back, however the drill ends.

mod act;
mod cold_start;
mod edit;
mod instance;
mod live;
mod loading;
mod reconnect_storm;
mod report;
mod resumption_off;
mod rsa_renewal;
mod stage;
mod storm;
mod text;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use tollgate_terms::CertificateKind;

pub use edit::{EditError, without_resumption};
pub use live::ConsoleAt;
pub use report::{
    Act, ActCores, AlarmSeen, Bound, Expectation, Forecast, Point, Recovery, Report, Storm,
};

use crate::LoadError;
use crate::bench::BenchError;

/// The drills that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drill {
    /// Tickets and session cache are turned off and on again by reloads.
    ResumptionOff,
    /// A certificate is renewed with a dearer kind of key.
    RsaRenewal,
    /// Every held connection is lost and comes back at once.
    ReconnectStorm,
    /// The process starts anew, without the keys of the tickets that its clients hold.
    ColdStart,
}

impl Drill {
    /// All, in the order of the help.
    pub const ALL: [Self; 4] = [
        Self::ResumptionOff,
        Self::RsaRenewal,
        Self::ReconnectStorm,
        Self::ColdStart,
    ];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResumptionOff => "resumption-off",
            Self::RsaRenewal => "rsa-renewal",
            Self::ReconnectStorm => "reconnect-storm",
            Self::ColdStart => "cold-start",
        }
    }

    /// What happens, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::ResumptionOff => {
                "Tickets and session cache go off by a reload, and on again: cost, alarms, recovery."
            }
            Self::RsaRenewal => {
                "The ECDSA certificate is renewed as RSA by a reload: do guard and alarm see it?"
            }
            Self::ReconnectStorm => {
                "All held connections are lost and come back at once: how fast, at what memory."
            }
            Self::ColdStart => {
                "The process starts anew with other ticket keys: how long until clients resume."
            }
        }
    }
}

/// Which instance is drilled.
#[derive(Clone, Debug)]
pub enum Target {
    /// A `tollgate serve` of our own, with a certificate, a backend and a configuration made for it.
    Own,
    /// A running one.
    Named(Box<Named>),
}

/// A running instance that its owner has agreed to be drilled.
#[derive(Clone, Debug)]
pub struct Named {
    /// Where it speaks of itself.
    pub console: ConsoleAt,
    /// `HOST:PORT` that is driven.
    pub target: String,
    /// Name sent as `server_name`; the host of the target if absent.
    pub server_name: Option<String>,
    /// Take any certificate without a look.
    pub insecure: bool,
    /// PEM bundle of trusted roots; the system's if absent.
    pub ca: Option<PathBuf>,
    /// What is changed and put back, for drills that change something.
    pub change: Option<Change>,
}

/// How a named instance is changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its `tls.yaml`.
    pub config: PathBuf,
    /// Its control socket.
    pub control: PathBuf,
    /// What the file says now.
    pub original: String,
    /// What it says during the drill.
    pub changed: String,
}

/// How to drill. Every field can be set in any order; [`DrillOptions::new`] holds the defaults.
#[derive(Clone, Debug)]
pub struct DrillOptions {
    /// Which drill.
    pub drill: Drill,
    /// Which instance. Default our own.
    pub target: Target,
    /// Length of an act, 1 s to 1 h. Default 30 s.
    pub act: Duration,
    /// How long to wait for recovery, and for alarms to go quiet. Default 90 s.
    pub patience: Duration,
    /// New connections per second. Default: 40 % of what an instance of our own does without resumption, at most
    /// 2 000; 50 for a named one.
    pub rate: Option<f64>,
    /// Share of clients that come back with something to resume. Default 0.9.
    pub hit_rate: f64,
    /// After how long a client comes back. Default 3 s.
    pub return_after: Duration,
    /// Key of the certificate of our own instance. Default ECDSA P-256.
    pub certificate: CertificateKind,
    /// What a certificate is renewed with. Default RSA-2048.
    pub dearer: CertificateKind,
    /// Connections that are held and come back. Default 2 000.
    pub held: usize,
    /// `hold` of the alarms of our own instance. Default 2 s, so that a drill need not last minutes.
    pub alarm_hold: Duration,
    /// Whether alarms must be quiet again at the end. Default true.
    pub wait_for_quiet: bool,
}

impl DrillOptions {
    /// A drill with every other field at its default.
    pub fn new(drill: Drill) -> Self {
        Self {
            drill,
            target: Target::Own,
            act: Duration::from_secs(30),
            patience: Duration::from_secs(90),
            rate: None,
            hit_rate: 0.9,
            return_after: Duration::from_secs(3),
            certificate: CertificateKind::EcdsaP256,
            dearer: CertificateKind::Rsa(2048),
            held: 2_000,
            alarm_hold: Duration::from_secs(2),
            wait_for_quiet: true,
        }
    }

    /// Acts of a few seconds: enough to see that it works, too short for fine judgement.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            act: Duration::from_secs(6),
            return_after: Duration::from_secs(1),
            alarm_hold: Duration::from_secs(1),
            held: self.held.min(300),
            wait_for_quiet: false,
            ..self
        }
    }
}

/// Whom a drill tells how far it is, and who may end it.
pub struct Telling<'a> {
    /// Told the act, what goes on in it, and the share of the whole that is done (0 to 1).
    pub progress: &'a dyn Fn(&str, &str, f64),
    /// Asked every few hundredths of a second whether to stop.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Why a drill could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// What was asked for is not possible.
    #[error("{0}")]
    Input(String),
    /// The console gives no answer that helps.
    #[error("the console {console} gives no figures: {reason}")]
    Console {
        /// What was asked.
        console: String,
        /// What happened.
        reason: String,
    },
    /// An instance refused a configuration.
    #[error("the instance did not take the configuration of the drill: {0}")]
    Refused(String),
    /// The load ended before its time.
    #[error("the load ended before its time")]
    LoadEnded,
    /// Somebody wanted it to end.
    #[error("the drill was interrupted; what it had changed has been put back")]
    Stopped,
    /// A named instance could not be brought back to what it was.
    #[error("{config} could not be put back: {reason}; its text before the drill is in {copy}")]
    NotPutBack {
        /// The file.
        config: String,
        /// Why.
        reason: String,
        /// Where the original is.
        copy: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// Our own instance did not come up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The load could not begin.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl DrillError {
    /// Whether what was asked for is wrong, whatever the state of the world.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Input(_) => true,
            Self::Load(error) => error.is_input(),
            Self::Console { .. }
            | Self::Refused(_)
            | Self::LoadEnded
            | Self::Stopped
            | Self::NotPutBack { .. }
            | Self::System { .. }
            | Self::Bench(_) => false,
        }
    }
}

/// Makes the drill.
///
/// # Errors
/// When an option is out of range, the instance or its console does not answer, or the load cannot be had.
pub fn run(options: &DrillOptions, telling: &Telling<'_>) -> Result<Report, DrillError> {
    check(options)?;
    match options.drill {
        Drill::ResumptionOff => resumption_off::run(options, telling),
        Drill::RsaRenewal => rsa_renewal::run(options, telling),
        Drill::ReconnectStorm => reconnect_storm::run(options, telling),
        Drill::ColdStart => cold_start::run(options, telling),
    }
}

fn check(options: &DrillOptions) -> Result<(), DrillError> {
    let refused = |reason: String| Err(DrillError::Input(reason));
    if !(Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(&options.act) {
        return refused(format!("acts of {:?}; 1s to 1h are possible", options.act));
    }
    if !(0.0..=1.0).contains(&options.hit_rate) {
        return refused(format!(
            "a hit rate of {}; give a share from 0 to 1, such as 0.9",
            options.hit_rate
        ));
    }
    if let Some(rate) = options.rate
        && !(1.0..=100_000.0).contains(&rate)
    {
        return refused(format!(
            "{rate} connections per second; 1 to 100000 are possible"
        ));
    }
    if !(Duration::from_millis(200)..=Duration::from_secs(600)).contains(&options.return_after) {
        return refused(format!(
            "clients that come back after {:?}; 200ms to 10m are possible",
            options.return_after
        ));
    }
    if options.held == 0 {
        return refused("no connection to hold; --held takes 1 and more".into());
    }
    let changes = matches!(options.drill, Drill::RsaRenewal | Drill::ColdStart);
    if changes && matches!(options.target, Target::Named(_)) {
        return refused(format!(
            "{} is made on an instance of its own alone: on yours it would replace a certificate or end the process; \
             leave --instance out",
            options.drill.name()
        ));
    }
    Ok(())
}
