//! One value of the file: read as text, list or path, and what to say when it is none.

use std::path::PathBuf;
use std::rc::Rc;

use crate::desk::Desk;
use crate::finding::{Finding, Severity};
use crate::model::{Span, Spanned};
use crate::tree::{Node, Value};
use crate::value::{self, Complaint};

/// A value of the file together with the field that it belongs to.
#[derive(Clone)]
pub struct Item<'a> {
    /// Where findings go.
    pub desk: &'a Desk<'a>,
    /// Dotted name of the field, for messages.
    pub path: String,
    /// What holds when the line is left out, in words; empty when it cannot be.
    pub default: String,
    /// The value itself.
    pub node: &'a Node,
}

/// A text as it stands in the file, for a message: shortened, control characters escaped, without the
/// password of a URL and without the inside of a key.
pub fn shown(text: &str) -> String {
    if text.contains("-----BEGIN") {
        return "-----BEGIN ...".to_owned();
    }
    let text = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &text[..scheme + 3], &text[at..])
        }
        _ => text.to_owned(),
    };
    let short: String = text.chars().take(60).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    let escaped = short.escape_debug().to_string();
    format!(
        "{}{dots}",
        escaped.replace("\\\"", "\"").replace("\\'", "'")
    )
}

impl<'a> Item<'a> {
    /// The place to mark: the scalar, or the first line of anything longer.
    pub fn span(&self) -> Span {
        self.desk.headline(self.node.span)
    }

    /// Reports an error at this value.
    pub fn error(&self, title: String, label: impl Into<String>, help: impl Into<String>) {
        self.desk.report(
            Finding::error(Some(self.span()), title)
                .label(label.into())
                .help(help),
        );
    }

    /// Reports a warning at this value.
    pub fn warning(&self, title: String, label: impl Into<String>, help: impl Into<String>) {
        self.desk.report(
            Finding::warning(Some(self.span()), title)
                .label(label.into())
                .help(help),
        );
    }

    /// Reports what a value reader said about the text of this value.
    pub fn complain(&self, complaint: Complaint) {
        let value = match &self.node.value {
            Value::Text(text) => format!(": {}", shown(text)),
            Value::Empty | Value::List(_) | Value::Map(_) => String::new(),
        };
        let default = (!self.default.is_empty())
            .then(|| format!("remove the line to get the default, {}", self.default));
        self.desk.report(Finding {
            severity: Severity::Error,
            span: Some(self.span()),
            title: format!("`{}{value}` {}", self.path, complaint.what),
            label: format!("allowed: {}", complaint.allowed),
            help: complaint.help.or(default),
        });
    }

    /// The scalar, if it is one; no finding otherwise.
    pub fn scalar(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            Value::Empty | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The scalar; reports anything else, and an empty one.
    pub fn text(&self) -> Option<&'a str> {
        match self.scalar() {
            Some("") => {
                self.error(
                    format!("`{}` is an empty text", self.path),
                    "nothing stands between the quotation marks",
                    "give it a value, or remove the line",
                );
                None
            }
            Some(text) => Some(text),
            None => {
                self.wrong_type("one value");
                None
            }
        }
    }

    /// The scalar through a reader; reports what the reader says.
    pub fn parse<T>(&self, read: impl FnOnce(&str) -> Result<T, Complaint>) -> Option<T> {
        match read(self.text()?) {
            Ok(value) => Some(value),
            Err(complaint) => {
                self.complain(complaint);
                None
            }
        }
    }

    /// The entries of a list; reports anything else.
    pub fn list(&self) -> Vec<Item<'a>> {
        match &self.node.value {
            Value::List(items) => items.iter().map(|node| self.entry(node)).collect(),
            Value::Text(text) => {
                self.error(
                    format!("`{}` takes a list", self.path),
                    "this is one value",
                    format!("write {}: [\"{}\"]", self.leaf(), shown(text)),
                );
                Vec::new()
            }
            Value::Empty | Value::Map(_) => {
                self.wrong_type("a list");
                Vec::new()
            }
        }
    }

    /// Reports a list without entries, if it is one.
    pub fn empty_list(&self, help: &str) {
        if matches!(&self.node.value, Value::List(items) if items.is_empty()) {
            self.error(
                format!("`{}` is an empty list", self.path),
                "at least one entry is needed",
                help,
            );
        }
    }

    fn entry(&self, node: &'a Rc<Node>) -> Item<'a> {
        Item {
            desk: self.desk,
            path: self.path.clone(),
            default: String::new(),
            node,
        }
    }

    fn leaf(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    pub fn wrong_type(&self, wanted: &str) {
        let (is, help) = match &self.node.value {
            Value::Empty => (
                "empty",
                format!("write {wanted} after the dash, or remove it"),
            ),
            Value::Text(_) => ("one value", self.type_help(wanted)),
            Value::List(_) => ("a list", self.type_help(wanted)),
            Value::Map(_) => ("a mapping", self.type_help(wanted)),
        };
        self.error(
            format!("`{}` takes {wanted}", self.path),
            format!("this is {is}"),
            help,
        );
    }

    fn type_help(&self, wanted: &str) -> String {
        let name = self.leaf();
        match wanted {
            "a list" => {
                format!("write {name}: [ ... ], or one entry a line, each starting with `- `")
            }
            "one value" => format!(
                "write {name}: value; a value that starts with [ or {{ needs quotation marks"
            ),
            _ => format!(
                "write the fields on the lines below, two blanks deeper; they are {}",
                crate::schema::fields_at(&self.path).join(", ")
            ),
        }
    }
}

impl Item<'_> {
    /// A path, made absolute from the folder of the file.
    pub fn path(&self) -> Option<Spanned<PathBuf>> {
        let value = self.parse(|text| {
            if text.starts_with("~/") {
                return Err(value::complain(
                    "starts with ~, which only a shell expands",
                    "an absolute path, or one relative to this file",
                )
                .help("write the path out, such as /home/name/..."));
            }
            if text.contains('\0') {
                return Err(value::complain("holds a NUL byte", "a path"));
            }
            if text.contains("-----BEGIN") {
                return Err(value::complain("is PEM text", "the path of a file")
                    .help("save it to a file and name the file here"));
            }
            Ok(self.desk.base.join(text))
        })?;
        Some(Spanned {
            value,
            span: self.span(),
        })
    }
}
