//! What to do about text that is not YAML: the parser's sentence, said again for a person who did not
//! write the parser.

use crate::finding::Finding;
use crate::model::Span;

/// A finding for the parser's error `info` at byte `at`.
pub fn explain(text: &str, at: usize, info: &str) -> Finding {
    let at = nearest_text(text, at.min(text.len()));
    let line = line_around(text, at);
    if info.contains("escape") || info.contains("hexadecimal") {
        return by_message(text, at, line, info);
    }
    tab(text, line)
        .or_else(|| bare_mark(text, line))
        .or_else(|| bare_ipv6(text, line))
        .or_else(|| left_open(text, at, info))
        .unwrap_or_else(|| by_message(text, at, line, info))
}

/// The first bracket that stands inside `limit` others.
///
/// The parser looks ahead through all brackets that could still be a key, in time that grows with the
/// square of their number: so they are counted before it sees them.
pub fn too_many_brackets(text: &str, limit: usize) -> Option<Span> {
    let mut scan = Scan::default();
    text.char_indices().find_map(|(at, c)| {
        scan.step(at, c);
        (scan.brackets.len() > limit).then_some(Span {
            start: at,
            end: at + c.len_utf8(),
        })
    })
}

fn finding(span: Span, title: &str, label: &str, help: &str) -> Finding {
    Finding::error(Some(span), title.into())
        .label(label.into())
        .help(help)
}

fn tab(text: &str, line: Span) -> Option<Finding> {
    let content = text.get(line.start..line.end)?;
    let indent = content.len() - content.trim_start().len();
    let tab = content.get(..indent)?.find('\t')?;
    Some(finding(
        Span {
            start: line.start + tab,
            end: line.start + indent,
        },
        "a tab indents this line",
        "YAML allows only blanks here",
        "replace the tab by blanks, two for each level",
    ))
}

/// An unquoted value that starts with a character that YAML keeps for itself.
fn bare_mark(text: &str, line: Span) -> Option<Finding> {
    let content = text.get(line.start..line.end)?;
    let mut scan = Scan::default();
    for (at, c) in content.char_indices() {
        if scan.step(at, c) != Kind::ValueStart || !matches!(c, '*' | '@' | '`' | '%') {
            continue;
        }
        let rest = &content[at..];
        let length = rest.find([',', ']', '}', ' ', '#']).unwrap_or(rest.len());
        let word = &rest[..length];
        // `*name` alone is an alias like any other; a dot after the star is a wildcard.
        if c == '*' && !word.starts_with("*.") && !word.starts_with("*:") {
            continue;
        }
        let label = if c == '*' {
            "YAML reads this as an alias"
        } else {
            "YAML keeps this character for itself"
        };
        return Some(finding(
            Span {
                start: line.start + at,
                end: line.start + at + length,
            },
            &format!("a text that starts with {c} needs quotation marks"),
            label,
            &format!("write \"{word}\""),
        ));
    }
    None
}

/// `[::]:443` without quotation marks.
fn bare_ipv6(text: &str, line: Span) -> Option<Finding> {
    let content = text.get(line.start..line.end)?;
    let mut scan = Scan::default();
    for (at, c) in content.char_indices() {
        if scan.step(at, c) != Kind::ValueStart || c != '[' {
            continue;
        }
        let rest = &content[at..];
        let length = rest.find([',', ' ', '}', '#']).unwrap_or(rest.len());
        let word = &rest[..length];
        if let Some((inside, _)) = word.split_once("]:")
            && inside.contains(':')
        {
            return Some(finding(
                Span {
                    start: line.start + at,
                    end: line.start + at + length,
                },
                "an IPv6 address needs quotation marks",
                "YAML reads the bracket as the start of a list",
                &format!("write \"{word}\""),
            ));
        }
    }
    None
}

/// A bracket or quotation mark before `at` that is not closed.
fn left_open(text: &str, at: usize, info: &str) -> Option<Finding> {
    let mut scan = Scan::default();
    for (here, c) in text.char_indices() {
        // A quotation that the parser complains about starts where it complains.
        if here > at {
            break;
        }
        scan.step(here, c);
    }
    let one = |start: usize| Span {
        start,
        end: start + 1,
    };
    if let Some((start, mark)) = scan
        .quote
        .filter(|_| info.contains("quoted") || info.contains("eof"))
    {
        return Some(finding(
            one(start),
            "this quotation does not end",
            "opened here",
            &format!("add the closing {mark}"),
        ));
    }
    let (start, bracket) = scan.brackets.last().copied()?;
    let (close, example) = if bracket == '[' {
        (']', "[a, b]")
    } else {
        ('}', "{ chain: a.pem, key: a.key }")
    };
    Some(finding(
        one(start),
        &format!("this {bracket} is not closed, or a comma is missing behind it"),
        "opened here",
        &format!("write {example}; add the {close}, or the comma between two entries"),
    ))
}

fn by_message(text: &str, at: usize, line: Span, info: &str) -> Finding {
    let rest = text.get(at..line.end).unwrap_or_default();
    let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = Span {
        start: at,
        end: at + length,
    };
    let has = |part: &str| info.contains(part);
    if has("mapping values are not allowed") {
        return finding(
            word,
            "a colon where none can be",
            "a value ends before a colon with a blank behind it",
            "quote a value that holds a colon and a blank; or put the second field on a line of its own",
        );
    }
    if has("escape") || has("hexadecimal") {
        return finding(
            word,
            "a backslash in a double-quoted text starts an escape",
            "in here is one that YAML does not know",
            "use single quotation marks, or write the backslash twice",
        );
    }
    if has("anchor") {
        return finding(
            word,
            "this alias names no anchor",
            "nothing is called so before this line",
            "mark the value that is meant with &name, above; or quote a text that starts with *",
        );
    }
    if has("indentation") || has("block") || has("simple key") || has("context") {
        return finding(
            word,
            "this line does not fit the lines above it",
            "the structure breaks here",
            "fields of one section start in one column, entries of a list with `- `, and a colon ends a name",
        );
    }
    finding(
        word,
        "this is not YAML",
        info,
        "check quotation marks, brackets and indentation, here and on the line above",
    )
}

/// What a character is to YAML, roughly: enough to tell quotations, comments and brackets from text.
#[derive(Default)]
struct Scan {
    quote: Option<(usize, char)>,
    brackets: Vec<(usize, char)>,
    comment: bool,
    /// Inside an unquoted value.
    plain: bool,
    blank: bool,
}

#[derive(PartialEq, Eq)]
enum Kind {
    ValueStart,
    Other,
}

impl Scan {
    fn step(&mut self, at: usize, c: char) -> Kind {
        let after_blank = std::mem::replace(&mut self.blank, c.is_whitespace()) || at == 0;
        if c == '\n' {
            self.comment = false;
            self.plain = false;
            return Kind::Other;
        }
        if self.comment {
            return Kind::Other;
        }
        if let Some((_, mark)) = self.quote {
            if c == mark {
                self.quote = None;
                self.plain = true;
            }
            return Kind::Other;
        }
        let inside = !self.brackets.is_empty();
        match c {
            '#' if after_blank => self.comment = true,
            ':' | '-' if !self.plain || c == ':' => self.plain = false,
            ',' if inside => self.plain = false,
            ']' | '}' if inside => {
                let opening = if c == ']' { '[' } else { '{' };
                // One that closes something else leaves the culprit where it is.
                if self
                    .brackets
                    .last()
                    .is_some_and(|(_, open)| *open == opening)
                {
                    self.brackets.pop();
                }
                self.plain = true;
            }
            c if c.is_whitespace() => {}
            _ if self.plain => {}
            '"' | '\'' => {
                self.quote = Some((at, c));
                return Kind::ValueStart;
            }
            '[' | '{' => {
                // Deeper than the tree is ever read, the position no longer matters.
                if self.brackets.len() < 64 {
                    self.brackets.push((at, c));
                }
                return Kind::ValueStart;
            }
            _ => {
                self.plain = true;
                return Kind::ValueStart;
            }
        }
        Kind::Other
    }
}

/// A parser often notices at the next line or the end of the file; steps back to the last text.
fn nearest_text(text: &str, at: usize) -> usize {
    let at = (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default();
    let here = text.get(at..).and_then(|rest| rest.chars().next());
    if here.is_some_and(|c| !c.is_whitespace()) {
        return at;
    }
    let before = text.get(..at).unwrap_or_default().trim_end();
    before
        .char_indices()
        .next_back()
        .map_or(at, |(last, _)| last)
}

/// The line that byte `at` is on, without its end.
fn line_around(text: &str, at: usize) -> Span {
    let start = text
        .get(..at)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |newline| newline + 1);
    let end = text
        .get(at..)
        .and_then(|rest| rest.find(['\n', '\r']))
        .map_or(text.len(), |length| at + length);
    Span { start, end }
}
