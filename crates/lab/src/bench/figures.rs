//! How the experiments write their figures: three digits and a unit, in tables that line up.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// A table with these headings; text to the left, figures to the right.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A time in microseconds: `74.3 µs`, `2.41 ms`, `1.20 s`.
pub(crate) fn micros(micros: f64) -> String {
    match micros.abs() {
        below if below < 0.9995 => format!("{} ns", digits(micros * 1e3)),
        below if below < 999.5 => format!("{} µs", digits(micros)),
        below if below < 999_500.0 => format!("{} ms", digits(micros / 1e3)),
        _ => format!("{} s", digits(micros / 1e6)),
    }
}

/// A rate: `940/s`, `12 300/s`.
pub(crate) fn per_second(rate: f64) -> String {
    if rate < 999.5 {
        return format!("{}/s", digits(rate));
    }
    let whole = rate.round() as u64;
    let mut text = String::new();
    let figures = whole.to_string();
    for (index, figure) in figures.chars().enumerate() {
        if index > 0 && (figures.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(figure);
    }
    text + "/s"
}

/// A share of one: `38 %`, `0.4 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A bit rate, without its unit.
pub(crate) fn gigabits(gigabits: f64) -> String {
    digits(gigabits)
}

/// Three digits that mean something.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        below if below < 9.995 => format!("{value:.2}"),
        below if below < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_and_the_unit_that_fits() {
        for (value, text) in [
            (0.05, "50.0 ns"),
            (74.26, "74.3 µs"),
            (620.0, "620 µs"),
            (999.7, "1.00 ms"),
            (2_400.0, "2.40 ms"),
            (1_250_000.0, "1.25 s"),
            (-3.0, "-3.00 µs"),
        ] {
            assert_eq!(micros(value), text);
        }
    }

    #[test]
    fn a_large_rate_is_grouped_by_thousands() {
        assert_eq!(per_second(940.2), "940/s");
        assert_eq!(per_second(1_540.0), "1 540/s");
        assert_eq!(per_second(1_234_567.0), "1 234 567/s");
        assert_eq!(per_second(2.5), "2.50/s");
    }

    #[test]
    fn a_small_share_keeps_a_decimal() {
        assert_eq!(percent(0.38), "38 %");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(-0.152), "-15 %");
    }
}
