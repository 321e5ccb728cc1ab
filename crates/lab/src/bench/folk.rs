//! Published figures beside measured ones. They are shown and never computed with.

mod said;

use std::fmt;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_cost::{Figure, Measured, Reference, Sheet, Unit};

use said::{CORRECTIONS, Of, SAID};

use super::text;

/// One published figure beside what the sheet has.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What it is about.
    pub what: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Lowest published value.
    pub published_low: f64,
    /// Highest published value.
    pub published_high: f64,
    /// Where it is said.
    pub source: String,
    /// What else is true about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// The same on this machine; `None` when the sheet does not have it.
    pub measured: Option<Measured>,
}

impl Beside {
    /// How far off the published value is: measured over the nearest published one, 1 when it lies
    /// within; `None` when nothing was measured.
    pub fn ratio(&self) -> Option<f64> {
        let measured = self.measured?;
        if measured.high < self.published_low {
            Some(measured.median / self.published_low)
        } else if measured.low > self.published_high {
            Some(measured.median / self.published_high)
        } else {
            Some(1.0)
        }
    }
}

/// A saying, and what is true.
#[derive(Clone, Debug, Serialize)]
pub struct Correction {
    /// What is said.
    pub said: &'static str,
    /// What is true.
    pub true_is: &'static str,
}

/// Everything that is said, beside what is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Folk {
    /// Figures.
    pub figures: Vec<Beside>,
    /// Sayings that need no measurement.
    pub corrections: Vec<Correction>,
}

/// Published figures and sayings, beside what `sheet` has.
pub fn folk(sheet: &Sheet) -> Folk {
    Folk {
        figures: beside(sheet),
        corrections: corrections(),
    }
}

/// Every published figure, in order of phase, beside what `sheet` has.
pub fn beside(sheet: &Sheet) -> Vec<Beside> {
    SAID.iter()
        .map(|said| Beside {
            what: said.what.into(),
            unit: said.unit,
            published_low: said.low,
            published_high: said.high,
            source: said.source.into(),
            remark: said.remark.map(Into::into),
            measured: find(sheet, said.of),
        })
        .collect()
}

/// What is said and wrong by arithmetic or by the standard, without a measurement.
pub fn corrections() -> Vec<Correction> {
    CORRECTIONS
        .iter()
        .map(|(said, true_is)| Correction { said, true_is })
        .collect()
}

/// Gives each figure the published value for the same thing, where there is one.
pub(crate) fn refer(figures: &mut [Figure]) {
    for figure in figures {
        figure.reference = SAID
            .iter()
            .find(|said| matches!(said.of, Of::Figure(id) if id == figure.id))
            .map(|said| Reference {
                low: said.low,
                high: said.high,
                source: said.source.into(),
                remark: said.remark.map(Into::into),
            });
    }
}

fn find(sheet: &Sheet, of: Of) -> Option<Measured> {
    let get = |id| sheet.figure(id).map(|figure| figure.measured);
    let above_zero = |measured: Measured| (measured.low > 0.0).then_some(measured);
    match of {
        Of::Figure(id) => get(id),
        Of::Rate(id) => Some(above_zero(get(id)?)?.inverted(1e9)),
        Of::Gigabits(id) => Some(above_zero(get(id)?)?.inverted(8.0)),
        Of::Sum(one, other) => {
            let (one, other) = (get(one)?, get(other)?);
            Some(Measured {
                n: one.n.min(other.n),
                median: one.median + other.median,
                low: one.low + other.low,
                high: one.high + other.high,
            })
        }
        Of::Over(one, other) => Some(get(one)?.over(&above_zero(get(other)?)?)),
        Of::Clock => Some(Measured::exact(sheet.clock_nanoseconds)),
    }
}

/// [`Beside::ratio`] for people: `agrees` when it rounds to one, `0.31 times`, or nothing when it was not
/// measured.
pub fn off_by(row: &Beside) -> String {
    match row.ratio() {
        None => String::new(),
        Some(ratio) if (0.95..1.05).contains(&ratio) => "agrees".into(),
        Some(ratio) if ratio >= 9.95 => format!("{ratio:.0} times"),
        Some(ratio) if ratio >= 0.995 => format!("{ratio:.1} times"),
        Some(ratio) => format!("{ratio:.2} times"),
    }
}

impl fmt::Display for Folk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = text::plain_table();
        table.set_header(["", "published", "here", "here / published"].map(text::right));
        let mut remarks = Vec::new();
        for row in &self.figures {
            let note = row.remark.as_ref().map_or_else(String::new, |remark| {
                remarks.push(remark);
                format!(" [{}]", remarks.len())
            });
            table.add_row([
                Cell::new(format!("{}{note}", row.what)),
                text::right(text::range(row.published_low, row.published_high, row.unit)),
                text::right(
                    row.measured
                        .map_or_else(|| "-".into(), |found| text::value(&found, row.unit)),
                ),
                text::right(off_by(row)),
            ]);
        }
        f.write_str(&text::indented(&table))?;
        writeln!(f)?;
        for (place, remark) in remarks.iter().enumerate() {
            writeln!(f, "[{}] {remark}", place + 1)?;
        }
        writeln!(f, "\nSayings that need no measurement")?;
        for correction in &self.corrections {
            writeln!(f, "  said  {}", correction.said)?;
            writeln!(f, "  true  {}\n", correction.true_is)?;
        }
        Ok(())
    }
}
