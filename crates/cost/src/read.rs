//! From the JSON form back to a sheet, with an answer for whatever can be wrong with it.

use std::collections::HashSet;

use serde_json::Value;

use crate::sheet::SHEET_VERSION;
use crate::{PHASES, Sheet, Unit};

/// Why a text is no sheet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SheetError {
    /// Not even JSON.
    #[error(
        "not JSON: {reason} at line {line}, column {column}; a sheet is the sheet.json that `tollgate bench` writes"
    )]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the JSON reader says.
        reason: String,
    },
    /// JSON of another kind.
    #[error(
        "no sheet: `sheet_version` is missing; a sheet is the sheet.json that `tollgate bench` writes"
    )]
    NoVersion,
    /// A format that this version does not know.
    #[error(
        "sheet_version {found} is not read here, only {SHEET_VERSION}; measure again with `tollgate bench`"
    )]
    Version {
        /// What the text says.
        found: String,
    },
    /// A figure in a unit that does not exist.
    #[error("figure {id} has the unit {found}; there are {}", units())]
    Unit {
        /// The figure.
        id: String,
        /// Its unit.
        found: String,
    },
    /// A field is missing, unknown or of the wrong type.
    #[error("{place}: {reason}; `tollgate bench --schema` prints what belongs there")]
    Shape {
        /// Where, such as `phase 2, figure ticket/seal/tls13`.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// An id that is there twice.
    #[error("figure {id} is there twice; an id names one figure of a sheet")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A phase that does not exist, or is there twice, or has another one's name.
    #[error("phase {phase} ({name}): {reason}; the phases are 1 to 6, each at most once: {}", PHASES.join(", "))]
    Phase {
        /// The number.
        phase: u64,
        /// The name.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A median outside of its own spread, or a figure without repetitions.
    #[error(
        "figure {id}: n {n}, low {low}, median {median}, high {high} cannot be; n is at least 1 and low <= median <= high"
    )]
    Interval {
        /// The figure.
        id: String,
        /// Repetitions, as written.
        n: u64,
        /// Lower end, as written.
        low: String,
        /// Median, as written.
        median: String,
        /// Upper end, as written.
        high: String,
    },
}

impl Sheet {
    /// Reads the JSON form.
    ///
    /// # Errors
    ///
    /// Names the first thing that is wrong: the syntax, the version, a phase, a figure.
    pub fn from_json(text: &str) -> Result<Self, SheetError> {
        let value: Value = serde_json::from_str(text).map_err(|error| SheetError::NotJson {
            line: error.line(),
            column: error.column(),
            reason: without_place(&error),
        })?;
        match value.get("sheet_version") {
            None => return Err(SheetError::NoVersion),
            Some(version) if version.as_u64() != Some(u64::from(SHEET_VERSION)) => {
                return Err(SheetError::Version {
                    found: version.to_string(),
                });
            }
            Some(_) => {}
        }
        check_shapes(&value)?;
        let sheet: Self = serde_json::from_value(value).map_err(|error| SheetError::Shape {
            place: "the sheet".into(),
            reason: error.to_string(),
        })?;
        check_phases(&sheet)?;
        check_figures(&sheet)?;
        Ok(sheet)
    }
}

/// Reads table by table and figure by figure, so that an error can say where it is.
fn check_shapes(value: &Value) -> Result<(), SheetError> {
    for table in array(value, "phases") {
        let phase = table.get("phase").map_or("?".into(), Value::to_string);
        for figure in array(table, "figures") {
            let id = figure.get("id").and_then(Value::as_str).unwrap_or("?");
            if let Some(unit) = figure.get("unit")
                && serde_json::from_value::<Unit>(unit.clone()).is_err()
            {
                return Err(SheetError::Unit {
                    id: id.to_owned(),
                    found: unit.to_string(),
                });
            }
            serde_json::from_value::<crate::Figure>(figure.clone()).map_err(|error| {
                SheetError::Shape {
                    place: format!("phase {phase}, figure {id}"),
                    reason: error.to_string(),
                }
            })?;
        }
    }
    Ok(())
}

fn check_phases(sheet: &Sheet) -> Result<(), SheetError> {
    let mut seen = HashSet::new();
    for table in &sheet.phases {
        let name = usize::from(table.phase)
            .checked_sub(1)
            .and_then(|place| PHASES.get(place));
        let reason = match name {
            None => "there is no such phase",
            Some(name) if *name != table.name => "the number has another name",
            Some(_) if !seen.insert(table.phase) => "it is there twice",
            Some(_) => continue,
        };
        return Err(SheetError::Phase {
            phase: table.phase.into(),
            name: table.name.clone(),
            reason,
        });
    }
    Ok(())
}

fn check_figures(sheet: &Sheet) -> Result<(), SheetError> {
    let mut seen = HashSet::new();
    for figure in sheet.figures() {
        if !seen.insert(&figure.id) {
            return Err(SheetError::Duplicate {
                id: figure.id.clone(),
            });
        }
        let measured = figure.measured;
        if measured.n == 0 || measured.low > measured.median || measured.median > measured.high {
            return Err(SheetError::Interval {
                id: figure.id.clone(),
                n: measured.n,
                low: measured.low.to_string(),
                median: measured.median.to_string(),
                high: measured.high.to_string(),
            });
        }
    }
    Ok(())
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The reader's words without the place, which is said apart.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn units() -> String {
    Unit::ALL.map(Unit::name).join(", ")
}
