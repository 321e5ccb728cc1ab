//! Times as logs write them.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Moment {
    /// Reads `21/Nov/2026:18:35:29 +0100`, the same with milliseconds or without an offset, RFC 3339 (its `T` may be
    /// a space), a day alone, or seconds or milliseconds since 1970. A time without an offset is read as UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        match bytes.get(2) {
            Some(b'/') => common(text),
            _ if bytes.get(4) == Some(&b'-') => rfc3339(text),
            _ => number(text),
        }
    }

    /// Seconds from `earlier` to this.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1_000.0
    }
}

impl fmt::Display for Moment {
    /// RFC 3339, in UTC, to the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000);
        match Timestamp::from_second(seconds) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{seconds}"),
        }
    }
}

/// `21/Nov/2026:18:35:29[.123][ +0100]`
fn common(text: &str) -> Option<Moment> {
    let month = MONTHS
        .iter()
        .position(|name| text.get(3..6) == Some(*name))?;
    let year: i16 = digits(text.get(7..11)?)?;
    let day: i8 = digits(text.get(..2)?)?;
    if text.get(6..7) != Some("/") || text.get(11..12) != Some(":") {
        return None;
    }
    let month = i8::try_from(month + 1).ok()?;
    clock((year, month, day), text.get(12..)?)
}

/// `2026-11-21T18:35:29[.123](Z|+01:00)`, or a day.
fn rfc3339(text: &str) -> Option<Moment> {
    let year: i16 = digits(text.get(..4)?)?;
    let month: i8 = digits(text.get(5..7)?)?;
    let day: i8 = digits(text.get(8..10)?)?;
    if text.get(7..8) != Some("-") {
        return None;
    }
    match text.get(10..11) {
        None => clock((year, month, day), "00:00:00"),
        Some("T" | "t" | " ") => clock((year, month, day), text.get(11..)?),
        Some(_) => None,
    }
}

/// `18:35[:29[.123]][offset]` of a day.
fn clock((year, month, day): (i16, i8, i8), text: &str) -> Option<Moment> {
    let hour: i8 = digits(text.get(..2)?)?;
    let minute: i8 = digits(text.get(3..5)?)?;
    let mut rest = text.get(5..)?;
    if text.get(2..3) != Some(":") {
        return None;
    }
    let mut second: i8 = 0;
    if let Some(more) = rest.strip_prefix(':') {
        second = digits(more.get(..2)?)?;
        rest = more.get(2..)?;
    }
    let mut millis = 0;
    if let Some(more) = rest.strip_prefix(['.', ',']) {
        let length = more.bytes().take_while(u8::is_ascii_digit).count();
        for place in 0..3 {
            let digit = more.as_bytes()[..length].get(place).copied();
            millis = millis * 10 + i64::from(digit.unwrap_or(b'0') - b'0');
        }
        rest = &more[length..];
    }
    let offset = offset(rest.trim())?;
    // A leap second is the second before it, as POSIX counts.
    let time = DateTime::new(year, month, day, hour, minute, second.min(59), 0).ok()?;
    let utc = Offset::UTC.to_timestamp(time).ok()?;
    let utc = utc.checked_sub(SignedDuration::from_secs(offset)).ok()?;
    Some(Moment(utc.as_millisecond() + millis))
}

/// Seconds east of Greenwich: `Z`, `+0100`, `+01:00` or nothing.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let hours: i64 = digits(text.get(1..3)?)?;
    let rest = text.get(3..)?;
    let minutes: i64 = digits(rest.strip_prefix(':').unwrap_or(rest))?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Seconds, with or without a fraction, or milliseconds when there are 13 digits.
fn number(text: &str) -> Option<Moment> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value: i64 = digits(whole)?;
    match whole.len() {
        9..=10 => {
            let mut millis = 0;
            for place in 0..3 {
                let digit = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
                if !digit.is_ascii_digit() {
                    return None;
                }
                millis = millis * 10 + i64::from(digit - b'0');
            }
            Some(Moment(value * 1_000 + millis))
        }
        13 => Some(Moment(value)),
        _ => None,
    }
}

/// A number of digits alone: no sign.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}
