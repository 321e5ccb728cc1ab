//! Where a figure is from, and what is said when there is none.

use std::fmt;

use serde::Serialize;

/// Where a figure is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// On the command line.
    #[default]
    Given,
    /// On the command line in another unit.
    Converted {
        /// What was given, with its unit.
        given: String,
    },
    /// Somebody else's figure, taken as it was published.
    AsPublished,
    /// Measured.
    Sheet {
        /// Name of the sheet's file.
        file: String,
        /// Day on which it was made.
        day: String,
        /// Id of the figure.
        figure: String,
    },
    /// Neither given nor measured.
    Assumed {
        /// Why this value.
        why: String,
    },
}

impl Origin {
    /// In a word or two, to stand beside a result that this figure went into.
    pub fn short(&self) -> String {
        match self {
            Self::Given | Self::Converted { .. } => "given".into(),
            Self::AsPublished => "given, as published".into(),
            Self::Sheet { file, day, .. } => format!("sheet {file} of {day}"),
            Self::Assumed { .. } => "~".into(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => write!(out, "given on the command line"),
            Self::Converted { given } => write!(out, "given on the command line as {given}"),
            Self::AsPublished => write!(out, "given, as published"),
            Self::Sheet { file, day, figure } => write!(out, "{figure}, sheet {file} of {day}"),
            Self::Assumed { why } => write!(out, "~ assumed: {why}"),
        }
    }
}

/// A figure and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its value, in the unit that the field's name says.
    pub value: f64,
    /// Where it is from.
    pub origin: Origin,
}

/// An amount of memory that may be a span, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownBytes {
    /// What it is an amount of, such as `user memory`.
    pub what: String,
    /// Least bytes.
    pub low: f64,
    /// Most bytes; equal to `low` when it is one value.
    pub high: f64,
    /// Where it is from.
    pub origin: Origin,
}

/// One figure that went in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// What it is.
    pub what: String,
    /// Its value with its unit, as it is computed with.
    pub value: String,
    /// Where it is from.
    pub origin: Origin,
}

/// A figure that is needed and not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} is not known: it is not given, and no sheet was given that has {figure}; measure one with `tollgate bench --out DIR` and give --sheet DIR/sheet.json, or give {option}"
)]
pub struct Missing {
    /// What it is.
    pub what: String,
    /// Id that it would have in a sheet.
    pub figure: String,
    /// The option that gives it by hand.
    pub option: String,
}
