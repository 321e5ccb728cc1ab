//! Fields with one value: switches, numbers, durations, words, paths.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::{Section, Shape};
use crate::model::Spanned;
use crate::tree::{Node, Value};
use crate::value::{self, Complaint};

/// Fields with one value.
impl<'a> Section<'a> {
    /// `true` or `false`.
    pub fn flag(&mut self, name: &'static str, default: bool, about: &'static str) -> bool {
        let text = if default { "true" } else { "false" };
        self.field(name, Shape::Flag, text, about)
            .and_then(|item| item.parse(flag))
            .unwrap_or(default)
    }

    /// `on` or `off`.
    pub fn switch(&mut self, name: &'static str, default: bool, about: &'static str) -> bool {
        let text = if default { "on" } else { "off" };
        self.field(name, Shape::Switch, text, about)
            .and_then(|item| item.parse(switch))
            .unwrap_or(default)
    }

    /// A number in a range, or `off`.
    pub fn threshold(
        &mut self,
        name: &'static str,
        range: RangeInclusive<f64>,
        default: Option<f64>,
        about: &'static str,
    ) -> Option<f64> {
        let (low, high) = (*range.start(), *range.end());
        let text = default.map_or_else(|| "off".to_owned(), |value| value.to_string());
        let Some(item) = self.field(name, Shape::Threshold(low, high), &text, about) else {
            return default;
        };
        if item.is_off() {
            return None;
        }
        let read = |text: &str| {
            let allowed = |complaint: Complaint| Complaint {
                allowed: format!("a number from {low} to {high}, or off"),
                ..complaint
            };
            // Where the range ends at 1, the number is a share, and people write shares in per cent.
            let number = if high <= 1.0 {
                value::share(text)
            } else {
                value::number(text)
            }
            .map_err(allowed)?;
            if range.contains(&number) {
                return Ok(number);
            }
            let (low, high) = (low.to_string(), high.to_string());
            Err(allowed(out_of_range(number < *range.start(), &low, &high)))
        };
        item.parse(read).map_or(default, Some)
    }

    /// A duration in a range, or `off`.
    pub fn duration_or_off(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        default: Duration,
        about: &'static str,
    ) -> Option<Duration> {
        let off = self
            .fields
            .iter()
            .any(|given| given.name == name && is_off(given.node));
        if off {
            let text = value::duration_text(default);
            self.field(name, Shape::Text("duration, or off"), &text, about);
            return None;
        }
        let duration = self.duration(name, range, default, about);
        self.reshape(name, Shape::Text("duration, or off"));
        Some(duration)
    }

    /// A whole number in a range.
    pub fn count(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
        about: &'static str,
    ) -> u64 {
        self.field(
            name,
            Shape::Count(range.clone()),
            &default.to_string(),
            about,
        )
        .and_then(|item| {
            item.parse(|text| {
                let (low, high) = (range.start().to_string(), range.end().to_string());
                within(value::count(text), &range, &low, &high)
            })
        })
        .unwrap_or(default)
    }

    /// A number of bytes in a range.
    pub fn size(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
        about: &'static str,
    ) -> u64 {
        self.field(name, Shape::Text("size"), &value::size_text(default), about)
            .and_then(|item| {
                item.parse(|text| {
                    let (low, high) = (
                        value::size_text(*range.start()),
                        value::size_text(*range.end()),
                    );
                    within(value::size(text), &range, &low, &high)
                })
            })
            .unwrap_or(default)
    }

    /// A duration in a range.
    pub fn duration(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        default: Duration,
        about: &'static str,
    ) -> Duration {
        let text = value::duration_text(default);
        self.field(name, Shape::Text("duration"), &text, about)
            .and_then(|item| {
                item.parse(|text| {
                    let duration = value::duration(text).map_err(|complaint| {
                        // Nobody means seconds where an hour is the least.
                        if *range.start() >= Duration::from_secs(3_600)
                            && text.parse::<f64>().is_ok()
                        {
                            complaint.help(format!("write {text}d for days, or {text}h for hours"))
                        } else {
                            complaint
                        }
                    })?;
                    if range.contains(&duration) {
                        return Ok(duration);
                    }
                    let (low, high) = (
                        value::duration_text(*range.start()),
                        value::duration_text(*range.end()),
                    );
                    Err(out_of_range(duration < *range.start(), &low, &high))
                })
            })
            .unwrap_or(default)
    }

    /// One of several words; the first is the default.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&'static str, T)],
        default: T,
        default_text: &str,
        about: &'static str,
    ) -> T {
        let words: Vec<&'static str> = choices.iter().map(|(word, _)| *word).collect();
        self.field(name, Shape::Choice(words), default_text, about)
            .and_then(|item| item.parse(|text| choose(text, choices)))
            .unwrap_or(default)
    }

    /// A file that must be named.
    pub fn path(&mut self, name: &'static str, about: &'static str) -> Option<Spanned<PathBuf>> {
        self.field(name, Shape::Text("path"), "", about)
            .and_then(|item| item.path())
    }
}

fn flag(text: &str) -> Result<bool, Complaint> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            let complaint = value::complain("is not true or false", "true or false");
            Err(match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "1" | "true" | "y" => complaint.help("write true"),
                "no" | "off" | "0" | "false" | "n" => complaint.help("write false"),
                _ => complaint,
            })
        }
    }
}

fn switch(text: &str) -> Result<bool, Complaint> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => {
            let complaint = value::complain("is not on or off", "on or off");
            Err(match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "1" | "true" | "y" => complaint.help("write on"),
                "no" | "off" | "0" | "false" | "n" => complaint.help("write off"),
                _ => complaint,
            })
        }
    }
}

/// Whether a value is the word `off`.
pub fn is_off(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if matches!(text.as_str(), "off" | "false"))
}

fn within(
    value: Result<u64, Complaint>,
    range: &RangeInclusive<u64>,
    low: &str,
    high: &str,
) -> Result<u64, Complaint> {
    let value = value.map_err(|complaint| Complaint {
        allowed: format!("{}, from {low} to {high}", complaint.allowed),
        ..complaint
    })?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(out_of_range(value < *range.start(), low, high))
}

fn out_of_range(below: bool, low: &str, high: &str) -> Complaint {
    let (what, help) = if below {
        ("is too small", format!("write {low} or more"))
    } else {
        ("is too large", format!("write {high} or less"))
    };
    value::complain(what, format!("from {low} to {high}")).help(help)
}

/// One of several words, whatever its case.
pub fn choose<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, Complaint> {
    if let Some((_, value)) = choices
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
    {
        return Ok(*value);
    }
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let complaint = value::complain("is none of the choices", crate::suggest::one_of(&words));
    Err(match crate::suggest::nearest(text, &words) {
        Some(word) => complaint.help(format!("did you mean {word}?")),
        None => complaint,
    })
}
