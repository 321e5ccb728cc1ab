//! What to do about text that is not YAML: the parser's sentence, said again for a person who did not
//! write the parser.

use crate::finding::Finding;
use crate::model::Span;

/// A finding for the parser's error `info` at byte `at`.
pub fn explain(text: &str, at: usize, info: &str) -> Finding {
    let at = nearest_text(text, at.min(text.len()));
    let line = line_around(text, at);
    let value = text.get(at..line.end).unwrap_or_default();
    let first = value.chars().next().unwrap_or(' ');
    let lead = text.get(line.start..line.end).unwrap_or_default();
    let indent = &lead[..lead.len() - lead.trim_start().len()];
    let span = Span {
        start: at,
        end: at + first.len_utf8().min(value.len()),
    };

    if indent.contains('\t') {
        let start = line.start + indent.find('\t').unwrap_or_default();
        return finding(
            Span {
                start,
                end: line.start + indent.len(),
            },
            "a tab indents this line",
            "YAML allows only spaces here",
            "replace the tab by spaces, two for each level",
        );
    }
    if let Some(star) = bare_mark(text, line, '*') {
        return finding(
            star,
            "a text that starts with * must be quoted",
            "YAML reads this as an alias",
            "write \"*.shop.example\" with quotation marks",
        );
    }
    if let Some(mark) = bare_mark(text, line, '@').or_else(|| bare_mark(text, line, '`')) {
        return finding(
            mark,
            "a text that starts with @ or ` must be quoted",
            "YAML reserves this character",
            "put the value between quotation marks",
        );
    }
    let (title, help) = match info {
        _ if info.contains("unexpected end of stream") || info.contains("unexpected eof") => (
            "the file ends inside a quotation",
            "add the closing quotation mark",
        ),
        _ if info.contains("flow sequence") || info.contains("misplaced bracket") => (
            "a list in brackets does not end, or lacks a comma",
            "write [a, b]; quote text that holds brackets, such as \"[::]:443\"",
        ),
        _ if info.contains("flow") => (
            "a mapping in braces does not end, or lacks a comma",
            "write { chain: a.pem, key: a.key }",
        ),
        _ if info.contains("mapping values are not allowed") => (
            "a second colon on this line",
            "quote a value that holds a colon and a blank, or check the indentation of this line",
        ),
        _ if info.contains("escape") => (
            "a backslash in a double-quoted text starts an escape",
            "use single quotation marks, or write the backslash twice",
        ),
        _ if info.contains("anchor") => (
            "this alias names no anchor",
            "mark the value that is meant with &name before using *name",
        ),
        _ if info.contains("indentation")
            || info.contains("block")
            || info.contains("simple key") =>
        {
            (
                "this line does not fit the lines above it",
                "fields of one section start in the same column, list entries with `- `, and a colon ends a name",
            )
        }
        _ => (
            "this is not YAML",
            "check quotation marks, brackets and indentation here and on the line above",
        ),
    };
    finding(span, title, info, help)
}

fn finding(span: Span, title: &str, label: &str, help: &str) -> Finding {
    Finding::error(Some(span), title.into())
        .label(label.into())
        .help(help)
}

/// A parser often notices at the next line or the end of the file; steps back to the last text.
fn nearest_text(text: &str, at: usize) -> usize {
    let at = floor(text, at);
    let here = text.get(at..).and_then(|rest| rest.chars().next());
    if here.is_some_and(|c| !c.is_whitespace()) {
        return at;
    }
    let before = text.get(..at).unwrap_or_default().trim_end();
    before
        .char_indices()
        .next_back()
        .map(|(last, _)| last)
        .unwrap_or(at)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default()
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

/// An unquoted value on this line that starts with `mark`, after a dash, colon, comma or bracket.
fn bare_mark(text: &str, line: Span, mark: char) -> Option<Span> {
    let content = text.get(line.start..line.end)?;
    let mut quote: Option<char> = None;
    let mut before = '-';
    for (at, c) in content.char_indices() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '#' => return None,
            None if c == mark && matches!(before, '-' | ':' | ',' | '[' | '{') => {
                let rest = &content[at..];
                let length = rest.find([',', ']', '}', ' ', '#']).unwrap_or(rest.len());
                // `*name` alone is an alias like any other; a dot after the star is a wildcard.
                if mark != '*' || rest.starts_with("*.") || rest.starts_with("*:") {
                    return Some(Span {
                        start: line.start + at,
                        end: line.start + at + length,
                    });
                }
            }
            None => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    None
}
