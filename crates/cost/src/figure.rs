//! One measured figure, with what is needed to believe it.

use serde::{Deserialize, Serialize};

use crate::Measured;

/// What a figure counts; the JSON form names the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// CPU time of one operation, in nanoseconds.
    Nanoseconds,
    /// CPU time of one byte, in nanoseconds.
    NanosecondsPerByte,
    /// Memory or length.
    Bytes,
    /// A count that is neither time nor memory, such as allocations.
    Count,
    /// Operations or bytes per second.
    PerSecond,
    /// One figure over another.
    Ratio,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 6] = [
        Self::Nanoseconds,
        Self::NanosecondsPerByte,
        Self::Bytes,
        Self::Count,
        Self::PerSecond,
        Self::Ratio,
    ];

    /// Its name in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::NanosecondsPerByte => "nanoseconds_per_byte",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::PerSecond => "per_second",
            Self::Ratio => "ratio",
        }
    }
}

/// A published value for the same thing: shown beside, never computed with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Lowest published value, in the unit of the figure.
    pub low: f64,
    /// Highest published value; equal to `low` for a single one.
    pub high: f64,
    /// Where it is said, and of which machine.
    pub source: String,
    /// What else is true about it, such as a contradiction in the source; `None` when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// One figure of a sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Stable name, words joined by `/` and `-`, such as `sign/rsa-2048`; unique within a sheet.
    pub id: String,
    /// The same for people, such as `sign, RSA-2048`.
    pub label: String,
    /// Unit of `measured` and `reference`.
    pub unit: Unit,
    /// Median, spread and number of repetitions.
    #[serde(flatten)]
    pub measured: Measured,
    /// How it was measured, in half a sentence.
    pub how: String,
    /// What is said elsewhere; `None` when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// What the fixed piece of work of [`crate::Steadiness`] took right before and right after, in
    /// nanoseconds; `None` for what is no time, and in sheets that were made without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick_nanoseconds: Option<[f64; 2]>,
}
