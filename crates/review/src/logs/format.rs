//! Which format a log has: named, given as text, or detected from the first line that fits one.

use serde::Serialize;

use super::fields::{Field, Fields};
use super::template::Template;
use super::{guess, json};

/// Whose log it is, as far as its lines or the caller tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// Tollgate.
    Tollgate,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Some other program, or not told.
    Unknown,
}

/// How lines are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    shape: Shape,
    product: Product,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Json,
    Logfmt,
    Nginx,
    Haproxy,
    Template(Template),
}

/// Why a format cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No such format.
    #[error("no format is named {0}; there are tollgate, json, logfmt, nginx and haproxy")]
    Unknown(String),
    /// A format text that names no field.
    #[error(
        "the log format names no field; give nginx's log_format with its $names, or HAProxy's with its %names"
    )]
    NoField,
    /// Two fields without anything between them.
    #[error(
        "nothing stands between {first} and {second}, so nobody can tell them apart; log a space between them"
    )]
    NothingBetween {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// `tollgate`, `json` and `logfmt` tell their own names.
    #[error("{0} needs no log format text; leave --log-format away, or name nginx or haproxy")]
    NoTextWanted(String),
}

impl Format {
    /// The format with this name, and the text of its `log_format` or `log-format` if there is one. Without a name
    /// a text is HAProxy's if it has a `%` and no `$`. `None` when nothing is said: then lines decide.
    pub fn named(name: Option<&str>, text: Option<&str>) -> Result<Option<Self>, FormatError> {
        let (shape, product) = match (name, text) {
            (None, None) => return Ok(None),
            (None, Some(text)) if text.contains('%') && !text.contains('$') => {
                (Shape::Template(Template::haproxy(text)?), Product::Haproxy)
            }
            (None | Some("nginx"), Some(text)) => {
                (Shape::Template(Template::nginx(text)?), Product::Nginx)
            }
            (Some("haproxy"), Some(text)) => {
                (Shape::Template(Template::haproxy(text)?), Product::Haproxy)
            }
            (Some("json"), None) => (Shape::Json, Product::Unknown),
            (Some("logfmt"), None) => (Shape::Logfmt, Product::Unknown),
            (Some("tollgate"), None) => (Shape::Json, Product::Tollgate),
            (Some("nginx"), None) => (Shape::Nginx, Product::Nginx),
            (Some("haproxy"), None) => (Shape::Haproxy, Product::Haproxy),
            (Some(name @ ("json" | "logfmt" | "tollgate")), Some(_)) => {
                return Err(FormatError::NoTextWanted(name.to_owned()));
            }
            (Some(name), _) => return Err(FormatError::Unknown(name.to_owned())),
        };
        Ok(Some(Self { shape, product }))
    }

    /// The format that this line has, if it has one that is known.
    pub fn detect(line: &str) -> Option<Self> {
        let line = line.trim_start();
        if line.starts_with('{') {
            json::read(line).ok()?;
            let product = product_of(line);
            return Some(Self {
                shape: Shape::Json,
                product,
            });
        }
        if guess::haproxy_start(line).is_some() {
            return Some(Self {
                shape: Shape::Haproxy,
                product: Product::Haproxy,
            });
        }
        let is_pair = line.split(' ').next().is_some_and(|word| {
            let key = word.split_once('=').map(|(key, _)| key);
            key.is_some_and(|key| !key.is_empty() && !key.contains(['"', '[', '/']))
        });
        if is_pair {
            let product = product_of(line);
            return Some(Self {
                shape: Shape::Logfmt,
                product,
            });
        }
        guess::nginx(line).ok().map(|_| Self {
            shape: Shape::Nginx,
            product: Product::Nginx,
        })
    }

    /// Whose log it is.
    pub fn product(&self) -> Product {
        self.product
    }

    /// In words.
    pub fn name(&self) -> &'static str {
        match (&self.shape, self.product) {
            (Shape::Json, Product::Tollgate) => "Tollgate, JSON or logfmt",
            (Shape::Json, _) => "JSON",
            (Shape::Logfmt, Product::Tollgate) => "Tollgate, logfmt",
            (Shape::Logfmt, _) => "logfmt",
            (Shape::Nginx, _) => "nginx, guessed from its lines",
            (Shape::Haproxy, _) => "HAProxy, guessed from its lines",
            (Shape::Template(_), Product::Haproxy) => "HAProxy, by its log-format",
            (Shape::Template(_), _) => "nginx, by its log_format",
        }
    }

    /// Reads a line, or says why it does not fit.
    pub(super) fn read<'a>(&self, line: &'a str) -> Result<Fields<'a>, String> {
        match &self.shape {
            Shape::Json if self.product == Product::Tollgate && !line.starts_with('{') => {
                guess::logfmt(line)
            }
            Shape::Json => json::read(line),
            Shape::Logfmt => guess::logfmt(line),
            Shape::Nginx => guess::nginx(line),
            Shape::Haproxy => guess::haproxy(line),
            Shape::Template(template) => template.read(line),
        }
    }

    /// Whether a format text has this field; `None` when only the lines can tell.
    pub(super) fn names(&self, field: Field) -> Option<bool> {
        match &self.shape {
            Shape::Template(template) => Some(template.names(field)),
            _ => None,
        }
    }
}

/// Tollgate's lines say what happened, and the first field is the time.
fn product_of(line: &str) -> Product {
    let head: String = line.chars().take(80).collect();
    let own = head.contains("\"event\":") || head.contains(" event=");
    match own {
        true => Product::Tollgate,
        false => Product::Unknown,
    }
}
