//! The sheet itself.

use serde::{Deserialize, Serialize};

use crate::{Figure, Measured, Unit};

/// The six things that TLS costs, by number from 1.
pub const PHASES: [&str; 6] = [
    "asymmetric",
    "derivation",
    "records",
    "handshake memory",
    "connection memory",
    "resumption",
];

/// Version of the format that is written, and the only one that is read.
pub const SHEET_VERSION: u32 = 1;

/// Everything that one `bench` found on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Version of this format; 1.
    pub sheet_version: u32,
    /// When it was made, RFC 3339, UTC.
    pub made: String,
    /// Version of the program that made it.
    pub tollgate: String,
    /// The cryptographic library, with its version.
    pub provider: String,
    /// Where it was made.
    pub machine: Machine,
    /// What reading the clock costs, in nanoseconds; it is subtracted from every time.
    pub clock_nanoseconds: f64,
    /// How steady the machine was meanwhile.
    pub steadiness: Steadiness,
    /// The tables, in order of phase; a run of one phase holds one.
    pub phases: Vec<PhaseTable>,
}

/// A machine, as far as it matters for figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPU flags that change what TLS costs, such as `aes`, `vaes`, `avx512f`, `sha_ni`.
    pub cpu_flags: Vec<String>,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
}

/// One fixed piece of arithmetic, timed around every figure: what changes in it is the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steadiness {
    /// How often it was timed.
    pub readings: u64,
    /// Middle of the readings, in nanoseconds.
    pub median_nanoseconds: f64,
    /// A quarter of the readings were lower.
    pub low_nanoseconds: f64,
    /// A quarter of the readings were higher.
    pub high_nanoseconds: f64,
}

impl Steadiness {
    /// Judges the readings, in nanoseconds; `None` when there are none or one is not a finite number.
    pub fn of(readings: &[f64]) -> Option<Self> {
        let median = Measured::of(readings)?.median;
        let mut sorted = readings.to_vec();
        sorted.sort_by(f64::total_cmp);
        // A figure is the middle of its repetitions: a neighbour who disturbs fewer than a quarter of them
        // does not move it.
        let quarter = sorted.len() / 4;
        Some(Self {
            readings: sorted.len() as u64,
            median_nanoseconds: median,
            low_nanoseconds: sorted[quarter],
            high_nanoseconds: sorted[sorted.len() - 1 - quarter],
        })
    }

    /// How far the machine itself went astray, as a share to each side: 0.03 for ±3 %.
    pub fn drift(&self) -> f64 {
        if self.median_nanoseconds > 0.0 {
            (self.high_nanoseconds - self.low_nanoseconds) / 2.0 / self.median_nanoseconds
        } else {
            0.0
        }
    }
}

/// The figures of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseTable {
    /// 1 to 6.
    pub phase: u8,
    /// Its name, from [`PHASES`].
    pub name: String,
    /// How long measuring took.
    pub seconds: f64,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
}

impl Sheet {
    /// JSON Schema (2020-12) of the JSON form.
    pub const SCHEMA: &str = include_str!("../sheet.schema.json");

    /// The figure of this id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures().find(|figure| figure.id == id)
    }

    /// All figures, in the order in which they are shown.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.phases.iter().flat_map(|table| &table.figures)
    }

    /// How far the machine was from its usual speed while `figure` was measured, as a share to each side;
    /// of the whole run when the figure does not say. 0 for what is no time.
    pub fn drift_of(&self, figure: &Figure) -> f64 {
        let usual = self.steadiness.median_nanoseconds;
        match (figure.unit, figure.yardstick_nanoseconds) {
            (Unit::Bytes | Unit::Count | Unit::Ratio, _) => 0.0,
            (Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::PerSecond, Some(readings))
                if usual > 0.0 =>
            {
                let astray = readings.map(|reading| (reading - usual).abs() / usual);
                astray[0].max(astray[1])
            }
            (Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::PerSecond, _) => {
                self.steadiness.drift()
            }
        }
    }

    /// The spread of `figure`, widened by what the machine itself drifted when it is a time.
    pub fn spread_with_drift(&self, figure: &Figure) -> Measured {
        let drift = self.drift_of(figure);
        let measured = figure.measured;
        Measured {
            low: measured.low - drift * measured.low.abs(),
            high: measured.high + drift * measured.high.abs(),
            ..measured
        }
    }

    /// Whether two figures of this sheet are further apart than spread and drift explain.
    pub fn told_apart(&self, one: &Figure, other: &Figure) -> bool {
        self.spread_with_drift(one)
            .differs_from(&self.spread_with_drift(other))
    }
}
