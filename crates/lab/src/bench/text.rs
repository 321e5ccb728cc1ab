//! Figures as text for people: as many digits as the spread leaves, and never more.

use std::fmt::{self, Display, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table, TableComponent};
use tollgate_cost::{Change, Compared, Comparison, Figure, Measured, PhaseTable, Sheet, Unit};

use super::{conclusions, matrix};

/// A spread beyond this share of the median leaves not one digit; then the two ends are shown.
const TOO_WIDE: f64 = 0.25;

/// A whole sheet: where it is from, its tables, what follows from them.
pub fn sheet(sheet: &Sheet) -> String {
    let mut text = heading(sheet);
    for table in &sheet.phases {
        text.push('\n');
        text.push_str(&phase(sheet, table));
    }
    let follows = conclusions::conclusions(sheet);
    if !follows.is_empty() {
        text.push_str("\nWhat follows\n");
        for line in follows {
            let _ = writeln!(text, "  - {line}");
        }
    }
    text
}

/// Machine, kernel, provider, clock and steadiness.
pub fn heading(sheet: &Sheet) -> String {
    let machine = &sheet.machine;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, {} core{}, {} GB, Linux {}, {}",
        machine.cpu,
        machine.cores,
        if machine.cores == 1 { "" } else { "s" },
        machine.memory_bytes >> 30,
        machine.kernel,
        machine.architecture,
    );
    let _ = writeln!(
        text,
        "CPU flags that matter: {}",
        machine.cpu_flags.join(" ")
    );
    let _ = writeln!(
        text,
        "tollgate {}, {}; measured {}",
        sheet.tollgate, sheet.provider, sheet.made
    );
    let _ = writeln!(
        text,
        "Reading the clock takes {:.0} ns, which is taken off. The machine drifted by ±{} meanwhile.",
        sheet.clock_nanoseconds,
        percent(sheet.steadiness.drift()),
    );
    text
}

/// One table, with a line for figures that cannot be told apart; whole handshakes as a matrix of their own.
pub fn phase(sheet: &Sheet, phase: &PhaseTable) -> String {
    let mut text = format!("Phase {}: {}\n", phase.phase, phase.name);
    let (matrix, plain): (Vec<&Figure>, Vec<&Figure>) = phase
        .figures
        .iter()
        .partition(|figure| matrix::belongs(figure));
    if !plain.is_empty() {
        text.push_str(&list(&plain));
    }
    for group in not_told_apart(sheet, &plain) {
        text.push_str(&wrapped("not told apart here", &group));
    }
    if !matrix.is_empty() {
        let _ = write!(text, "\n{}", matrix::text(sheet, &matrix));
    }
    text
}

fn list(figures: &[&Figure]) -> String {
    let rates = figures.iter().any(|figure| rate(figure).is_some());
    let published = figures.iter().any(|figure| figure.reference.is_some());
    let mut table = plain_table();
    let mut header = vec!["", "median", "±"];
    if rates {
        header.push("one core does");
    }
    if published {
        header.push("published");
    }
    table.set_header(header.iter().map(right));
    for figure in figures {
        let mut row = vec![
            Cell::new(&figure.label),
            right(value(&figure.measured, figure.unit)),
            right(spread(&figure.measured)),
        ];
        if rates {
            row.push(right(rate(figure).unwrap_or_default()));
        }
        if published {
            row.push(right(published_value(figure)));
        }
        table.add_row(row);
    }
    indented(&table)
}

/// A comparison: what got better, worse, or cannot be told apart.
pub fn comparison(comparison: &Comparison) -> String {
    let mut text = format!("old {}\nnew {}\n", comparison.old_made, comparison.new_made);
    for difference in &comparison.differences {
        let _ = writeln!(
            text,
            "not the same {}: {} -> {}",
            difference.what, difference.old, difference.new
        );
    }
    let told: Vec<&Compared> = comparison
        .figures
        .iter()
        .filter(|figure| figure.change != Change::NotToldApart)
        .collect();
    text.push('\n');
    if !told.is_empty() {
        let mut table = plain_table();
        table.set_header(["", "old", "new", "new / old", ""].map(right));
        for figure in &told {
            table.add_row([
                Cell::new(&figure.label),
                right(value(&figure.old, figure.unit)),
                right(value(&figure.new, figure.unit)),
                right(
                    figure
                        .ratio
                        .map_or_else(|| "-".into(), |ratio| times(&ratio)),
                ),
                Cell::new(change(figure.change)),
            ]);
        }
        text.push_str(&indented(&table));
    }
    let same = comparison.figures.len() - told.len();
    let _ = writeln!(
        text,
        "{} of {} figures told apart; the spreads of the other {same} overlap, so no difference is shown.",
        told.len(),
        comparison.figures.len(),
    );
    for (side, ids) in [("old", &comparison.only_old), ("new", &comparison.only_new)] {
        if !ids.is_empty() {
            let _ = writeln!(text, "only in the {side} sheet: {}", ids.join(", "));
        }
    }
    text
}

/// What a change is called.
pub fn change(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::Worse => "worse",
        Change::Different => "different",
        Change::NotToldApart => "not told apart",
    }
}

/// A median in a unit for people, such as `15.3 µs`, with the digits that its spread leaves; the two
/// ends of the spread where it leaves none.
pub fn value(measured: &Measured, unit: Unit) -> String {
    let (factor, name) = scale(measured.median, unit);
    let shown = measured.scaled(1.0 / factor);
    let space = if name.is_empty() { "" } else { " " };
    if measured.relative_spread() > TOO_WIDE {
        let half = (shown.high - shown.low) / 2.0;
        let decimals = decimals(half, shown.median);
        return format!(
            "{} to {}{space}{name}",
            number(shown.low, decimals),
            number(shown.high, decimals)
        );
    }
    let half = (shown.high - shown.low) / 2.0;
    let decimals = if half > 0.0 {
        decimals(half, shown.median)
    } else if unit == Unit::Count || name == "B" {
        usize::from(shown.median.fract() != 0.0)
    } else {
        significant(shown.median, 3)
    };
    format!("{}{space}{name}", number(shown.median, decimals))
}

/// Half the width of a spread: `0.4 %`, `exact` for what does not vary, `noisy` beyond ±25 %.
pub fn spread(measured: &Measured) -> String {
    if measured.n == 1 || measured.high <= measured.low {
        "exact".into()
    } else if measured.relative_spread() > TOO_WIDE {
        "noisy".into()
    } else {
        percent(measured.relative_spread())
    }
}

/// What one core does in a second, for a figure that is a time.
pub fn rate(figure: &Figure) -> Option<String> {
    if figure.measured.low <= 0.0 {
        return None;
    }
    match figure.unit {
        Unit::Nanoseconds => Some(format!(
            "{}/s",
            value(&figure.measured.inverted(1e9), Unit::PerSecond).trim_end_matches(" /s")
        )),
        Unit::NanosecondsPerByte => {
            let gigabytes = figure.measured.inverted(1.0);
            Some(format!("{} GB/s", value(&gigabytes, Unit::Ratio)))
        }
        Unit::Bytes | Unit::Count | Unit::PerSecond | Unit::Ratio => None,
    }
}

/// The published value of a figure, or nothing.
pub fn published_value(figure: &Figure) -> String {
    figure.reference.as_ref().map_or_else(String::new, |found| {
        range(found.low, found.high, figure.unit)
    })
}

/// `low to high` in one unit, or the one value when both are the same.
pub fn range(low: f64, high: f64, unit: Unit) -> String {
    let (factor, name) = scale(high, unit);
    let space = if name.is_empty() { "" } else { " " };
    let plain = |value: f64| {
        let value = value / factor;
        trimmed(&number(value, significant(value, 3)))
    };
    if (high - low).abs() <= f64::EPSILON * high.abs() {
        format!("{}{space}{name}", plain(high))
    } else {
        format!("{} to {}{space}{name}", plain(low), plain(high))
    }
}

/// A ratio, such as `4.4 times`; its two ends where the spread leaves no digit.
pub fn times(ratio: &Measured) -> String {
    value(ratio, Unit::Ratio)
}

/// A share as per cent, such as `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 {
        "<0.1 %".into()
    } else if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// `what: one | other | ...` in lines of at most a hundred characters.
pub(crate) fn wrapped(what: &str, names: &[&str]) -> String {
    let mut text = format!("  {what}: ");
    let mut width = text.chars().count();
    for (place, name) in names.iter().enumerate() {
        let name = if place == 0 {
            (*name).to_owned()
        } else {
            format!(" | {name}")
        };
        let more = name.chars().count();
        if place > 0 && width + more > 100 {
            text.push_str("\n     ");
            width = 5;
        }
        text.push_str(&name);
        width += more;
    }
    text.push('\n');
    text
}

/// What a reader must know about a table, one line each.
pub(crate) fn notes(f: &mut fmt::Formatter<'_>, notes: &[impl Display]) -> fmt::Result {
    for note in notes {
        writeln!(f, "  - {note}")?;
    }
    Ok(())
}

/// Labels of figures of one kind that neither spread nor drift lets us tell from their neighbour.
pub fn not_told_apart<'a>(sheet: &Sheet, figures: &[&'a Figure]) -> Vec<Vec<&'a str>> {
    let mut kinds: Vec<(&str, Vec<&Figure>)> = Vec::new();
    for figure in figures {
        // Sizes and counts that are the same are the same; only what is timed can seem to be.
        if matches!(figure.unit, Unit::Bytes | Unit::Count | Unit::Ratio) {
            continue;
        }
        let kind = figure.id.split('/').next().unwrap_or_default();
        match kinds
            .iter_mut()
            .find(|(name, list)| *name == kind && list[0].unit == figure.unit)
        {
            Some((_, list)) => list.push(figure),
            None => kinds.push((kind, vec![figure])),
        }
    }
    kinds
        .into_iter()
        .flat_map(|(_, list)| alike(sheet, list))
        .map(|group| group.iter().map(|figure| figure.label.as_str()).collect())
        .collect()
}

/// Groups of two and more that are not told apart. A group is what cannot be told from its first member,
/// so that a long chain of small steps does not end up as one.
pub(crate) fn alike<'a>(sheet: &Sheet, mut figures: Vec<&'a Figure>) -> Vec<Vec<&'a Figure>> {
    figures.sort_by(|a, b| a.measured.median.total_cmp(&b.measured.median));
    let mut groups: Vec<Vec<&Figure>> = Vec::new();
    for figure in figures {
        match groups.last_mut() {
            Some(group) if !sheet.told_apart(group[0], figure) => group.push(figure),
            _ => groups.push(vec![figure]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Factor and name of the unit in which `value` reads best.
fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    let pick = |steps: &[(f64, &'static str)]| {
        steps
            .iter()
            .rev()
            .find(|(factor, _)| value.abs() >= *factor)
            .or(steps.first())
            .copied()
            .unwrap_or((1.0, ""))
    };
    match unit {
        Unit::Nanoseconds => pick(&[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
        Unit::NanosecondsPerByte => (1.0, "ns/B"),
        Unit::Bytes => pick(&[
            (1.0, "B"),
            (1024.0, "KB"),
            (1_048_576.0, "MB"),
            (1_073_741_824.0, "GB"),
        ]),
        Unit::PerSecond => (1.0, "/s"),
        Unit::Count | Unit::Ratio => (1.0, ""),
    }
}

/// Decimals at which the first digit of `half` shows, two digits where that is a 1; no more than four
/// digits of `value` in all.
fn decimals(half: f64, value: f64) -> usize {
    let place = -half.log10().floor();
    let lead = half * 10_f64.powf(place);
    let wanted = if lead < 2.0 { place + 1.0 } else { place };
    (wanted.max(0.0) as usize).min(significant(value, 4))
}

/// Decimals at which `digits` digits of `value` show.
fn significant(value: f64, digits: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (digits - 1 - value.abs().log10().floor() as i32).max(0) as usize
}

/// A number with a space between thousands from five digits on.
fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain
        .split_once('.')
        .map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    let mut grouped = String::new();
    if whole.starts_with('-') {
        grouped.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len() > 4 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}

fn trimmed(number: &str) -> String {
    if number.contains('.') {
        number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        number.to_owned()
    }
}

/// A table without a frame: columns apart by two spaces, a line under the header.
pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    table
}

/// A cell that is aligned to the right.
pub fn right(text: impl AsRef<str>) -> Cell {
    Cell::new(text.as_ref()).set_alignment(CellAlignment::Right)
}

/// A table as lines, each ended, without blanks at the end.
pub fn indented(table: &Table) -> String {
    table
        .lines()
        .map(|line| format!(" {}\n", line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(median: f64, low: f64, high: f64) -> Measured {
        Measured {
            n: 25,
            median,
            low,
            high,
        }
    }

    #[test]
    fn a_value_has_the_digits_that_its_spread_leaves() {
        for (median, half, shown) in [
            (15_324.0, 40.0, "15.32 µs"),
            (15_324.0, 300.0, "15.3 µs"),
            (15_324.0, 3_000.0, "15 µs"),
            (1_532_400.0, 12_000.0, "1.532 ms"),
            (240.0, 1e-9, "240.0 ns"),
        ] {
            let found = value(
                &measured(median, median - half, median + half),
                Unit::Nanoseconds,
            );
            assert_eq!(found, shown, "{median} ±{half}");
        }
    }

    #[test]
    fn a_noisy_value_shows_its_ends_and_no_digits_in_between() {
        let noisy = measured(15_000.0, 8_000.0, 21_000.0);
        assert_eq!(value(&noisy, Unit::Nanoseconds), "8 to 21 µs");
        assert_eq!(spread(&noisy), "noisy");
    }

    #[test]
    fn an_exact_value_is_shown_whole() {
        assert_eq!(value(&Measured::exact(242.0), Unit::Bytes), "242 B");
        assert_eq!(value(&Measured::exact(12_345.0), Unit::Count), "12,345");
        assert_eq!(value(&Measured::exact(4_403.2), Unit::Bytes), "4.30 KB");
        assert_eq!(spread(&Measured::exact(1.0)), "exact");
    }

    #[test]
    fn a_range_is_one_value_when_both_ends_are_the_same() {
        assert_eq!(range(2e6, 2.5e6, Unit::Nanoseconds), "2 to 2.5 ms");
        assert_eq!(range(7e6, 7e6, Unit::Nanoseconds), "7 ms");
        assert_eq!(range(0.0, 0.0, Unit::Nanoseconds), "0 ns");
    }

    #[test]
    fn long_lists_are_wrapped() {
        let names = vec!["a name of some length"; 12];
        let text = wrapped("not told apart", &names);
        assert!(text.lines().count() > 2);
        assert!(
            text.lines().all(|line| line.chars().count() <= 105),
            "{text}"
        );
    }
}
