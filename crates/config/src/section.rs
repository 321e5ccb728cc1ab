//! Sections: mappings of the file read field by field.
//!
//! Asking for a field says its name, shape, bounds, default and meaning in one place. What was asked
//! for is remembered: it tells an unknown field from a known one, and it is what the JSON Schema is
//! made of. So the reader and its description cannot differ.

mod single;

use std::ops::RangeInclusive;

use crate::desk::Desk;
use crate::finding::Finding;
use crate::item::{Item, shown};
use crate::model::{Span, Spanned};
use crate::tree::{Entry, Node, Value};

pub use single::choose;
use single::is_off;

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
