//! Two sheets side by side: what changed, and what only seems to have.

use serde::{Deserialize, Serialize};

use crate::{Figure, Machine, Measured, Sheet, Unit};

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Costs less, or does more per second.
    Better,
    /// Costs more, or does less per second.
    Worse,
    /// Differs, in a unit where neither direction is the better one.
    Different,
    /// The spreads overlap: no difference is shown.
    NotToldApart,
}

/// One figure that both sheets have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its id.
    pub id: String,
    /// The same for people.
    pub label: String,
    /// Unit of `old` and `new`.
    pub unit: Unit,
    /// As it was.
    pub old: Measured,
    /// As it is.
    pub new: Measured,
    /// New over old, as far apart as spread and drift of both sheets allow; `None` when old is 0.
    pub ratio: Option<Measured>,
    /// What to say about it.
    pub change: Change,
}

/// A property of the machine that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Which one, such as `CPU`.
    pub what: String,
    /// As it was.
    pub old: String,
    /// As it is.
    pub new: String,
}

/// Two sheets side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// When the old one was made.
    pub old_made: String,
    /// When the new one was made.
    pub new_made: String,
    /// What is not the same about machine, program and provider; a change of figures may come from there.
    pub differences: Vec<Difference>,
    /// Figures that both have, in the order of the new sheet.
    pub figures: Vec<Compared>,
    /// Ids that only the old one has.
    pub only_old: Vec<String>,
    /// Ids that only the new one has.
    pub only_new: Vec<String>,
}

/// Sets `new` beside `old`. Two figures are of the same thing when id, unit and label are the same: a label
/// says how many sessions or bytes it was measured with, and a short run may take fewer.
pub fn compare(old: &Sheet, new: &Sheet) -> Comparison {
    let mut figures = Vec::new();
    let mut only_new = Vec::new();
    for figure in new.figures() {
        match old.figure(&figure.id) {
            Some(before) if same(before, figure) => {
                figures.push(compared(old, before, new, figure));
            }
            _ => only_new.push(figure.id.clone()),
        }
    }
    let only_old = old
        .figures()
        .filter(|before| {
            new.figure(&before.id)
                .is_none_or(|figure| !same(before, figure))
        })
        .map(|figure| figure.id.clone())
        .collect();
    Comparison {
        old_made: old.made.clone(),
        new_made: new.made.clone(),
        differences: differences(old, new),
        figures,
        only_old,
        only_new,
    }
}

impl Comparison {
    /// Figures that are worse by more than `ratio`, and told apart: 1.1 finds what costs a tenth more.
    pub fn worse_than(&self, ratio: f64) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(move |figure| {
            figure.change == Change::Worse
                && figure.ratio.is_none_or(|found| {
                    let worse = if figure.unit == Unit::PerSecond {
                        1.0 / found.median
                    } else {
                        found.median
                    };
                    worse > ratio
                })
        })
    }
}

fn same(one: &Figure, other: &Figure) -> bool {
    one.unit == other.unit && one.label == other.label
}

fn compared(old: &Sheet, before: &Figure, new: &Sheet, after: &Figure) -> Compared {
    let wide_old = old.spread_with_drift(before);
    let wide_new = new.spread_with_drift(after);
    let change = if !wide_new.differs_from(&wide_old) {
        Change::NotToldApart
    } else {
        match (after.unit, wide_new.high < wide_old.low) {
            (Unit::Ratio, _) => Change::Different,
            (Unit::PerSecond, less) => {
                if less {
                    Change::Worse
                } else {
                    Change::Better
                }
            }
            (Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::Bytes | Unit::Count, less) => {
                if less {
                    Change::Better
                } else {
                    Change::Worse
                }
            }
        }
    };
    Compared {
        id: after.id.clone(),
        label: after.label.clone(),
        unit: after.unit,
        old: before.measured,
        new: after.measured,
        ratio: (wide_old.low > 0.0).then(|| wide_new.over(&wide_old)),
        change,
    }
}

fn differences(old: &Sheet, new: &Sheet) -> Vec<Difference> {
    let facts = |sheet: &Sheet| {
        let Machine {
            cpu,
            cpu_flags,
            cores,
            memory_bytes,
            kernel,
            architecture,
        } = &sheet.machine;
        [
            ("CPU", cpu.clone()),
            ("CPU flags", cpu_flags.join(" ")),
            ("cores", cores.to_string()),
            ("memory, bytes", memory_bytes.to_string()),
            ("kernel", kernel.clone()),
            ("architecture", architecture.clone()),
            ("tollgate", sheet.tollgate.clone()),
            ("provider", sheet.provider.clone()),
        ]
    };
    facts(old)
        .into_iter()
        .zip(facts(new))
        .filter(|((_, old), (_, new))| old != new)
        .map(|((what, old), (_, new))| Difference {
            what: what.to_owned(),
            old,
            new,
        })
        .collect()
}
