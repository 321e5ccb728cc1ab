//! Sections: mappings of the file read field by field.
//!
//! Asking for a field says its name, shape, bounds, default and meaning in one place. What was asked
//! for is remembered: it tells an unknown field from a known one, and it is what the JSON Schema is
//! made of. So the reader and its description cannot differ.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::desk::Desk;
use crate::finding::Finding;
use crate::item::{Item, shown};
use crate::model::{Span, Spanned};
use crate::tree::{Entry, Node, Value};
use crate::value::{self, Complaint};

/// Most fields of one mapping; bounds the search for repeated ones.
const MAX_FIELDS: usize = 200;

/// What a field is, as far as a description goes.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Any text; the word says what kind.
    Text(&'static str),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(RangeInclusive<u64>),
    /// A number from 0 to 1.
    Share,
    /// `on` or `off`.
    Switch,
    /// A number from the first to the second, or `off`.
    Threshold(f64, f64),
    /// One of these words.
    Choice(Vec<&'static str>),
    /// A list of these.
    List(Box<Shape>),
    /// A mapping with these fields.
    Section(Vec<Field>),
    /// One of several.
    Either(Vec<Shape>),
}

/// One field as it was asked for.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name in the file.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// Default in words; empty when there is none.
    pub default: String,
    /// What it is for, one sentence.
    pub about: &'static str,
}

/// Values that are sections.
impl<'a> Item<'a> {
    /// Whether the value is the word `off`.
    pub fn is_off(&self) -> bool {
        is_off(self.node)
    }

    /// The value as a section; reports anything else and hands out an absent one.
    pub fn section(&self) -> Section<'a> {
        let mut section = Section::absent(self.desk, self.path.clone());
        match &self.node.value {
            Value::Map(entries) => section.fill(entries, self.span()),
            Value::Empty | Value::Text(_) | Value::List(_) => self.wrong_type("a mapping"),
        }
        section
    }

    /// The value as a section, where a text stands for a section with only the field `name`.
    pub fn section_or(&self, name: &'a str) -> Section<'a> {
        match &self.node.value {
            Value::Text(_) => Section {
                fields: vec![Given {
                    name,
                    key_span: self.span(),
                    node: self.node,
                }],
                span: Some(self.span()),
                bare: Some(name),
                ..Section::absent(self.desk, self.path.clone())
            },
            Value::Empty | Value::List(_) | Value::Map(_) => self.section(),
        }
    }
}

/// A field that the file gives.
#[derive(Clone)]
struct Given<'a> {
    name: &'a str,
    key_span: Span,
    node: &'a Node,
}

/// A mapping of the file that is being read.
pub struct Section<'a> {
    /// Where findings go.
    pub desk: &'a Desk<'a>,
    /// Dotted name, empty at the top.
    path: String,
    /// Its first line; `None` when the file does not have the section.
    span: Option<Span>,
    fields: Vec<Given<'a>>,
    /// The field that stands for the whole, when a text was given in place of a mapping.
    bare: Option<&'a str>,
    asked: Vec<Field>,
}

impl<'a> Section<'a> {
    /// A section that the file does not have: every field is at its default.
    pub fn absent(desk: &'a Desk<'a>, path: String) -> Self {
        Self {
            desk,
            path,
            span: None,
            fields: Vec::new(),
            bare: None,
            asked: Vec::new(),
        }
    }

    /// The whole file.
    pub fn root(desk: &'a Desk<'a>, node: &'a Node) -> Self {
        let item = Item {
            desk,
            path: String::new(),
            default: String::new(),
            node,
        };
        let mut section = Self::absent(desk, String::new());
        match &node.value {
            Value::Map(entries) => section.fill(entries, item.span()),
            Value::Empty | Value::Text(_) | Value::List(_) => item.error(
                "the file is not a mapping of sections".into(),
                "`listeners:` and `sites:` are expected here",
                "start each section with its name and a colon at the beginning of a line",
            ),
        }
        section
    }

    fn fill(&mut self, entries: &'a [Entry], span: Span) {
        self.span = Some(span);
        if entries.len() > MAX_FIELDS {
            self.desk.report(
                Finding::error(
                    Some(span),
                    format!("this mapping has {} fields", entries.len()),
                )
                .label(format!("at most {MAX_FIELDS} are read"))
                .help("no section has so many; this is not the file that was meant"),
            );
            return;
        }
        for entry in entries {
            if let Some(first) = self.fields.iter().find(|given| given.name == entry.key) {
                self.desk.report(
                    Finding::error(
                        Some(entry.key_span),
                        format!("`{}` is given twice", self.name_of(&shown(&entry.key))),
                    )
                    .label(format!(
                        "the first one is on line {}",
                        self.desk.line(first.key_span)
                    ))
                    .help("keep one of the two"),
                );
                continue;
            }
            self.fields.push(Given {
                name: &entry.key,
                key_span: entry.key_span,
                node: &entry.node,
            });
        }
    }

    fn name_of(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else if self.bare == Some(field) {
            self.path.clone()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// Its first line; the start of the file when it is absent.
    pub fn span(&self) -> Span {
        self.span.unwrap_or_default()
    }

    /// Whether the file has this section.
    pub fn is_given(&self) -> bool {
        self.span.is_some()
    }

    /// Place of a field's name, when the file gives the field.
    pub fn place_of(&self, name: &str) -> Option<Span> {
        self.fields
            .iter()
            .find(|given| given.name == name)
            .map(|given| given.key_span)
    }

    /// Reports an error at a field's name; nothing when the field is not given.
    pub fn refuse(&self, name: &str, title: String, label: &str, help: &str) {
        if let Some(span) = self.place_of(name) {
            self.desk.report(
                Finding::error(Some(span), title)
                    .label(label.to_owned())
                    .help(help),
            );
        }
    }

    /// Reports a field that must be there.
    pub fn missing(&self, name: &str, help: &str) {
        if self.span.is_none() {
            return;
        }
        self.desk.report(
            Finding::error(
                Some(self.span()),
                format!("`{}` is missing", self.name_of(name)),
            )
            .label(format!("needs `{name}:`"))
            .help(help),
        );
    }

    /// Asks for a field. `None` when it is absent, or empty, which is reported.
    pub fn field(
        &mut self,
        name: &'static str,
        shape: Shape,
        default: &str,
        about: &'static str,
    ) -> Option<Item<'a>> {
        self.asked.push(Field {
            name,
            shape,
            default: default.to_owned(),
            about,
        });
        let given = self.fields.iter().find(|given| given.name == name)?;
        let item = Item {
            desk: self.desk,
            path: self.name_of(name),
            default: default.to_owned(),
            node: given.node,
        };
        if matches!(given.node.value, Value::Empty) {
            let inner = crate::schema::fields_at(&item.path);
            let help = if !inner.is_empty() {
                format!(
                    "give it fields, or remove the line to get the defaults; the fields are {}",
                    inner.join(", ")
                )
            } else if default.is_empty() {
                "give it a value".to_owned()
            } else {
                format!("give it a value, or remove the line to get the default, {default}")
            };
            self.desk.report(
                Finding::error(Some(given.key_span), format!("`{}` is empty", item.path))
                    .label("nothing follows the colon".into())
                    .help(help),
            );
            return None;
        }
        Some(item)
    }

    /// A section of its own below this one; an absent one is read as empty.
    pub fn section<T>(
        &mut self,
        name: &'static str,
        about: &'static str,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> T {
        let item = self.field(name, Shape::Section(Vec::new()), "", about);
        let at = self.asked.len() - 1;
        let mut inner = match item {
            Some(item) => item.section(),
            None => Section::absent(self.desk, self.name_of(name)),
        };
        let value = read(&mut inner);
        self.asked[at].shape = Shape::Section(inner.finish());
        value
    }

    /// A section that is something by being there.
    pub fn optional_section<T>(
        &mut self,
        name: &'static str,
        about: &'static str,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> Option<T> {
        let given = self.place_of(name).is_some();
        if !given && !self.desk.describing {
            self.field(name, Shape::Section(Vec::new()), "none", about);
            return None;
        }
        let value = self.section(name, about, read);
        given.then_some(value)
    }

    /// A list of sections. `text_field` names the field that a bare text stands for.
    pub fn sections<T>(
        &mut self,
        name: &'static str,
        about: &'static str,
        text_field: Option<&'static str>,
        mut read: impl FnMut(&mut Section<'a>) -> Option<T>,
    ) -> Vec<Spanned<T>> {
        let item = self.field(name, Shape::Text(""), "", about);
        let at = self.asked.len() - 1;
        if self.desk.describing {
            let mut inner = Section::absent(self.desk, self.name_of(name));
            let _ = read(&mut inner);
            let section = Shape::Section(inner.finish());
            self.asked[at].shape = Shape::List(Box::new(match text_field {
                Some(_) => Shape::Either(vec![Shape::Text("text"), section]),
                None => section,
            }));
        }
        let mut values = Vec::new();
        let entries = item.as_ref().map(Item::list).unwrap_or_default();
        if let (Some(item), true) = (&item, entries.is_empty()) {
            item.empty_list("write at least one between the brackets");
        }
        for entry in entries {
            let mut inner = match text_field {
                Some(field) => entry.section_or(field),
                None => entry.section(),
            };
            let given = inner.is_given();
            let value = read(&mut inner);
            let span = entry.span();
            inner.finish();
            if let (true, Some(value)) = (given, value) {
                values.push(Spanned { value, span });
            }
        }
        values
    }

    /// Adds what a hand-read field was found to take; for shapes that `section` and `sections` cannot say.
    pub fn reshape(&mut self, name: &str, shape: Shape) {
        if let Some(field) = self.asked.iter_mut().find(|field| field.name == name) {
            field.shape = shape;
        }
    }

    /// Reports every field that nobody asked for, and hands out the fields asked for.
    pub fn finish(self) -> Vec<Field> {
        for given in &self.fields {
            if !self.desk.is_full() && !self.asked.iter().any(|field| field.name == given.name) {
                let names: Vec<&str> = self.asked.iter().map(|field| field.name).collect();
                let title = format!("`{}` is not a field", self.name_of(&shown(given.name)));
                let help = crate::suggest::field(given.name, &self.path, &names);
                self.desk.report(
                    Finding::error(Some(given.key_span), title)
                        .label("unknown here".into())
                        .help(help),
                );
            }
        }
        self.asked
    }
}

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

fn is_off(node: &Node) -> bool {
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
