//! A `log_format` of nginx or a `log-format` of HAProxy, and lines read by it.

use std::borrow::Cow;

use super::fields::{Field, Fields};
use super::format::FormatError;

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field(Field, String),
}

/// Parts of a line, in order; between two fields is always a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Reads the text of an nginx `log_format`, without its quotes.
    pub fn nginx(text: &str) -> Result<Self, FormatError> {
        let mut parts = Parts::default();
        let mut rest = text;
        for escape in ["default", "json", "none"] {
            let prefix = format!("escape={escape}");
            rest = rest.strip_prefix(&prefix).map_or(rest, str::trim_start);
        }
        while let Some(at) = rest.find('$') {
            parts.literal(&rest[..at]);
            rest = &rest[at + 1..];
            let braced = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (name, after) = match braced {
                Some(found) => found,
                None => split_name(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            };
            // $server_name is the first name of the server block, which the configuration chose.
            let field = match name {
                "server_name" => Field::Site,
                name => Field::named(name),
            };
            parts.field(field, format!("${name}"))?;
            rest = after;
        }
        parts.literal(rest);
        parts.finish()
    }

    /// Reads the text of a HAProxy `log-format`, without its quotes.
    pub fn haproxy(text: &str) -> Result<Self, FormatError> {
        let mut parts = Parts::default();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '\\']) {
            parts.literal(&rest[..at]);
            let is_escape = rest[at..].starts_with('\\');
            rest = &rest[at + 1..];
            if is_escape || rest.starts_with('%') {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                parts.literal(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            let mut quoted = false;
            if let Some((flags, after)) =
                rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
            {
                quoted = flags.contains("+Q");
                rest = after;
            }
            let (name, after) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                Some(found) => found,
                None => split_name(rest, |byte| byte.is_ascii_alphanumeric()),
            };
            if quoted && name != "o" {
                parts.literal("\"");
            }
            let bare = name.split([',', '(']).next().unwrap_or(name);
            let field = match (bare, name.contains("hdr(host)")) {
                (_, true) => Field::Host,
                ("o" | "", false) => Field::Other,
                (bare, false) => Field::named(bare),
            };
            if !matches!(name, "" | "o") {
                parts.field(field, format!("%{name}"))?;
            }
            if quoted && name != "o" {
                parts.literal("\"");
            }
            rest = after;
        }
        parts.literal(rest);
        parts.finish()
    }

    /// Whether any part tells something of TLS.
    pub fn names(&self, wanted: Field) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Field(field, _) if *field == wanted))
    }

    /// Reads a line, or says what does not fit. A syslog header may stand in front of it.
    pub fn read<'a>(&self, line: &'a str) -> Result<Fields<'a>, String> {
        let first = match self.fit(line) {
            Ok(fields) => return Ok(fields),
            Err(first) => first,
        };
        match after_syslog(line) {
            Some(rest) => self.fit(rest).map_err(|_| first),
            None => Err(first),
        }
    }

    fn fit<'a>(&self, line: &'a str) -> Result<Fields<'a>, String> {
        let mut fields = Fields::default();
        let mut rest = line;
        let mut skipped_space = false;
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Literal(literal) => {
                    let literal = match skipped_space {
                        true => literal.strip_prefix(' ').unwrap_or(literal),
                        false => literal,
                    };
                    skipped_space = false;
                    rest = rest.strip_prefix(literal).ok_or_else(|| {
                        format!("no {literal:?} at byte {}", line.len() - rest.len() + 1)
                    })?;
                }
                // HAProxy leaves out what was not captured, and the space behind it.
                Part::Field(Field::Captures, _) if !rest.starts_with('{') => skipped_space = true,
                Part::Field(field, name) => {
                    let end = match self.parts.get(index + 1) {
                        Some(Part::Literal(next)) => value_end(*field, rest, next)
                            .ok_or_else(|| format!("no {next:?} behind {name}"))?,
                        _ => rest.len(),
                    };
                    fields.set(*field, Cow::Borrowed(&rest[..end]));
                    rest = &rest[end..];
                }
            }
        }
        match rest.trim_end() {
            "" => Ok(fields),
            _ => Err(format!(
                "more than the format has, from byte {}",
                line.len() - rest.len() + 1
            )),
        }
    }
}

/// Where the value ends that `next` follows: its first occurrence, except where a value has spaces of its own.
fn value_end(field: Field, text: &str, next: &str) -> Option<usize> {
    let is_space = next.starts_with(' ');
    let from = match field {
        // 21/Nov/2026:18:35:29 +0000
        Field::Time if is_space && text.as_bytes().get(2) == Some(&b'/') => {
            match text.as_bytes().get(21) {
                Some(b'+' | b'-') => 26,
                _ => 0,
            }
        }
        Field::Request if is_space => text.find(" HTTP/").map_or(0, |at| at + 1),
        Field::Captures => text.find('}')?,
        _ => 0,
    };
    text.get(from..)?.find(next).map(|at| from + at)
}

/// What follows a syslog header such as `Nov 21 18:35:29 host haproxy[71]: `.
pub fn after_syslog(line: &str) -> Option<&str> {
    let at = line.find("]: ").map(|at| at + 3);
    let at = at.or_else(|| line.find(": ").map(|at| at + 2))?;
    (at < 200).then(|| &line[at..])
}

fn split_name(text: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    let length = text.bytes().take_while(|byte| belongs(*byte)).count();
    text.split_at(length)
}

#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn literal(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(before)) => before.push_str(text),
            _ => self.0.push(Part::Literal(text.to_owned())),
        }
    }

    fn field(&mut self, field: Field, name: String) -> Result<(), FormatError> {
        if let Some(Part::Field(_, before)) = self.0.last() {
            return Err(FormatError::NothingBetween {
                first: before.clone(),
                second: name,
            });
        }
        self.0.push(Part::Field(field, name));
        Ok(())
    }

    fn finish(self) -> Result<Template, FormatError> {
        if self.0.iter().all(|part| matches!(part, Part::Literal(_))) {
            return Err(FormatError::NoField);
        }
        Ok(Template { parts: self.0 })
    }
}
