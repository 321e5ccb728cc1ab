//! The sheet: every phase that was asked for, on this machine, now.

use std::time::{Duration, Instant};

use tollgate_cost::{Figure, PHASES, PhaseTable, SHEET_VERSION, Sheet, Steadiness};

use super::runner::clock_cost;
use super::yardstick::yardstick;
use super::{Bench, BenchError, aes_hardware, folk, machine};

/// The phase that can be measured without AES instructions.
const RECORDS: u8 = 3;

/// How much time a sheet may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Under three minutes for all six phases.
    #[default]
    Normal,
    /// A look, in a tenth of the time; spreads are wider.
    Quick,
}

/// What a sheet shall have.
#[derive(Clone, Debug)]
pub struct SheetOptions {
    /// Phases to measure, in any order; those that do not exist are left out. Default: all.
    pub phases: Vec<u8>,
    /// Time that it may take. Default: normal.
    pub effort: Effort,
    /// Whether phase 3 is measured once more in a process that does without the CPU's instructions for
    /// AES. Default: no.
    pub without_aes_hardware: bool,
}

impl Default for SheetOptions {
    fn default() -> Self {
        Self {
            phases: phases(),
            effort: Effort::Normal,
            without_aes_hardware: false,
        }
    }
}

/// How far a sheet has come.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// The phase at work, 1 to 6.
    pub phase: u8,
    /// Its name.
    pub name: &'static str,
    /// What is measured next.
    pub what: &'a str,
    /// Share of everything that is done, 0 to 1; by what phases usually take.
    pub share: f64,
}

type Phase = fn(&Bench<'_>) -> Result<Vec<Figure>, BenchError>;

/// How one phase is measured.
struct Measure {
    /// 1 to 6.
    phase: u8,
    /// What does it.
    measure: Phase,
    /// Time per figure in a sheet of normal effort.
    per_figure: Duration,
    /// About how long all of it takes, in seconds; for the progress alone.
    seconds: f64,
}

const fn by(phase: u8, measure: Phase, per_figure_millis: u64, seconds: f64) -> Measure {
    Measure {
        phase,
        measure,
        per_figure: Duration::from_millis(per_figure_millis),
        seconds,
    }
}

const MEASURES: &[Measure] = &[
    by(1, super::asymmetric::measure, 500, 14.0),
    by(2, super::derivation::measure, 250, 20.0),
    by(3, super::records::measure, 300, 6.0),
    by(4, super::handshake_memory::measure, 500, 20.0),
    by(5, super::connection_memory::measure, 500, 45.0),
    by(6, super::resumption::measure, 500, 20.0),
];

/// The phases that can be measured.
pub fn phases() -> Vec<u8> {
    MEASURES.iter().map(|measure| measure.phase).collect()
}

/// Measures what `options` ask for, in order of phase.
///
/// # Errors
///
/// When a primitive does not work here or the system refuses something.
pub fn sheet(options: &SheetOptions, progress: &dyn Fn(Stage<'_>)) -> Result<Sheet, BenchError> {
    let wanted: Vec<&Measure> = MEASURES
        .iter()
        .filter(|measure| options.phases.contains(&measure.phase))
        .collect();
    let all: f64 = wanted.iter().map(|measure| measure.seconds).sum();
    let machine = machine::machine()?;
    let clock = clock_cost();
    let mut readings = Vec::new();
    readings.extend((0..5).map(|_| yardstick()));
    let mut before = 0.0;
    let mut tables = Vec::new();
    for measure in wanted {
        let told = |what: &str, share: f64| {
            progress(Stage {
                phase: measure.phase,
                name: name(measure),
                what,
                share: (before + share.clamp(0.0, 1.0) * measure.seconds) / all,
            });
        };
        told("", 0.0);
        tables.push(table(measure, options, &told, &mut readings)?);
        before += measure.seconds;
    }
    readings.extend((0..5).map(|_| yardstick()));
    Ok(Sheet {
        sheet_version: SHEET_VERSION,
        made: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
        tollgate: env!("CARGO_PKG_VERSION").into(),
        provider: machine::PROVIDER.into(),
        machine,
        clock_nanoseconds: clock.median,
        steadiness: steadiness(&readings)?,
        phases: tables,
    })
}

fn table(
    measure: &Measure,
    options: &SheetOptions,
    progress: &dyn Fn(&str, f64),
    readings: &mut Vec<f64>,
) -> Result<PhaseTable, BenchError> {
    let begun = Instant::now();
    let per_figure = match options.effort {
        Effort::Normal => measure.per_figure,
        Effort::Quick => measure.per_figure / 20,
    };
    let bench = Bench::new(per_figure, progress);
    let mut figures = (measure.measure)(&bench)?;
    if measure.phase == RECORDS && options.without_aes_hardware {
        let mut without = aes_hardware::measure(&bench, &figures)?;
        figures.append(&mut without);
    }
    folk::refer(&mut figures);
    readings.extend(bench.yardstick.readings());
    Ok(PhaseTable {
        phase: measure.phase,
        name: name(measure).into(),
        seconds: (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        figures,
    })
}

fn name(measure: &Measure) -> &'static str {
    PHASES[usize::from(measure.phase) - 1]
}

fn steadiness(readings: &[f64]) -> Result<Steadiness, BenchError> {
    Steadiness::of(readings).ok_or_else(|| BenchError::Broken {
        what: "the CPU clock".into(),
        reason: "it gives no finite time".into(),
    })
}
