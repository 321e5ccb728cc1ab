//! What is wrong with a configuration, and how it is shown.

use std::borrow::Cow;
use std::fmt::Write as _;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::model::Span;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can be used, but hardly as meant.
    Warning,
}

/// One thing that is wrong, with its place and a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the configuration can be used all the same.
    pub severity: Severity,
    /// Where in the text; `None` for the file as a whole.
    pub span: Option<Span>,
    /// What is wrong, with the value.
    pub title: String,
    /// What is allowed; shown under the marked text. May be empty.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
}

impl Finding {
    /// An error without label and help.
    pub fn error(span: Option<Span>, title: String) -> Self {
        Self {
            severity: Severity::Error,
            span,
            title,
            label: String::new(),
            help: None,
        }
    }

    /// A warning without label and help.
    pub fn warning(span: Option<Span>, title: String) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(span, title)
        }
    }

    /// The same with a text under the marked place.
    #[must_use]
    pub fn label(mut self, label: String) -> Self {
        self.label = label;
        self
    }

    /// The same with a way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The findings as text for a person: file, line and column, the line itself, what is allowed, the way
/// out, and a last line that counts them. `color` adds ANSI styles. Empty when there are no findings.
pub fn render(name: &str, text: &str, findings: &[Finding], color: bool) -> String {
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    }
    .decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for finding in findings {
        out.push_str(&renderer.render(&[group(name, text, finding)]));
        out.push_str("\n\n");
    }
    if !findings.is_empty() {
        let _ = writeln!(out, "{} in {name}", count(findings));
    }
    out
}

/// `"3 errors, 1 warning"`.
fn count(findings: &[Finding]) -> String {
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let number = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    match (errors, findings.len() - errors) {
        (errors, 0) => number(errors, "error"),
        (0, warnings) => number(warnings, "warning"),
        (errors, warnings) => {
            format!(
                "{}, {}",
                number(errors, "error"),
                number(warnings, "warning")
            )
        }
    }
}

fn group<'a>(name: &'a str, text: &'a str, finding: &'a Finding) -> Group<'a> {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&finding.title));
    match finding.span {
        Some(span) => group = group.element(snippet(name, text, span, &finding.label)),
        None => {
            group = group.element(annotate_snippets::Origin::path(name));
            if !finding.label.is_empty() {
                group = group.element(Level::NOTE.message(&finding.label));
            }
        }
    }
    match &finding.help {
        Some(help) => group.element(Level::HELP.message(help)),
        None => group,
    }
}

/// The line of `span`; a long line is cut around the span by the renderer.
fn snippet<'a>(
    name: &'a str,
    text: &'a str,
    span: Span,
    label: &'a str,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let span = inside(text, span);
    let before = &text[..span.start];
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[span.end..]
        .find(['\n', '\r'])
        .map_or(text.len(), |length| span.end + length);
    let number = 1 + text[..line].bytes().filter(|byte| *byte == b'\n').count();
    let annotation = AnnotationKind::Primary.span(span.start - line..span.end - line);
    let annotation = if label.is_empty() {
        annotation
    } else {
        annotation.label(label)
    };
    Snippet::source(without_keys(&text[line..end]))
        .path(name)
        .line_start(number)
        .annotation(annotation)
}

/// The same text with what follows `PRIVATE KEY-----` blotted out, byte for byte.
fn without_keys(line: &str) -> Cow<'_, str> {
    const MARK: &str = "PRIVATE KEY-----";
    let Some(at) = line.find(MARK) else {
        return Cow::Borrowed(line);
    };
    let (head, tail) = line.split_at(at + MARK.len());
    let blotted: String = tail
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { '*' } else { c })
        .collect();
    Cow::Owned(format!("{head}{blotted}"))
}

/// A span that lies in the text, on character boundaries, and marks one line at most.
fn inside(text: &str, span: Span) -> Span {
    let boundary = |at: usize| {
        (0..=at.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or_default()
    };
    let start = boundary(span.start);
    let end = boundary(span.end).max(start);
    let line = text[start..end].find(['\n', '\r']).unwrap_or(end - start);
    Span {
        start,
        end: start + line,
    }
}
