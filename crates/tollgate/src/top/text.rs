//! Numbers as people read them: few digits that move, always a unit, a dash for what cannot be known yet.

/// Shown for what cannot be known yet, which is not the same as zero.
pub const UNKNOWN: &str = "–";

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `value` with so many decimals and commas between thousands.
pub fn fixed(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut text = String::new();
    if value < 0.0 && plain.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        text.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

/// Three digits that mean something, whole numbers beyond.
fn digits3(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 0.0995 => 4,
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    fixed(value, decimals)
}

/// `412.3 /s`
pub fn rate(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 9.995 => 2,
        size if size < 999.95 => 1,
        _ => 0,
    };
    format!("{} /s", fixed(value, decimals))
}

/// `0.041 cores`, without the word.
pub fn cores(value: f64) -> String {
    fixed(value, if value.abs() < 9.995 { 3 } else { 1 })
}

/// `81.2 %`
pub fn share(value: f64) -> String {
    let decimals = match value {
        0.0 => 0,
        value if value.abs() < 0.00095 => 2,
        _ => 1,
    };
    format!("{} %", fixed(value * 100.0, decimals))
}

/// `1.24 MB`, in powers of 1,024 as everywhere in Tollgate.
pub fn bytes(value: f64) -> String {
    let mut size = value;
    for unit in ["B", "KB", "MB", "GB"] {
        if size.abs() < 999.5 {
            let text = if unit == "B" {
                fixed(size, 0)
            } else {
                digits3(size)
            };
            return format!("{text} {unit}");
        }
        size /= 1024.0;
    }
    format!("{} TB", digits3(size))
}

/// `71.6 µs`, or milliseconds when they are many.
pub fn micros(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{} s", digits3(value / 1e6)),
        size if size >= 9_999.5 => format!("{} ms", digits3(value / 1e3)),
        _ => format!("{} µs", digits3(value)),
    }
}

/// A length of time in its two largest units.
pub fn seconds(value: f64) -> String {
    if value < 0.0 {
        return format!("-{}", seconds(-value));
    }
    if value < 0.9995 {
        return match value {
            0.0 => "0 s".to_owned(),
            value => format!("{} ms", digits3(value * 1000.0)),
        };
    }
    if value < 9.95 {
        return format!("{} s", fixed(value, 1));
    }
    let whole = value.round() as u64;
    let two = |large: (u64, &str), small: (u64, &str)| {
        let (first, rest) = (whole / large.0, whole % large.0 / small.0);
        match rest {
            0 => format!("{first} {}", large.1),
            rest => format!("{first} {} {rest} {}", large.1, small.1),
        }
    };
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => two((60, "min"), (1, "s")),
        3_600..86_400 => two((3_600, "h"), (60, "min")),
        _ => two((86_400, "d"), (3_600, "h")),
    }
}

/// A value in one of the units that readings and alarms have.
pub fn in_unit(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else {
        return UNKNOWN.to_owned();
    };
    match unit {
        "micros" => micros(value),
        "nanos_per_byte" => format!("{} ns/B", digits3(value)),
        "bytes" => bytes(value),
        "cores" => format!("{} cores", cores(value)),
        "per_second" => rate(value),
        "share" => share(value),
        "seconds" => seconds(value),
        "count" if value.fract() == 0.0 => fixed(value, 0),
        _ => digits3(value),
    }
}

/// What is known, as `show` says it.
pub fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// The newest `width` values as bars, the highest one full.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let most = values.iter().copied().fold(0.0, f64::max);
    values
        .iter()
        .map(|value| match value / most {
            part if part > 0.0 => BARS[((part * 8.0) as usize).min(7)],
            _ => ' ',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        assert_eq!(rate(0.0), "0 /s");
        assert_eq!(rate(412.31), "412.3 /s");
        assert_eq!(rate(1_234_567.8), "1,234,568 /s");
        assert_eq!(share(0.8123), "81.2 %");
        assert_eq!(share(0.0004), "0.04 %");
        assert_eq!(bytes(950.0), "950 B");
        assert_eq!(bytes(1_240_000.0), "1.18 MB");
        assert_eq!(micros(71.62), "71.6 µs");
        assert_eq!(micros(12_345.0), "12.3 ms");
        assert_eq!(seconds(250.0), "4 min 10 s");
        assert_eq!(seconds(0.000_73), "0.730 ms");
        assert_eq!(in_unit(Some(30.0), "count"), "30");
        assert_eq!(seconds(86_400.0 * 3.0 + 4.0 * 3_600.0), "3 d 4 h");
        assert_eq!(fixed(-0.001, 1), "0.0");
        assert_eq!(in_unit(None, "micros"), UNKNOWN);
        assert_eq!(in_unit(Some(1.23), "nanos_per_byte"), "1.23 ns/B");
    }

    #[test]
    fn a_sparkline_shows_the_newest_and_leaves_nothing_blank() {
        assert_eq!(sparkline(&[9.0, 0.0, 1.0, 4.0, 8.0], 4), " ▂▅█");
        assert_eq!(sparkline(&[0.0, 0.0], 4), "  ");
        assert_eq!(sparkline(&[], 4), "");
    }
}
